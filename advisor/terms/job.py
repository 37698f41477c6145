"""A job, its trials, and what is known about the engine under test."""

from dataclasses import dataclass, field
from enum import StrEnum

from advisor.terms.calibration import Calibration
from advisor.terms.flags import FlagValue
from advisor.terms.measurement import Headroom, Measurement
from advisor.terms.outcome import Failure, ReplayOutcome, StopReason, TrialState
from advisor.terms.profile import Plan
from advisor.terms.setting import Setting
from advisor.terms.target import Target
from advisor.terms.traces import Traces


class Phase(StrEnum):
    """Why a trial was launched."""

    BASELINE = "baseline"
    SEARCH = "search"
    CONFIRM = "confirm"
    #: the baseline once more, while every other GPU set carries the same load
    NEIGHBOURS = "neighbours"
    #: the baseline once more beside a confirmation, to hold it against itself
    CONTROL = "control"

    @property
    def is_proof(self) -> bool:
        """Whether it plays held-out load: the search neither pays for it nor hears of it."""
        return self in (Phase.CONFIRM, Phase.CONTROL)


class Objective(StrEnum):
    HEADROOM = "headroom"
    GOODPUT = "goodput"
    THROUGHPUT = "throughput"
    LATENCY = "latency"
    COST = "cost"


class Api(StrEnum):
    """How load is sent; token ids are exact in length, text is what every server takes."""

    COMPLETIONS = "completions"
    CHAT = "chat"

    @property
    def path(self) -> str:
        return "/v1/chat/completions" if self is Api.CHAT else "/v1/completions"


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What the numbers were measured on."""

    kind: str
    version: str
    hardware: str
    model: str
    #: True for the simulator and for the stand-in
    simulated: bool
    #: that one launch has; None where there is none
    gpus: int | None = None


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Everything that defines a job; a resumed job reads it back from the ledger."""

    model: str
    profile_path: str
    profile_sha256: str
    engine: str
    hardware: str | None
    vllm_command: str
    baseline: str
    #: the Space as TOML text
    space: str
    sampler: str
    objective: Objective
    #: the job's load, as a multiple of the recorded one
    load: float
    #: search launches, the baseline's included
    launches: int
    time_budget_s: float | None
    confidence: float
    targets: tuple[Target, ...]
    accept_precision_change: bool
    seed: int
    #: sets of GPUs parted by `;`, each as CUDA_VISIBLE_DEVICES takes it; None: whatever is there
    gpus: str | None = None
    api: Api = Api.COMPLETIONS
    #: multiples of `load` at which headroom is looked for, ascending
    multiples: tuple[float, ...] = (0.25, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0)
    #: rounds of confirmation, each with one finalist on fresh held-out windows
    rounds: int = 2
    #: windows pooled for one verdict
    windows: int = 3
    #: what a rehearsal showed of the bounds; None where the simulator does not know the server
    calibration: Calibration | None = None
    #: the baseline is confirmed against itself, too, in each round with a finalist
    control_arm: bool = False
    #: money for one GPU for an hour; None: cost is told in GPU-hours alone
    gpu_price: float | None = None
    #: most GPU-hours of the search, the baseline's included; None: no limit
    gpu_hours: float | None = None

    @property
    def gpu_sets(self) -> tuple[str | None, ...]:
        """What each of the servers that may run side by side sees."""
        return (None,) if self.gpus is None else tuple(self.gpus.split(";"))


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Server-side counters over a span; None where this version does not export one."""

    running_max: float | None = None
    waiting_max: float | None = None
    kv_cache_usage_max: float | None = None
    preemptions: float | None = None
    prefix_cache_queries: float | None = None
    prefix_cache_hits: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    #: of the server's own latency histograms: seconds, and samples
    ttft_s_sum: float | None = None
    ttft_count: float | None = None
    itl_s_sum: float | None = None
    itl_count: float | None = None
    #: summed over the requests that were scheduled
    queue_time_s: float | None = None
    #: of all the launch's devices, None without any: mean use 0..1, extremes over the span
    device_use: float | None = None
    device_memory_max_bytes: float | None = None
    device_power_max_w: float | None = None
    device_clock_min_mhz: float | None = None
    #: why a device ran slower than asked; empty when none did
    throttled: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """What a started server said about itself."""

    #: read back from the server; flags it did not tell are absent
    resolved: tuple[tuple[str, FlagValue], ...]
    #: from exec to ready
    cold_start_s: float
    #: None where the server did not say
    kv_cache_tokens: int | None
    #: "asked X, runs Y" for each knob that the server changed or ignored
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """One replay as it goes into the ledger."""

    plan: Plan
    outcome: ReplayOutcome
    #: for a person: why, when not valid, and where the server tells of other latencies
    note: str
    traces: Traces
    facts: ServerFacts
    #: of one that was stopped early; stored in words, in the note
    stop: StopReason | None = None


@dataclass(frozen=True, slots=True)
class Soak:
    """How a server stood the profile's longest requests, all of them at once."""

    requests: int
    #: still served when the time was over
    unfinished: int = 0
    #: for a person: how it failed; empty when it did not
    trouble: str = ""

    @property
    def survived(self) -> bool:
        """It neither ended nor hung, and no request failed."""
        return not self.trouble


#: Where a trial comes from that takes back one change of the best setting, after the search.
SMALLER_CHANGE = "smaller change"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the searcher wants tried next."""

    setting: Setting
    #: for a person: baseline, sampler, retry of an interrupted trial, …
    origin: str


@dataclass(frozen=True, slots=True)
class TrialResult:
    """How a trial ended."""

    state: TrialState
    failure: Failure | None = None
    launch: Launch | None = None
    #: ascending by multiple
    measurements: tuple[Measurement, ...] = ()
    headroom: Headroom | None = None
    #: for a person, e.g. why nothing was scored
    note: str = ""
    #: GPUs that the launch used; None where that was not written down
    gpus: int | None = None
    #: requests open at one moment of its scored replays, at most; None without such a replay
    most_open: int | None = None
    #: None where it was not tried
    soak: Soak | None = None

    def at(self, multiple: float) -> Measurement | None:
        """The measurement at one load multiple, None when it was not replayed."""
        return next((m for m in self.measurements if m.multiple == multiple), None)


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting tried, as the ledger has it."""

    number: int
    phase: Phase
    setting: Setting
    origin: str
    result: TrialResult
    #: confirmation round and repeat, None in the search
    round: int | None = None
    repeat: int | None = None
    replays: int = 0
    elapsed_s: float | None = None
    #: of the launch's processes; None where there are none
    token: str | None = None
    #: seconds since some moment; their order is that in which the searcher heard of the trials.
    #: None while it runs. When it was is no part of what it is
    ended_s: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the ledger has it."""

    id: str
    spec: JobSpec
    #: absolute, after trial 0; before that as asked
    targets: tuple[Target, ...]
    engine: EngineInfo
    created_at: str
    state: str
    spent_windows: frozenset[str] = field(default_factory=frozenset)
