"""The nouns every room speaks in, and the tree of errors.

Times are integer nanoseconds inside (`_ns`), milliseconds only at the doors (`_ms`).
"""
