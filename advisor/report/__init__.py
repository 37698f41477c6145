"""The results of a job in files for other programs."""
