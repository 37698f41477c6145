"""Advisor finds the `vllm serve` setting that meets latency targets under a recorded load."""

from importlib.metadata import version

__version__ = version("advisor")
