"""Statistics of one or more replays."""

from dataclasses import dataclass

from advisor.terms.target import Metric, Target, Verdict


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of one metric, in milliseconds, pooled over replays; inf where failures reach that deep."""

    metric: Metric
    p50_ms: float
    p95_ms: float
    p99_ms: float
    samples: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """One target held against pooled replays; shares are 0..1."""

    target: Target
    verdict: Verdict
    #: the percentile and its bounds in ms, the rate in % for errors; None without samples
    estimate: float | None
    lower: float | None
    upper: float | None
    #: share of samples over the limit, and its one-sided bounds
    share_over: float | None
    share_over_lower: float | None
    share_over_upper: float | None
    samples: int
    blocks: int
    #: one-sided level that the bounds were taken at
    confidence: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured at one load multiple."""

    multiple: float
    percentiles: tuple[Percentiles, ...]
    judgements: tuple[Judgement, ...]
    #: over the counted window, drain excluded
    output_tokens_per_s: float
    total_tokens_per_s: float
    #: requests per second that met every per-request target and did not fail
    goodput_rps: float
    error_rate: float
    requests: int
    replays: int
    #: an early stop kept part of the load from being seen
    stopped: bool = False

    @property
    def verdict(self) -> Verdict:
        """MET when every target is; MISSED when any is; else UNDECIDED."""
        verdicts = {judgement.verdict for judgement in self.judgements}
        if Verdict.MISSED in verdicts:
            return Verdict.MISSED
        return Verdict.UNDECIDED if Verdict.UNDECIDED in verdicts or not verdicts else Verdict.MET


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two settings on the same windows: the ratio of one percentile, ours over theirs."""

    metric: Metric
    percentile: float
    ratio: float
    #: two-sided interval of the ratio
    lower_ratio: float
    upper_ratio: float
    pairs: int


@dataclass(frozen=True, slots=True)
class RateComparison:
    """The same of a rate, of which more is better: ours over theirs."""

    ratio: float
    #: two-sided interval of the ratio
    lower_ratio: float
    upper_ratio: float
    pairs: int


@dataclass(frozen=True, slots=True)
class Noise:
    """A/A: how far one setting, on launches of its own, differs from itself in one percentile."""

    metric: Metric
    percentile: float
    #: ratios between 1 / factor and factor are noise
    factor: float
    launches: int


@dataclass(frozen=True, slots=True)
class Headroom:
    """The largest multiple that meets every target lies in [low, high]; None = not bracketed."""

    #: proven to meet; None when nothing tried did
    low: float | None
    #: proven to miss; None when nothing tried did
    high: float | None
    #: where the interpolated worst excess crosses zero: a point estimate, steers the search only
    estimate: float

    def __str__(self) -> str:
        if self.low is None and self.high is None:
            return "undecided"
        if self.low is None:
            return f"< {self.high:g}"
        return f">= {self.low:g}" if self.high is None else f"{self.low:g} .. {self.high:g}"
