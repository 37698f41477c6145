"""Advisor finds the `vllm serve` setting that meets latency targets under a recorded load."""

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    """`__version__`, read from the package's metadata when it is asked for and not before."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("advisor")
