"""Read, check, import, window, rescale and synthesise a recorded load."""
