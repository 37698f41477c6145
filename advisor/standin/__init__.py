"""vllm-sim: a stand-in server driven by the simulator.

`vllm-sim serve MODEL [vllm serve flags]` speaks vLLM's command line, log lines and HTTP surface,
and takes the time that the simulator says vLLM would take.
"""

from advisor.standin.command import main

__all__ = ["main"]
