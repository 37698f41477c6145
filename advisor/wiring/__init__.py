"""The one composition root: the doors ask here, and here alone rooms are put together."""
