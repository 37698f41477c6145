from dataclasses import replace

import pytest

from advisor.replay.clock import timespec
from advisor.replay.collect import Counted, Load, build_traces, read_answers
from advisor.replay.record import Record
from advisor.terms.traces import MISSING, RequestStatus, Traces
from tests.unit.replay.golden import DONE, chunk, usage
from tests.unit.replay.playing import request

ZERO_NS = 5_000_000_000
OFFSET_NS = 1_790_000_000_000_000_000
MS = 1_000_000
HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


def sent_late(
    at_ms: int, late_ms: int, *reads: tuple[int, bytes], read_late_ms: int = 5, looked_ms: int = 2
) -> Record:
    """Each read arrived at its moment, was read later, and the sockets looked at before."""
    record = Record(sent_ns=ZERO_NS + (at_ms + late_ms) * MS, status=RequestStatus.OK)
    for ms, data in reads:
        arrived_ns = ZERO_NS + ms * MS
        record.add(
            data if record.reads else HEAD + data,
            arrived_ns + read_late_ms * MS,
            arrived_ns - looked_ms * MS,
            timespec(arrived_ns + OFFSET_NS),
        )
    record.end_ns = record.read_ns[-1] if reads else record.sent_ns
    return record


def load_of(plan: list[tuple[int, bool]], records: list[Record]) -> Load:
    return Load(
        requests=[request(at_ms, 8, 3, counted=counted) for at_ms, counted in plan],
        records=records,
        zero_ns=ZERO_NS,
        stopped_ns=ZERO_NS + 900 * MS,
        window=Counted(100 * MS, 800 * MS),
        lags_ns=[MS] * 98 + [7 * MS, 9 * MS],
        cpu_share=0.25,
        wall_offsets_ns=(OFFSET_NS, OFFSET_NS),
    )


def traces_of(plan: list[tuple[int, bool]], records: list[Record]) -> Traces:
    load = load_of(plan, records)
    return build_traces(load, read_answers(load))


READS = (150, chunk(1)), (160, chunk(1) + chunk(1)), (170, usage(8, 3) + DONE)


def test_times_count_from_the_start_and_are_the_kernels() -> None:
    traces = traces_of([(0, False), (100, True)], [Record(), sent_late(100, 2, *READS)])
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
    assert traces.audit.stamped_at == "kernel"


def test_an_event_that_shared_its_read_may_have_come_since_the_last_look() -> None:
    audit = traces_of([(100, True)], [sent_late(100, 2, *READS)]).audit
    assert audit is not None
    assert audit.stamp_late_p99_ms == 2.0
    alone = (150, chunk(1)), (160, chunk(2) + usage(8, 3) + DONE)
    audit = traces_of([(100, True)], [sent_late(100, 2, *alone)]).audit
    assert audit is not None
    assert audit.stamp_late_p99_ms == 0.0
    assert audit.tokens_per_event == 1.5


@pytest.mark.parametrize("why", ["clock was set", "a stamp is missing"])
def test_without_the_kernels_stamps_every_time_is_a_reads(why: str) -> None:
    complete, partial = sent_late(100, 2, *READS), sent_late(100, 2, *READS)
    partial.kernel[16:32] = bytes(16)
    load = load_of([(100, True), (100, True)], [complete, complete])
    if why == "clock was set":
        load = replace(load, wall_offsets_ns=(OFFSET_NS, OFFSET_NS + MS))
    else:
        load = replace(load, records=[complete, partial])
    traces = build_traces(load, read_answers(load))
    assert traces.event_ns.tolist() == [155 * MS, 165 * MS, 165 * MS] * 2
    assert traces.audit is not None
    assert traces.audit.stamped_at == "read"
    assert traces.audit.stamp_late_p99_ms is None


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


def test_what_was_left_to_send_when_the_server_refused_does_not_hide_its_answer() -> None:
    record = sent_late(0, 0)
    record.status = RequestStatus.RESET
    record.add(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig", ZERO_NS, ZERO_NS)
    answers = read_answers(load_of([(0, True)], [record]))
    assert answers.statuses == [RequestStatus.HTTP]
    assert answers.details == ["HTTP 413: big"]
