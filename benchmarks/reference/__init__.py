"""What the benchmarks of the load generator are held against: a server whose times are known."""
