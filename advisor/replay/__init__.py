"""The open-loop load generator: a plan and an endpoint in, traces out."""
