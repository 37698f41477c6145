"""Why a launch can fail, and what follows from each reason: one table.

The texts that show a reason stand in `engine.failures`; here is what a job does about it.
"""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a launch failed."""

    INVALID_SETTING = "invalid_setting"
    UNSUPPORTED = "unsupported"
    MODEL_UNAVAILABLE = "model_unavailable"
    OOM_LOAD = "oom_load"
    OOM_PROFILING = "oom_profiling"
    OOM_GRAPH_CAPTURE = "oom_graph_capture"
    OOM_SAMPLER = "oom_sampler"
    OOM_UNDER_LOAD = "oom_under_load"
    KV_CACHE_TOO_SMALL = "kv_cache_too_small"
    MEMORY_TAKEN = "memory_taken"
    PORT_TAKEN = "port_taken"
    START_STALLED = "start_stalled"
    START_TOO_SLOW = "start_too_slow"
    DIED = "died"
    CRASHED_UNDER_LOAD = "crashed_under_load"
    HUNG = "hung"
    WRONG_SERVER = "wrong_server"
    NOT_RELEASED = "not_released"
    DRIVER_FAULT = "driver_fault"
    UNCLASSIFIED = "unclassified"


class Effect(StrEnum):
    """What a failed launch means for the job."""

    #: the setting cannot run here: the sampler learns from it, by how far it was off
    INFEASIBLE = "infeasible"
    #: says nothing about the setting: the sampler is not told
    FAILED = "failed"
    #: the machine allows no further launch: the job ends as blocked
    BLOCKS = "blocks"


class Seen(StrEnum):
    """What the texts of a reason rest on."""

    #: a log of a real vLLM for CPUs, kept in the tests
    CPU = "on a real server, on a CPU"
    #: the supervisor itself sees it, no text of vLLM's is needed
    OURSELVES = "by Advisor itself, whatever the server says"
    #: only vLLM's source says so
    NEVER = "never by us on a GPU"


@dataclass(frozen=True, slots=True)
class Rule:
    """What follows from one reason."""

    effect: Effect
    #: further launches of the same setting, each counted as a launch
    retries: int
    seen: Seen
    #: what it means, one line for an operator
    meaning: str
    #: what to do about it, one line
    hint: str


_LESS = "lower --gpu-memory-utilization or --max-num-batched-tokens"

RULES: dict[Reason, Rule] = {
    Reason.INVALID_SETTING: Rule(
        Effect.INFEASIBLE, 0, Seen.CPU,
        "vLLM refused the flags: one is unknown, out of range or contradicts another",
        "compare the flag named in the message with `vllm serve --help=all` of this version",
    ),
    Reason.UNSUPPORTED: Rule(
        Effect.INFEASIBLE, 0, Seen.CPU,
        "this build, device or checkpoint cannot do what the flags ask for",
        "leave the value out of the Space, or give it the dtype and checkpoint that it needs",
    ),
    Reason.MODEL_UNAVAILABLE: Rule(
        Effect.FAILED, 0, Seen.CPU,
        "the checkpoint, its tokenizer or the disk space for them is missing",
        "check the path or repository, the access token and the free disk; download it first",
    ),
    Reason.OOM_LOAD: Rule(
        Effect.INFEASIBLE, 0, Seen.CPU,
        "the weights, or the share of memory asked for, are more than the device has",
        "lower --gpu-memory-utilization, use more GPUs or a smaller or quantised checkpoint",
    ),
    Reason.OOM_PROFILING: Rule(
        Effect.INFEASIBLE, 0, Seen.NEVER,
        "memory ran out in the trial pass with the largest batch",
        "lower --max-num-batched-tokens or --max-num-seqs",
    ),
    Reason.OOM_GRAPH_CAPTURE: Rule(
        Effect.INFEASIBLE, 0, Seen.NEVER,
        "memory ran out while CUDA graphs were captured, after the KV cache was claimed",
        "lower --gpu-memory-utilization a little, or capture fewer graph sizes",
    ),
    Reason.OOM_SAMPLER: Rule(
        Effect.INFEASIBLE, 0, Seen.NEVER,
        "memory ran out when the sampler was warmed up with as many requests as may run at once",
        "lower --max-num-seqs",
    ),
    Reason.OOM_UNDER_LOAD: Rule(
        Effect.INFEASIBLE, 0, Seen.NEVER,
        "the server started, and ran out of memory when the load came",
        f"{_LESS}: a clean start is no proof that a value holds",
    ),
    Reason.KV_CACHE_TOO_SMALL: Rule(
        Effect.INFEASIBLE, 0, Seen.CPU,
        "what is left for the KV cache does not hold one request of the model's context",
        "raise --gpu-memory-utilization, or lower --max-model-len or --max-num-batched-tokens",
    ),
    Reason.MEMORY_TAKEN: Rule(
        Effect.FAILED, 1, Seen.NEVER,
        "another process holds the device's memory, or gave some back while vLLM measured it",
        "end what else runs on the device; Advisor waits until its memory is quiet, then retries",
    ),
    Reason.PORT_TAKEN: Rule(
        Effect.FAILED, 1, Seen.CPU,
        "another process took the port between its choice and the server's start",
        "nothing, if the retry works; else see what opens ports on this machine",
    ),
    Reason.START_STALLED: Rule(
        Effect.FAILED, 1, Seen.OURSELVES,
        "the start stood still: no log line, no processor time, no memory, no growing cache",
        "look for a blocked download, file system or driver in the log's last lines",
    ),
    Reason.START_TOO_SLOW: Rule(
        Effect.INFEASIBLE, 0, Seen.OURSELVES,
        "the start went on, but was not over at the hard limit",
        "download and compile once by hand, so that the caches are warm",
    ),
    Reason.DIED: Rule(
        Effect.INFEASIBLE, 0, Seen.OURSELVES,
        "the server ended before it was ready, without an error text",
        "read the end of its log, in the folder `logs` of the data folder; if that says nothing, "
        "launch the same command by hand",
    ),
    Reason.CRASHED_UNDER_LOAD: Rule(
        Effect.INFEASIBLE, 0, Seen.CPU,
        "the server was ready, and ended under the load; what was measured until then is kept",
        "read the end of its log, in the folder `logs` of the data folder; when nothing outside "
        "ended it and memory sufficed, it may be a bug of this vLLM release",
    ),
    Reason.HUNG: Rule(
        Effect.FAILED, 1, Seen.OURSELVES,
        "requests were open and no token came, though the server seemed alive",
        "read the log's last lines; `/health` says nothing about the engine behind it",
    ),
    Reason.WRONG_SERVER: Rule(
        Effect.FAILED, 1, Seen.OURSELVES,
        "the address answered, but with another server's model",
        "see which other process serves on this machine",
    ),
    Reason.NOT_RELEASED: Rule(
        Effect.BLOCKS, 0, Seen.OURSELVES,
        "a process outlived SIGKILL, or the device's memory did not come back after the stop",
        "free the GPU (nvidia-smi shows its processes; a stuck driver needs a reboot), then "
        "start a new job",
    ),
    Reason.DRIVER_FAULT: Rule(
        Effect.BLOCKS, 0, Seen.NEVER,
        "the driver or the device is broken, missing or of another version than this build needs",
        "check nvidia-smi, dmesg (Xid) and the driver's version, then start a new job",
    ),
    Reason.UNCLASSIFIED: Rule(
        Effect.FAILED, 1, Seen.OURSELVES,
        "the server said something that Advisor does not know; nothing is guessed from it",
        "read the excerpt; the whole log is kept in the folder `logs` of the data folder",
    ),
}  # fmt: skip
