"""The faults of a server that serves: what each request sets off."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping

from advisor.standin.faults import Fault, Faults
from advisor.standin.live import LiveEngine
from advisor.standin.refusals import OUT_OF_MEMORY, TRACE
from advisor.standin.startup import print_as

#: A process that lives for ten minutes unless it is killed.
_SLEEPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
_FATAL = "EngineCore encountered a fatal error."
_COMPILES = (
    "Triton kernel JIT compilation during inference: _compute_slot_mapping_kernel. "
    "This causes a latency spike; consider extending warmup to cover this shape/config."
)
#: Those that spoil single answers.
_IN_ANSWERS = (
    Fault.ERROR_EVENT,
    Fault.SHORT_ANSWER,
    Fault.RESET,
    Fault.OVERLOADED,
    Fault.GARBAGE_SSE,
)
#: Times as long a step takes while a server is cold, and how much longer with each request.
_COLD, _SLOWER_BY = 20.0, 0.5
_IN_ALL_ANSWERS = (Fault.SPLIT_SSE, Fault.MISSING_DONE)


class Conduct:
    """Counts the requests of one server and does at each what is due."""

    def __init__(self, faults: Faults, engine: LiveEngine, stop: Callable[[], None]) -> None:
        """`stop` ends the server in an orderly way, with exit status 1."""
        self.faults = faults
        self._engine = engine
        self._stop = stop
        self._requests = 0
        self._under_load: Mapping[Fault, Callable[[], None]] = {
            Fault.OOM_UNDER_LOAD: self._run_out_of_memory,
            Fault.CRASH: _die,
            Fault.DEAD_ENGINE: self._lose_the_engine,
            Fault.HANG: engine.halt,
            Fault.JIT: lambda: print_as(
                "Worker", "jit_monitor.py:125", [_COMPILES], level="WARNING"
            ),
        }

    def serving(self) -> None:
        """The server is up and has its signal handlers, which it may not keep."""
        if Fault.REFUSES_TO_DIE in self.faults:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def arrived(self) -> Fault | None:
        """One request more; the fault of its answer."""
        self._requests += 1
        self._engine.slowness = self._slowness
        for fault, do in self._under_load.items():
            if self._requests - 1 == self.faults.count(fault):
                do()
        for fault in _IN_ANSWERS:
            every = self.faults.count(fault)
            if every is not None and self._requests % every == 0:
                return fault
        return next((fault for fault in _IN_ALL_ANSWERS if fault in self.faults), None)

    @property
    def is_healthy(self) -> bool:
        """What `/health` says."""
        return Fault.DEAD_ENGINE in self.faults or not self._engine.is_dead

    @property
    def health_delay_s(self) -> float:
        """0 until it has work, or nobody would find it ready."""
        return 0.0 if self._requests == 0 else self.faults.seconds(Fault.SLOW_HEALTH)

    def asked_for_metrics(self) -> bool:
        """Whether there are any."""
        at_rest = self.faults.count(Fault.CRASH_AT_REST)
        if at_rest is not None and self._requests >= at_rest:
            _die()
        return Fault.NO_METRICS not in self.faults

    @property
    def prefix_hits(self) -> int:
        """What `/metrics` says, in tokens."""
        scheduler = self._engine.scheduler
        if Fault.WARM_CACHE in self.faults:
            return scheduler.prefix_queries
        return scheduler.prefix_hits

    @property
    def _slowness(self) -> float:
        if Fault.SLOWING in self.faults:
            return 1.0 + _SLOWER_BY * self._requests
        cold = self.faults.count(Fault.COLD)
        return 1.0 if cold is None or self._requests > cold else _COLD

    def _run_out_of_memory(self) -> None:
        _print_fatal(OUT_OF_MEMORY)
        self._engine.fail()
        self._stop()

    def _lose_the_engine(self) -> None:
        _print_fatal("RuntimeError: Worker proc VllmWorker-0 died unexpectedly")
        self._engine.fail()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def start_child_in_own_session() -> None:
    """A process that neither the group's signals nor SIGTERM reach."""
    # -S -E: nothing is imported, so it is deaf before anything could end it
    subprocess.Popen([sys.executable, "-S", "-E", "-c", _SLEEPER], start_new_session=True)


def _print_fatal(cause: str) -> None:
    print_as("EngineCore", "core.py:1402", [_FATAL, TRACE, cause])
    dead = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
    print_as("APIServer", "async_llm.py:690", ["AsyncLLM output_handler failed.", TRACE, dead])
