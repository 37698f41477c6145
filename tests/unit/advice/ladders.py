"""Trials measured at several load multiples, with estimates from which everything follows."""

from collections.abc import Sequence

from advisor.terms.job import Launch, ServerFacts, Trial
from advisor.terms.measurement import Measurement, Percentiles
from advisor.terms.setting import Setting
from advisor.terms.target import Metric, Verdict, parse_target
from tests.unit.advice.examples import ERRORS, MET, MISSED, TTFT, judged, trial

ITL = parse_target("itl:p99<=40ms")
TARGETS = (TTFT, ITL, ERRORS)
MULTIPLES = (0.5, 1.0, 1.5, 2.0, 3.0)
SEQS, TOKENS = "max_num_seqs", "max_num_batched_tokens"


def flags(seqs: int = 64, tokens: int = 2048) -> Setting:
    return Setting.of("m", {SEQS: seqs, TOKENS: tokens}, (SEQS, TOKENS))


def point(
    multiple: float = 1.0,
    ttft_ms: float = 500.0,
    itl_ms: float = 20.0,
    *,
    stopped: bool = False,
    itl_p50_ms: float = 10.0,
) -> Measurement:
    """A target is met where its estimate is within the limit, else missed."""
    latencies = ((TTFT, ttft_ms), (ITL, itl_ms))
    judgements = [
        judged(MET if value <= target.limit_ns / 1e6 else MISSED, target, value)
        for target, value in latencies
    ]
    percentiles = (
        Percentiles(Metric.TTFT, ttft_ms / 2, ttft_ms, 2 * ttft_ms, 600),
        Percentiles(Metric.ITL, itl_p50_ms, itl_ms / 2, itl_ms, 9000),
    )
    found = (*judgements, judged(MET, ERRORS, 0.0))
    return Measurement(multiple, percentiles, found, 1e3, 2e3, 4.5, 0.0, 600, 3, stopped)


def carrying(
    number: int,
    carries: float,
    of: Setting | None = None,
    itl_ms: float = 20.0,
    multiples: Sequence[float] = MULTIPLES,
) -> Trial:
    """TTFT grows with the load and reaches its limit at `carries` times the recorded one."""
    points = (point(each, 1000 * each / carries, itl_ms) for each in multiples)
    return trial(number, *points, of=of)


def facts(
    waiting: float | None = 0.0,
    running: float | None = 8.0,
    kv: float | None = 0.5,
    queue_s: float | None = 10.0,
    hits: float | None = 500.0,
    preemptions: float | None = 0.0,
) -> ServerFacts:
    """Of 100 requests: 0.5 s to the first token, 2 s from there to the last."""
    return ServerFacts(
        running_max=running,
        waiting_max=waiting,
        kv_cache_usage_max=kv,
        preemptions=preemptions,
        prefix_cache_queries=100_000.0,
        prefix_cache_hits=hits,
        ttft_s_sum=50.0,
        ttft_count=100.0,
        itl_s_sum=200.0,
        itl_count=2000.0,
        queue_time_s=queue_s,
    )


def launched(*ignored: str, **resolved: int) -> Launch:
    return Launch(tuple(resolved.items()), 30.0, None, ignored)


def verdicts(measured: Measurement) -> list[Verdict]:
    return [judgement.verdict for judgement in measured.judgements]
