import dataclasses
import json
import math
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.measure.codec import to_bytes
from advisor.measure.curves import curves
from advisor.store.serde import (
    TRACES_VERSION,
    decode_curves,
    decode_traces,
    dump,
    encode_curves,
    encode_traces,
    load,
)
from advisor.terms.advice import Advice
from advisor.terms.errors import LedgerError
from advisor.terms.job import EngineInfo, JobSpec, TrialResult
from advisor.terms.measurement import Headroom
from advisor.terms.outcome import TrialState
from advisor.terms.profile import Plan
from advisor.terms.setting import Setting
from advisor.terms.target import Target
from advisor.terms.traces import Traces
from tests.contract import examples

_INT64 = st.integers(-(2**63), 2**63 - 1)
_FLAGS = st.one_of(
    st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)


def assert_round_trip(as_: type[Any], value: object) -> None:
    text = json.dumps(dump(as_, value), allow_nan=False)
    assert load(as_, json.loads(text)) == value


def test_every_noun_reads_back_from_json_text() -> None:
    assert_round_trip(JobSpec, examples.SPEC)
    assert_round_trip(EngineInfo, examples.ENGINE)
    assert_round_trip(tuple[Target, ...], examples.TARGETS)
    assert_round_trip(TrialResult, examples.measured())
    assert_round_trip(TrialResult, examples.refused())
    assert_round_trip(Advice, examples.advice())
    assert_round_trip(Plan, examples.replay().plan)


@given(st.dictionaries(st.text(min_size=1), _FLAGS))
def test_a_flag_keeps_its_value_and_its_type(flags: dict[str, Any]) -> None:
    setting = Setting.of("m", flags)
    read = load(Setting, dump(Setting, setting))
    assert read == setting
    assert [type(value) for _, value in read.flags] == [type(value) for _, value in setting.flags]


def test_infinity_is_a_word_in_json_and_a_number_outside() -> None:
    data = dump(Headroom, Headroom(None, math.inf, -math.inf))
    assert data == {"low": None, "high": "inf", "estimate": "-inf"}
    assert load(Headroom, data) == Headroom(None, math.inf, -math.inf)


def test_nan_is_refused_by_name() -> None:
    result = TrialResult(TrialState.MEASURED, headroom=Headroom(1.0, None, math.nan))
    with pytest.raises(LedgerError, match=r"TrialResult\.headroom\.estimate is NaN"):
        dump(TrialResult, result)


def test_data_that_do_not_fit_are_refused_by_field() -> None:
    with pytest.raises(LedgerError, match=r"cannot read Headroom: estimate: Field required"):
        load(Headroom, {"low": None, "high": None})


def test_a_field_that_an_older_program_did_not_know_gets_its_default() -> None:
    data = dump(TrialResult, examples.measured())
    del data["headroom"]
    assert load(TrialResult, data) == dataclasses.replace(examples.measured(), headroom=None)


def test_traces_read_back_exactly() -> None:
    examples.assert_same(decode_traces(encode_traces(examples.traces())), examples.traces())


@st.composite
def any_traces(draw: st.DrawFn) -> Traces:
    """Any values at all in the columns, the ends of their ranges included."""
    requests = draw(st.integers(0, 4))
    events = draw(st.integers(0, 6))

    def column(length: int, values: st.SearchStrategy[int], dtype: str) -> Any:
        return np.array(draw(st.lists(values, min_size=length, max_size=length)), dtype=dtype)

    return Traces(
        planned_ns=column(requests, _INT64, "int64"),
        sent_ns=column(requests, _INT64, "int64"),
        end_ns=column(requests, _INT64, "int64"),
        status=column(requests, st.integers(0, 255), "uint8"),
        counted=column(requests, st.integers(0, 1), "bool"),
        input_tokens=column(requests, _INT64, "int64"),
        prompt_tokens=column(requests, _INT64, "int64"),
        output_tokens=column(requests, _INT64, "int64"),
        event_offsets=column(requests + 1, _INT64, "int64"),
        event_ns=column(events, _INT64, "int64"),
        event_tokens=column(events, st.integers(-(2**31), 2**31 - 1), "int32"),
        window_start_ns=draw(_INT64),
        window_end_ns=draw(_INT64),
        audit=draw(st.sampled_from([None, examples.AUDIT])),
    )


@given(any_traces())
def test_any_traces_read_back_exactly(traces: Traces) -> None:
    examples.assert_same(decode_traces(encode_traces(traces)), traces)


def test_a_long_replay_fits_in_a_megabyte() -> None:
    """1,000 requests of 200 tokens, every gap noisy down to the nanosecond."""
    rng = np.random.default_rng(1)
    requests, tokens = 1_000, 200
    planned = np.cumsum(rng.exponential(1e8, requests)).astype(np.int64)
    gaps = rng.gamma(4, 5e6, (requests, tokens))
    event_ns = (planned[:, None] + np.cumsum(gaps, axis=1)).astype(np.int64).ravel()
    traces = Traces(
        planned_ns=planned,
        sent_ns=planned + rng.integers(1_000, 90_000, requests),
        end_ns=event_ns[tokens - 1 :: tokens] + rng.integers(1_000, 90_000, requests),
        status=np.zeros(requests, dtype=np.uint8),
        counted=np.ones(requests, dtype=np.bool_),
        input_tokens=rng.integers(1, 4_000, requests),
        prompt_tokens=rng.integers(1, 4_000, requests),
        output_tokens=np.full(requests, tokens),
        event_offsets=np.arange(requests + 1) * tokens,
        event_ns=event_ns,
        event_tokens=np.ones(requests * tokens, dtype=np.int32),
        window_start_ns=0,
        window_end_ns=int(event_ns.max()),
    )
    data = encode_traces(traces)
    examples.assert_same(decode_traces(data), traces)
    assert len(data) < 1_000_000


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "layout nothing is unknown"),
        (bytes([TRACES_VERSION + 1]) + b"x", "layout 2 is unknown"),
        (bytes([TRACES_VERSION]) + b"not compressed", "damaged"),
        (bytes([TRACES_VERSION]) + zlib.compress(b""), "damaged"),
        (bytes([TRACES_VERSION]) + zlib.compress(b"\x02\0\0\0{}"), "damaged"),
        (encode_traces(examples.traces())[:-9], "damaged"),
    ],
)
def test_damaged_traces_are_refused(data: bytes, says: str) -> None:
    with pytest.raises(LedgerError, match=says):
        decode_traces(data)


def test_columns_that_do_not_fit_together_are_refused() -> None:
    traces = examples.traces()
    short = dataclasses.replace(traces, end_ns=traces.end_ns[:2])
    with pytest.raises(LedgerError, match=r"end_ns has shape \(2,\), expected \(3,\)"):
        encode_traces(short)
    wide = dataclasses.replace(traces, status=np.array([0, 1, 300]))
    with pytest.raises(LedgerError, match=r"status .* does not fit uint8"):
        encode_traces(wide)


def test_curves_of_traces_read_back_and_damaged_ones_are_refused() -> None:
    data = encode_curves(examples.traces())
    assert to_bytes(decode_curves(data)) == to_bytes(curves(examples.traces()))
    with pytest.raises(LedgerError, match="damaged"):
        decode_curves(data[:-5])
    empty = dataclasses.replace(examples.traces(), window_end_ns=0)
    with pytest.raises(LedgerError, match="cannot store a replay"):
        encode_curves(empty)
