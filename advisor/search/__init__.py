"""The Space, its rules, and the samplers that ask for the next setting."""
