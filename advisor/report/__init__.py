"""Files for people and for other programs: plots and tables of what was measured."""
