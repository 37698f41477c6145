"""The conductor of one job, and the seams it needs."""
