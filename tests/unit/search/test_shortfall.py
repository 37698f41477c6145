"""Of settings that cannot run, the one that came further is told as less bad."""

import math
from itertools import pairwise

import pytest

from advisor.engine.texts import TABLE
from advisor.search.objective import WORST_EXCESS
from advisor.search.shortfall import UNKNOWN, off_by
from advisor.terms.outcome import Failure, Reason
from advisor.terms.reasons import RULES, Effect

STAGES = ("config", "load", "profiling", "kv_cache", "graph_capture")


def at(stage: str, reason: Reason = Reason.UNSUPPORTED, shortfall: float | None = None) -> float:
    return off_by(Failure(reason, "because", stage, shortfall=shortfall))


def test_the_later_the_stage_the_less_was_missing() -> None:
    serving = [at("load", r) for r in (Reason.OOM_UNDER_LOAD, Reason.CRASHED_UNDER_LOAD)]
    assert serving[0] == serving[1]
    grades = [*map(at, STAGES), serving[0]]
    assert all(early > late > 0 for early, late in pairwise(grades))


def test_where_the_log_tells_how_far_off_it_was_the_stage_says_nothing() -> None:
    short = [at(stage, Reason.KV_CACHE_TOO_SMALL, 0.25) for stage in STAGES]
    assert short == [0.25] * len(STAGES)
    assert at("kv_cache", shortfall=math.inf) == WORST_EXCESS


@pytest.mark.parametrize("shortfall", [0.0, -0.5, math.nan, None])
def test_a_shortfall_that_is_none_leaves_it_to_the_stage(shortfall: float | None) -> None:
    assert at("profiling", shortfall=shortfall) == at("profiling")


def test_what_is_not_known_is_as_bad_as_a_refusal() -> None:
    assert off_by(None) == at("ready", Reason.DIED) == at("config") == UNKNOWN


def test_every_stage_that_blames_a_setting_before_it_was_ready_has_a_grade() -> None:
    blamed = {row.stage for row in TABLE if RULES[row.reason].effect is Effect.INFEASIBLE} - {
        "ready"
    }
    assert blamed == {*STAGES, "sampler"}
    assert all(at(stage) < UNKNOWN for stage in blamed - {"config"})
