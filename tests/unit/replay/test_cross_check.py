import numpy as np
import pytest

from advisor.replay.cross_check import disagreement
from advisor.terms.job import ServerFacts
from advisor.terms.traces import MISSING, Traces

MS = 1_000_000


def traces(ttft_ms: int = 100, itl_ms: int = 20) -> Traces:
    """Two requests of four tokens, the second sent a second late; a third never left."""
    begin = [ttft_ms + 5, ttft_ms + 2_000]
    events = [(start + itl_ms * number) * MS for start in begin for number in range(4)]
    zeros = np.zeros(3, dtype=np.int64)
    return Traces(
        planned_ns=np.array([5 * MS, 1_000 * MS, 0], dtype=np.int64),
        sent_ns=np.array([5 * MS, 2_000 * MS, MISSING], dtype=np.int64),
        end_ns=zeros,
        status=np.zeros(3, dtype=np.uint8),
        counted=np.ones(3, dtype=np.bool_),
        input_tokens=zeros,
        prompt_tokens=zeros,
        output_tokens=zeros,
        event_offsets=np.array([0, 4, 8, 8], dtype=np.int64),
        event_ns=np.array(events, dtype=np.int64),
        event_tokens=np.ones(8, dtype=np.int32),
        window_start_ns=0,
        window_end_ns=1,
    )


def facts(ttft_ms: float = 95.0, itl_ms: float = 20.0) -> ServerFacts:
    return ServerFacts(
        ttft_s_sum=2 * ttft_ms / 1e3, ttft_count=2, itl_s_sum=6 * itl_ms / 1e3, itl_count=6
    )


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (facts(), ""),
        (facts(ttft_ms=81, itl_ms=18.5), ""),
        (facts(ttft_ms=79), "mean TTFT is 100.0 ms here, 79.0 ms at the server"),
        (facts(ttft_ms=103), "mean TTFT is 100.0 ms here, 103.0 ms at the server"),
        (facts(itl_ms=17), "mean ITL is 20.0 ms here, 17.0 ms at the server"),
        (facts(itl_ms=23), "mean ITL is 20.0 ms here, 23.0 ms at the server"),
        (ServerFacts(), ""),
        (ServerFacts(ttft_s_sum=0, ttft_count=0, itl_s_sum=0, itl_count=0), ""),
    ],
)
def test_means_that_the_transport_cannot_explain_are_named(server: ServerFacts, said: str) -> None:
    assert disagreement(traces(), server) == said


def test_long_latencies_may_differ_by_a_share() -> None:
    assert disagreement(traces(ttft_ms=1_000), facts(ttft_ms=920)) == ""
    assert disagreement(traces(itl_ms=100), facts(itl_ms=92)) == ""
