"""Surprising facts, to the letter, and silence where nothing shows them."""

from dataclasses import replace

import pytest

from advisor.advice.background import Background, Served
from advisor.advice.effects import knob_effects
from advisor.advice.findings import (
    edge_line,
    ignored_line,
    kv_cache_line,
    no_effect_line,
    prefix_line,
    seats_line,
)
from advisor.terms.flags import FlagValue
from advisor.terms.job import Objective, ServerFacts, Trial
from advisor.terms.measurement import Noise
from advisor.terms.target import Metric
from tests.unit.advice.examples import SPEC, trial
from tests.unit.advice.ladders import SEQS, TOKENS, carrying, facts, flags, launched, point
from tests.unit.advice.test_effects import SQUARE


def test_an_ignored_flag_is_told_with_every_trial_that_shows_it() -> None:
    texts = ("max_num_batched_tokens: asked 512, runs 2048",)
    trials = [
        replace(each, result=replace(each.result, launch=launched(*(texts if odd else ()))))
        for each, odd in zip(SQUARE, (False, True, False, True), strict=True)
    ]
    assert ignored_line(trials) == (
        "A flag was not run as asked: max_num_batched_tokens: asked 512, runs 2048 "
        "(trial 1, trial 3)"
    )
    assert ignored_line(SQUARE) is None


def useless(*, ttft: float = 1.0, noise: tuple[Noise, ...] = ()) -> str | None:
    """Of `SQUARE`, with TTFT of the trials with 128 sequences changed by a factor."""
    trials = [scaled(each, ttft if each.setting.get(SEQS) == 128 else 1.0) for each in SQUARE]
    return no_effect_line(knob_effects(trials, SPEC), trials, noise, SPEC)


def scaled(one: Trial, factor: float) -> Trial:
    """Its TTFT at the job's load, and nothing else."""
    points = list(one.result.measurements)
    at_load = points[1]
    first = at_load.judgements[0]
    assert first.estimate is not None
    changed = replace(first, estimate=first.estimate * factor)
    points[1] = replace(at_load, judgements=(changed, *at_load.judgements[1:]))
    return replace(one, result=replace(one.result, measurements=tuple(points)))


def test_a_knob_without_effect_is_named_with_what_it_was_seen_to_do() -> None:
    assert useless(ttft=1.04) == (
        "Without effect here: --max-num-seqs (2 pairs, 4.0 %): trials that differ in it alone "
        "differ by no more than that in headroom and in every latency with a target, as launches "
        "of one setting do"
    )


def test_a_knob_that_moves_a_latency_has_an_effect_beyond_the_noise_only() -> None:
    band = Noise(Metric.TTFT, 95.0, 1.2, 3)
    assert useless(ttft=1.15) is None
    assert useless(ttft=1.15, noise=(band,)) is not None
    assert useless(ttft=1.3, noise=(band,)) is None
    # so wide a band hides what matters
    assert useless(ttft=1.3, noise=(replace(band, factor=3.0),)) is None
    assert useless(ttft=1.15, noise=(replace(band, metric=Metric.ITL),)) is None


def test_one_pair_or_a_replay_cut_short_shows_no_absence() -> None:
    pair = SQUARE[:2]
    assert no_effect_line(knob_effects(pair, SPEC), pair, (), SPEC) is None
    cut = list(SQUARE)
    points = [replace(m, stopped=True) for m in cut[1].result.measurements]
    cut[1] = replace(cut[1], result=replace(cut[1].result, measurements=tuple(points)))
    assert no_effect_line(knob_effects(cut, SPEC), cut, (), SPEC) is None


def edge(
    values: tuple[FlagValue, ...], about: Trial = SQUARE[3], knob: str = TOKENS
) -> str | None:
    effects = knob_effects(SQUARE, SPEC)
    return edge_line(about, effects, Background((), ((knob, values),)), SPEC)


def test_a_value_at_the_end_of_its_range_where_the_objective_still_rises() -> None:
    assert edge((1024, 2048, 4096)) == (
        "--max-num-batched-tokens 1024 is the smallest value of the Space and, by headroom, 2.00 "
        "times as good as 2048: beyond it nothing was tried"
    )
    assert "largest value" in (edge((512, 1024)) or "")


@pytest.mark.parametrize(
    ("values", "about", "knob"),
    [
        ((512, 1024, 2048), SQUARE[3], TOKENS),  # inside
        ((1024, 2048), SQUARE[0], TOKENS),  # at the end that is worse
        ((64, 128), SQUARE[3], SEQS),  # without effect
        ((64, 128), SQUARE[3], "no_pair"),
    ],
)
def test_no_end_is_named_where_nothing_rises_to_it(
    values: tuple[FlagValue, ...], about: Trial, knob: str
) -> None:
    assert edge(values, about, knob) is None


def at_load(about: Trial, *each: ServerFacts, whole: bool = True) -> Background:
    return Background(
        tuple(Served(about.setting, f"w{n}", 1.0, one, whole) for n, one in enumerate(each))
    )


ABOUT = SQUARE[0]


def test_requests_that_waited_for_a_place() -> None:
    waited = at_load(ABOUT, facts(running=64, waiting=5), facts(running=64, waiting=12))
    assert seats_line(ABOUT, waited, SPEC) == (
        "At 1x as many requests ran as --max-num-seqs 64 lets, while up to 12 waited"
    )
    assert seats_line(ABOUT, at_load(ABOUT, facts(running=63, waiting=12)), SPEC) is None
    assert seats_line(ABOUT, at_load(ABOUT, facts(running=64, waiting=0)), SPEC) is None
    assert seats_line(ABOUT, at_load(ABOUT, facts(running=64, waiting=None)), SPEC) is None
    # what the server runs with, not what it was asked for
    ran = replace(ABOUT, result=replace(ABOUT.result, launch=launched(max_num_seqs=32)))
    assert "--max-num-seqs 32 " in (seats_line(ran, waited, SPEC) or "")
    nobody_knows = trial(1, point())
    assert seats_line(replace(nobody_knows, setting=flags()), Background(), SPEC) is None


def test_a_kv_cache_with_room_in_every_replay() -> None:
    roomy = at_load(ABOUT, facts(kv=0.2), facts(kv=0.31, hits=0.0), whole=False)
    assert kv_cache_line(roomy) == (
        "The KV cache was never more than 31.0 % full in any of the 2 replays, so "
        "--gpu-memory-utilization cannot matter at these loads, but for keeping more prefixes"
    )
    without_hits = at_load(ABOUT, facts(kv=0.2, hits=0.0))
    assert (kv_cache_line(without_hits) or "").endswith("cannot matter at these loads")
    for full in (facts(kv=0.8), facts(kv=None), facts(preemptions=1.0)):
        assert kv_cache_line(at_load(ABOUT, facts(kv=0.2), full)) is None
    assert kv_cache_line(Background()) is None


def test_prefix_caching_that_finds_nothing() -> None:
    assert prefix_line(ABOUT, at_load(ABOUT, facts(hits=300.0), facts(hits=100.0))) == (
        "Prefix caching found 0.2 % of 200000 prompt tokens in its cache: this load hardly "
        "repeats a prompt's beginning while it is kept"
    )
    assert prefix_line(ABOUT, at_load(ABOUT, facts(hits=5000.0))) is None
    assert prefix_line(ABOUT, at_load(ABOUT, facts(hits=None))) is None
    off = replace(facts(), prefix_cache_queries=0.0, prefix_cache_hits=0.0)
    assert prefix_line(ABOUT, at_load(ABOUT, off)) is None


def test_the_objective_is_called_by_its_name() -> None:
    spec = replace(SPEC, objective=Objective.LATENCY)
    trials = [carrying(n, 1.0, flags(seqs)) for n, seqs in enumerate((8, 16, 32))]
    line = no_effect_line(knob_effects(trials, spec), trials, (), spec)
    assert line is not None
    assert "--max-num-seqs (3 pairs, 0.0 %)" in line
    assert "than that in latency and" in line
