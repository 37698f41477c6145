"""What vLLM's log tells at start: what was resolved, or why nothing starts."""

import logging
import os
import sys
import time
from collections.abc import Iterable

from advisor.sim import EngineConfig
from advisor.standin.arguments import Arguments
from advisor.terms.outcome import Failure, Reason

log = logging.getLogger("vllm-sim")

_GIB = 1 << 30
#: Frames of a traceback by which vLLM's out-of-memory errors can be told apart.
_FRAMES = {"profiling": "profile_run", "graph_capture": "capture_model", "load": "load_model"}


def configure_logging() -> None:
    """Lines on stderr in the manner of vLLM's."""
    handler = logging.StreamHandler()
    pattern = "%(levelname)s %(asctime)s [%(name)s] %(message)s"
    handler.setFormatter(logging.Formatter(pattern, datefmt="%m-%d %H:%M:%S"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)


def print_as(process: str, place: str, lines: Iterable[str], *, level: str = "ERROR") -> None:
    """To stderr, as one of vLLM's processes logs; `place` is its source file and line."""
    stamp = time.strftime("%m-%d %H:%M:%S")
    mark = f"({process} pid={os.getpid()}) {level} {stamp} [{place}]"
    sys.stderr.writelines(f"{mark} {line}\n" for line in lines)
    sys.stderr.flush()


def log_start(arguments: Arguments, config: EngineConfig) -> None:
    """The lines from which tools read a server's resolved configuration."""
    memory = config.memory
    given = {"model": arguments.setting.model, **dict(arguments.setting.flags)}
    log.info("stand-in: timed by a simulator of %s, no model runs here", arguments.hardware)
    log.info("non-default args: %s", given)
    log.info("Using max model len %d", config.max_model_len)
    if config.enable_chunked_prefill:
        log.info(
            "Chunked prefill is enabled with max_num_batched_tokens=%d.",
            config.max_num_batched_tokens,
        )
    log.info("Model loading took %.2f GiB memory", memory.weight_bytes / _GIB)
    log.info("Available KV cache memory: %.2f GiB", memory.kv_bytes / _GIB)
    log.info("GPU KV cache size: %s tokens", f"{config.kv_cache_tokens:,}")
    log.info(
        "Maximum concurrency for %s tokens per request: %.2fx",
        f"{config.max_model_len:,}",
        config.kv_cache_tokens / config.max_model_len,
    )
    graphs = memory.graph_bytes / _GIB
    log.info("CUDA graph pool memory: %.2f GiB (actual), %.2f GiB (estimated)", graphs, graphs)
    log.info("Starting vLLM API server 0 on http://%s:%d", arguments.host, arguments.port)


def log_refusal(failure: Failure) -> int:
    """Say why nothing starts, as vLLM would; returns the exit status.

    What is wrong with a single flag is argparse's business (status 2), the rest ends in a
    traceback of the engine (status 1).
    """
    flag, _, rest = failure.message.partition(" ")
    if failure.reason is Reason.INVALID_SETTING and flag.startswith("--"):
        log.error("vllm serve: error: argument %s: %s", flag, rest)
        return 2
    if failure.reason is Reason.INVALID_SETTING and failure.message.startswith("the simulator"):
        log.error("vllm serve: error: unrecognized arguments: %s", failure.message)
        return 2
    kind = "torch.OutOfMemoryError" if "CUDA out of memory" in failure.message else "ValueError"
    if (frame := _FRAMES.get(failure.stage)) is not None:
        log.error('  File "gpu_model_runner.py", line 1, in %s', frame)
    log.error("%s: %s", kind, failure.message)
    log.error("RuntimeError: Engine core initialization failed. See root cause above.")
    return 1
