"""How well the load generator did, in words."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from advisor.cli.carried import carried_json, carried_lines
from advisor.cli.doctor import try_client_or_say_why
from advisor.cli.played import played_json, print_played
from advisor.replay.capacity import Carried
from advisor.store.rows import Played
from advisor.terms.errors import ReplayError
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.target import parse_target
from advisor.terms.traces import ClientAudit

AUDIT = ClientAudit(0.01, 0.25, 0.3, 0.2, 0.31, 1.0, "kernel", 0.04)
VIRTUAL = ClientAudit(0.0, 0.0, 0.0, None, None, None, "virtual")
GOOD = Played("search-1", 1.0, ReplayOutcome.VALID, "", AUDIT)


def printed(*replays: Played) -> str:
    console = Console(file=StringIO(), width=40)
    print_played(console, {3: replays}, (parse_target("ttft:p95<=1s"),))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_the_worst_figures_of_all_scored_replays_are_shown() -> None:
    later = replace(AUDIT, send_late_p99_ms=2.0, cpu_share=None)
    void = replace(GOOD, outcome=ReplayOutcome.CLIENT_BOUND, audit=replace(AUDIT, cpu_share=0.9))
    assert printed(GOOD, replace(GOOD, audit=later), void) == (
        "load generator at its worst in 2 scored replays: sends p99 2.00 ms late, stamps p99 "
        "0.04 ms late, 31% of a core; 1 other replays were not scored\n"
        "a replay is void where the load generator is later at p99 than: sends 20 ms; or than 10% "
        "of the way from the measured percentile to its limit, if that is less and above 10 ms\n"
    )


def test_a_soak_is_no_void_replay() -> None:
    soak = replace(GOOD, window="soak", outcome=ReplayOutcome.SOAK)
    assert "not scored" not in printed(GOOD, soak)


def test_the_drift_of_prompts_sent_as_text_is_shown() -> None:
    shorter = replace(AUDIT, prompt_drift_pct=-2.5, text_prompts=True)
    longer = replace(AUDIT, prompt_drift_pct=0.4, text_prompts=True)
    said = printed(GOOD, replace(GOOD, audit=shorter), replace(GOOD, audit=longer))
    assert ", prompts -2.5 % longer than planned\n" in said
    assert "prompts" not in printed(GOOD)


def test_a_doubt_and_the_reason_of_a_void_replay_are_shown_with_their_place() -> None:
    void = replace(GOOD, outcome=ReplayOutcome.MISMATCH, note="3 of 9 [answered]")
    doubted = replace(GOOD, note="mean TTFT is 90.0 ms here, 4.0 ms at the server", multiple=1.5)
    lines = printed(doubted, void).splitlines()
    assert lines[:2] == [
        "! trial 3, search-1 at 1.5x: mean TTFT is 90.0 ms here, 4.0 ms at the server",
        "! trial 3, search-1 at 1x: mismatch: 3 of 9 [answered]",
    ]


def test_a_client_that_cannot_be_late_is_not_spoken_of() -> None:
    assert printed(replace(GOOD, audit=VIRTUAL), replace(GOOD, audit=None)) == ""
    assert printed() == ""


def test_a_replay_for_a_program() -> None:
    said = played_json(replace(GOOD, audit=VIRTUAL))
    assert said["audit"]["loop_lag_p99_ms"] is None
    assert (said["note"], said["outcome"]) == (None, "valid")
    assert played_json(replace(GOOD, audit=None))["audit"] is None


def test_what_is_carried_and_each_rate_that_was_tried() -> None:
    tried = [Carried(1_000, 0.012, AUDIT), Carried(2_000, -0.08, replace(AUDIT, cpu_share=None))]
    assert carried_lines(tried) == [
        "carries 1,000 events/s truly",
        "at 1,000 events/s: ITL p99 +1.2 %, sends p99 0.25 ms late, stamped by kernel, stamps "
        "p99 0.04 ms late, 31% of a core",
        "at 2,000 events/s: ITL p99 -8.0 %, sends p99 0.25 ms late, stamped by kernel, stamps "
        "p99 0.04 ms late",
    ]
    said = carried_json(tried)
    assert said["events_per_s"] == 1_000
    assert [one["true"] for one in said["tried"]] == [True, False]
    assert said["tried"][1]["cpu_share"] is None


def test_a_client_that_cannot_be_tried_is_a_problem_and_no_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken() -> list[Carried]:
        raise ReplayError("too many open files")

    monkeypatch.setattr("advisor.wiring.machine.try_client", broken)
    assert try_client_or_say_why() == ([], "load generator: too many open files")
