import pytest

from advisor.replay.collect import Counted, Load, Record, build_traces, read_streams
from advisor.terms.traces import MISSING, RequestStatus, Traces
from tests.unit.replay.golden import DONE, chunk, usage
from tests.unit.replay.playing import request

ZERO_NS = 5_000_000_000
MS = 1_000_000


def sent_late(at_ms: int, late_ms: int, *reads: tuple[int, bytes]) -> Record:
    sent_ns = ZERO_NS + (at_ms + late_ms) * MS
    stamped = [(ZERO_NS + ms * MS, data) for ms, data in reads]
    return Record(sent_ns, stamped[-1][0] if reads else sent_ns, RequestStatus.OK, "", stamped)


def traces_of(plan: list[tuple[int, bool]], records: list[Record]) -> Traces:
    load = Load(
        requests=[request(at_ms, 8, 3, counted=counted) for at_ms, counted in plan],
        records=records,
        zero_ns=ZERO_NS,
        stopped_ns=ZERO_NS + 900 * MS,
        window=Counted(100 * MS, 800 * MS),
        lags_ns=[MS] * 98 + [7 * MS, 9 * MS],
        cpu_share=0.25,
    )
    return build_traces(load, read_streams(load))


def test_times_count_from_the_start_and_events_keep_their_reads_stamp() -> None:
    reads = (150, chunk(1)), (160, chunk(1) + chunk(1)), (170, usage(8, 3) + DONE)
    traces = traces_of([(0, False), (100, True)], [Record(), sent_late(100, 2, *reads)])
    assert traces.sent_ns.tolist() == [MISSING, 102 * MS]
    assert traces.end_ns.tolist() == [MISSING, 170 * MS]
    assert traces.event_offsets.tolist() == [0, 0, 3]
    assert traces.event_ns.tolist() == [150 * MS, 160 * MS, 160 * MS]
    assert traces.prompt_tokens.tolist() == [MISSING, 8]
    assert traces.status.tolist() == [RequestStatus.STOPPED, RequestStatus.OK]
    assert traces.audit is not None
    assert traces.audit.events_per_read == pytest.approx(1.5)
    assert traces.audit.loop_lag_p99_ms == 9.0
    assert traces.audit.cpu_share == 0.25


def test_a_late_lead_in_does_not_speak_against_the_counted_requests() -> None:
    plan = [(0, False), (100, True), (110, True)]
    traces = traces_of(plan, [sent_late(0, 50), sent_late(100, 1), sent_late(110, 3)])
    assert traces.audit is not None
    assert (traces.audit.send_late_p99_ms, traces.audit.send_late_max_ms) == (3.0, 3.0)


def test_while_only_the_lead_in_was_sent_it_speaks_for_the_client() -> None:
    traces = traces_of([(0, False), (100, True)], [sent_late(0, 50), Record()])
    assert traces.audit is not None
    assert traces.audit.send_late_max_ms == 50.0


def test_a_replay_that_sent_nothing_has_no_audit() -> None:
    assert traces_of([(0, True)], [Record()]).audit is None


def test_an_open_request_ends_when_the_replay_is_stopped() -> None:
    traces = traces_of([(0, True)], [Record(sent_ns=ZERO_NS)])
    assert traces.end_ns.tolist() == [900 * MS]
    assert traces.status.tolist() == [RequestStatus.STOPPED]
