"""How faults are named, and that each refusal is understood by those who read it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.engine.failures import classify
from advisor.standin.faults import NONE, TABLE, Fault, Faults, Takes, parse_faults
from advisor.standin.refusals import REFUSALS, refuse
from advisor.terms.errors import InputError
from advisor.terms.outcome import Reason


def test_the_table_has_every_fault_and_causes_every_reason() -> None:
    assert list(TABLE) == list(Fault)
    assert {entry.reason for entry in TABLE.values()} - {None} == set(Reason)


def test_an_argument_has_a_default_that_fits() -> None:
    for fault, entry in TABLE.items():
        assert (entry.takes is Takes.NOTHING) == (entry.default is None)
        assert parse_faults(fault) == {fault: entry.default}


def test_several_faults_at_once_and_none() -> None:
    found = parse_faults("crash:3, own_session,none,knob_ignored:max_num_seqs=9")
    faults = Faults(found)
    assert list(faults) == [Fault.CRASH, Fault.OWN_SESSION, Fault.KNOB_IGNORED]
    assert faults.count(Fault.CRASH) == 3
    assert faults.count(Fault.HANG) is None
    assert faults.flag(Fault.KNOB_IGNORED) == ("max_num_seqs", "9")
    assert faults.flag(Fault.HANG) is None
    assert Faults(parse_faults("slow_health:0.5")).seconds(Fault.SLOW_HEALTH) == 0.5
    assert Faults().seconds(Fault.SLOW_HEALTH) == 0
    assert parse_faults(NONE) == {}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("", "fault '' is unknown; one of none, invalid_setting"),
        ("crsh", "fault 'crsh' is unknown"),
        ("none:4", "fault none: '4' is not nothing"),
        ("none:", "fault none: '' is not nothing"),
        ("crash:", "fault crash: '' is not a whole number of at least 1"),
        ("crash:0", "fault crash: '0' is not a whole number"),
        ("crash:²", "fault crash: '²' is not a whole number"),
        ("slow_health:soon", "fault slow_health: 'soon' is not a number of seconds above 0"),
        ("slow_health:inf", "'inf' is not a number of seconds"),
        ("knob_ignored:colour=red", "'colour=red' is not FLAG=VALUE with a flag"),
        ("knob_ignored:max_num_seqs", "'max_num_seqs' is not FLAG=VALUE"),
        ("died:3", "fault died: '3' is not nothing"),
    ],
)
def test_what_cannot_be_read_is_named(words: str, named: str) -> None:
    with pytest.raises(InputError, match="fault") as caught:
        parse_faults(words)
    assert named in str(caught.value)


@given(st.text())
def test_any_text_is_read_or_refused(words: str) -> None:
    try:
        found = parse_faults(words)
    except InputError:
        return
    assert all(fault in TABLE for fault in found)


@pytest.mark.parametrize("fault", list(REFUSALS))
def test_a_refusal_is_classified_as_its_reason(
    fault: Fault, capsys: pytest.CaptureFixture[str]
) -> None:
    code = refuse(fault)
    failure = classify(capsys.readouterr().err, code)
    assert failure.reason is TABLE[fault].reason
    assert "initialization failed" not in failure.message
    assert code == (2 if fault is Fault.REMOVED_FLAG else 1)
