"""Traces in, measurements and verdicts out; pure arithmetic."""
