"""A setting becomes a serving endpoint, and ends without leaving a process."""
