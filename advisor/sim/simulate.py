"""A replay in virtual time: a load in, traces, server facts and a timeline out."""

from dataclasses import dataclass

import numpy as np

from advisor.sim import plain
from advisor.sim.config import EngineConfig
from advisor.sim.cost import CostModel
from advisor.sim.played import Played, Served, resolved
from advisor.sim.scheduler import Scheduler
from advisor.sim.steps import Limits
from advisor.sim.timeline import Timeline
from advisor.terms.job import ServerFacts
from advisor.terms.load import Load
from advisor.terms.traces import MISSING, ClientAudit, Int64, RequestStatus, Traces

#: The virtual client sends on time, always.
_AUDIT = ClientAudit(0.0, 0.0, 0.0, None, None, None, "virtual")


@dataclass(frozen=True, slots=True, eq=False)
class SimRun:
    """What one simulated replay gave."""

    traces: Traces
    #: over the whole replay, lead-in included
    facts: ServerFacts
    timeline: Timeline


def simulate(
    load: Load,
    config: EngineConfig,
    *,
    window_start_ns: int,
    window_end_ns: int,
    seed: int = 0,
    cost: CostModel | None = None,
    compiled: bool = True,
) -> SimRun:
    """Play a load against the engine until its last request ends.

    `seed` numbers the launch: two launches of one setting differ by a small common factor of all
    step times and by the noise of each. `cost` replaces the model of the configuration, as when
    it was calibrated. A request whose prompt and output exceed max_model_len fails at once, as
    HTTP 400. A turn that waits for an answer is planned for the end of its pause.
    `compiled=False` is plain Python; the result is the same.
    """
    cost = cost or CostModel.of(config, seed)
    limits = Limits.of(config)
    load = resolved(load, config.max_model_len)
    served = Served.of(load, config.max_model_len, cost.ingest_ns)
    played = _play(load, served, limits, cost, compiled)
    timeline = Timeline.of(played.log, limits.num_blocks - 1)
    traces = _traces(load, served, played.events, (window_start_ns, window_end_ns))
    return SimRun(traces, _facts(load, served, played, timeline, traces), timeline)


def _play(load: Load, served: Served, limits: Limits, cost: CostModel, compiled: bool) -> Played:
    if not compiled:
        return plain.play(load, served, Scheduler(limits), cost)
    # Imported late: it loads the compiler, which only a replay needs.
    from advisor.sim import compiled as fast

    return fast.play(load, served, limits, cost)


def _traces(load: Load, served: Served, tokens_ns: Int64, window_ns: tuple[int, int]) -> Traces:
    counts = np.zeros(len(load), dtype=np.int64)
    counts_served = load.output_length[served.rows]
    counts[served.rows] = counts_served
    offsets = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))
    events = tokens_ns
    if (np.diff(served.rows) < 0).any():
        # From order of arrival to order of the rows given.
        first_served = np.cumsum(counts_served) - counts_served
        shift = np.repeat(offsets[served.rows] - first_served, counts_served)
        events = np.empty_like(tokens_ns)
        events[np.arange(len(tokens_ns)) + shift] = tokens_ns
    ok = counts > 0
    end = load.at_ns.copy()
    end[ok] = events[offsets[1:][ok] - 1]
    planned = load.at_ns.copy()
    if load.turns is not None:
        waited = load.turns.before >= 0
        planned[waited] = end[load.turns.before[waited]] + load.turns.pause_ns[waited]
        end[~ok] = planned[~ok]
    return Traces(
        planned_ns=planned,
        sent_ns=planned.copy(),
        end_ns=end,
        status=np.where(ok, RequestStatus.OK, RequestStatus.HTTP).astype(np.uint8),
        counted=load.counted,
        input_tokens=load.input_length,
        prompt_tokens=np.where(ok, load.input_length, MISSING),
        output_tokens=load.output_length,
        event_offsets=offsets,
        event_ns=events,
        event_tokens=np.ones(len(events), dtype=np.int32),
        window_start_ns=window_ns[0],
        window_end_ns=window_ns[1],
        audit=_AUDIT,
    )


def _facts(
    load: Load, served: Served, played: Played, timeline: Timeline, traces: Traces
) -> ServerFacts:
    any_step = len(timeline) > 0
    rows, output = served.rows, load.output_length[served.rows]
    first = traces.event_ns[traces.event_offsets[:-1][rows]]
    last = traces.event_ns[traces.event_offsets[1:][rows] - 1]
    return ServerFacts(
        running_max=float(timeline.running.max()) if any_step else 0.0,
        waiting_max=float(timeline.waiting.max()) if any_step else 0.0,
        kv_cache_usage_max=float(timeline.kv_cache_usage.max()) if any_step else 0.0,
        preemptions=float(played.preemptions),
        prefix_cache_queries=float(played.prefix_queries),
        prefix_cache_hits=float(played.prefix_hits),
        prompt_tokens=float(load.input_length[rows].sum()),
        generation_tokens=float(output.sum()),
        ttft_s_sum=float((first - traces.planned_ns[rows]).sum()) / 1e9,
        ttft_count=float(len(rows)),
        itl_s_sum=float((last - first).sum()) / 1e9,
        itl_count=float((output - 1).sum()),
        queue_time_s=played.queued_ns / 1e9,
    )
