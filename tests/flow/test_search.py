"""The default search, the simulator's forecast included, on servers that are another's."""

import math
from pathlib import Path

import pytest

from advisor.terms.advice import AdviceOutcome
from advisor.terms.setting import Setting
from advisor.terms.target import Metric, Target, Unit, parse_target
from tests.flow.other_server import place

pytestmark = pytest.mark.slow

POINTS = ((Metric.TTFT, 95.0), (Metric.ITL, 95.0))
LOOSE = (parse_target("ttft:p95<=60s"), parse_target("itl:p95<=60s"))
CORNER = """
knobs.max_num_batched_tokens.values = [256, 1024, 2048, 4096, 8192]
knobs.enable_prefix_caching.values = [true, false]
knobs.max_num_seqs.values = [1, 2, 64]
"""
#: None of these has any effect: the cache is never full.
FLAT = "knobs.gpu_memory_utilization.values = [0.75, 0.8, 0.85, 0.9]"


def is_corner(setting: Setting) -> bool:
    flags = dict(setting.flags)
    wanted = {
        "max_num_batched_tokens": 256,
        "enable_prefix_caching": True,
        "max_num_seqs": 64,
    }
    return flags.items() >= wanted.items()


def half_way(one: list[float], other: list[float]) -> list[float]:
    return [math.sqrt(a * b) for a, b in zip(one, other, strict=True)]


def test_the_one_setting_that_meets_is_found_in_its_corner(tmp_path: Path) -> None:
    job = place(tmp_path, CORNER, *LOOSE)
    known = {s.key: job.estimates_ms(s, POINTS) for s in job.settings()}
    (corner,) = [s for s in job.settings() if is_corner(s)]
    # TTFT half way to the corner's neighbour without a cache, ITL to the one with larger steps
    flags = dict(corner.flags)
    uncached = Setting.of(corner.model, flags | {"enable_prefix_caching": False})
    larger = Setting.of(corner.model, flags | {"max_num_batched_tokens": 1024})
    ttft_ms = half_way(known[corner.key], known[uncached.key])[0]
    itl_ms = half_way(known[corner.key], known[larger.key])[1]
    meeting = [key for key, (ttft, itl) in known.items() if ttft <= ttft_ms and itl <= itl_ms]
    assert meeting == [corner.key]
    limits = zip(POINTS, (ttft_ms, itl_ms), strict=True)
    ended = job.aiming_at(
        *(Target(metric, at, round(limit, 1), Unit.MS) for (metric, at), limit in limits)
    ).run()
    assert ended.advice.outcome is AdviceOutcome.RECOMMENDED, ended.advice.reasons
    assert ended.advice.choice is not None
    assert is_corner(ended.advice.choice.setting)
    assert ended.advice.choice.confirmed
    assert 1 <= len(ended.searched) < 8 < len(known)


@pytest.mark.parametrize("seed", range(3))
def test_what_has_no_effect_is_not_advised(tmp_path: Path, seed: int) -> None:
    targets = parse_target("ttft:p95<=400ms"), parse_target("itl:p95<=100ms")
    ended = place(tmp_path, FLAT, *targets, load=1.0, noise=0.05, seed=seed).run()
    assert ended.advice.outcome is AdviceOutcome.KEEP_CURRENT, ended.advice.reasons
    assert ended.advice.diff == ()


def test_where_no_setting_meets_the_nearest_is_named(tmp_path: Path) -> None:
    ended = place(tmp_path, CORNER, parse_target("ttft:p95<=20ms"), LOOSE[1]).run()
    assert ended.advice.outcome is AdviceOutcome.NONE_MEETS
    assert ended.advice.choice is not None
    assert any(reason.startswith("Nearest is trial") for reason in ended.advice.reasons)
    assert any(reason.startswith("TTFT p95 missed") for reason in ended.advice.reasons)
