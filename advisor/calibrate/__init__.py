"""Real runs -> the simulator's constants, with their uncertainty and what remains unexplained."""
