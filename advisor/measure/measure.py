"""Replays at one load multiple, pooled into a Measurement."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from advisor.measure.curves import Curves, Pool, pool_all
from advisor.measure.judge import judge_pool
from advisor.measure.tail import seen_at
from advisor.terms.calibration import Calibration
from advisor.terms.measurement import Measurement, Percentiles
from advisor.terms.target import Metric, Target


def measure(
    replays: Sequence[Curves],
    targets: Sequence[Target],
    multiple: float,
    confidence: float,
    calibration: Calibration | None = None,
    windows: int = 0,
) -> Measurement:
    """Pool replays and judge every target at a one-sided level (0.5..1).

    `windows` that were planned and spared by an early stop count as perfect, and let no target be
    met. Rates are over the windows' time. A metric without samples has no percentiles. Raises
    ValueError when there is no counted request, since then there is no error rate either.
    """
    requests = sum(replay.requests for replay in replays)
    if requests == 0:
        raise ValueError("nothing to measure: no counted request in any replay")
    seconds = sum(replay.window_ns for replay in replays) / 1e9
    failed = sum(int(replay.failed.sum()) for replay in replays)
    good = sum(int(good_requests(replay, targets).sum()) for replay in replays)
    pools = pool_all([*replays, *spared(replays, windows)])
    return Measurement(
        multiple=multiple,
        percentiles=tuple(found for m in Metric if (found := percentiles(pools[m], m))),
        judgements=tuple(judge_pool(pools[t.metric], t, confidence, calibration) for t in targets),
        output_tokens_per_s=sum(replay.output_tokens for replay in replays) / seconds,
        total_tokens_per_s=sum(replay.total_tokens for replay in replays) / seconds,
        goodput_rps=good / seconds,
        error_rate=failed / requests,
        requests=requests,
        replays=len(replays),
        stopped=any(replay.stopped for replay in replays),
    )


def spared(replays: Sequence[Curves], windows: int) -> list[Curves]:
    """What stands for the windows that an early stop spared: as large as the largest of those
    played, none of it seen. Empty where no replay was stopped."""
    if not any(replay.stopped for replay in replays):
        return []
    largest = max(replays, key=lambda replay: replay.requests)
    return [largest.unseen()] * max(windows - len(replays), 0)


def percentiles(sample: Pool, metric: Metric) -> Percentiles | None:
    """Nearest-rank percentiles of the samples seen; None for errors or without any."""
    n = len(sample) - sample.unseen
    if metric is Metric.ERRORS or n == 0:
        return None
    p50, p95, p99 = (seen_at(sample, share) / 1e6 for share in (0.5, 0.05, 0.01))
    return Percentiles(metric, p50, p95, p99, n)


def good_requests(replay: Curves, targets: Sequence[Target]) -> NDArray[np.bool_]:
    """bool[requests]: ended, did not fail, and meets every latency target by its own samples.

    One value decides TTFT, TPOT and E2E; for the gap metrics the request's own percentile does.
    A request without samples of a metric (one token has no gap) is not held against it. The
    error rate is no property of one request and plays no part.
    """
    good = replay.ended & ~replay.failed
    for target in targets:
        if target.metric is Metric.ERRORS:
            continue
        curve = replay.by_metric[target.metric]
        allowed = np.floor(np.round(curve.own * target.allowed_share, 9))
        good &= curve.exceeding(target.limit_ns) <= allowed
    return good
