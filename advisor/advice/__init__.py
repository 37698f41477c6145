"""Judge, choose and explain; pure."""
