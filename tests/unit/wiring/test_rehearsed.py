"""What a job's calibration is made from, and when it is made again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.profile.write import write_profile
from advisor.terms.calibration import Calibration, Rehearsed, Rung
from advisor.terms.job import EngineInfo
from advisor.terms.target import Metric, parse_target
from advisor.wiring import rehearsed as module
from advisor.wiring.asked import Asked
from advisor.wiring.prepare import Prepared, prepare
from advisor.wiring.rehearsed import rehearsed
from advisor.wiring.spec import spec_of
from tests.unit.profile.builders import S, evenly

FOUND = Calibration(
    "llama-3.1-8b",
    "h100-sxm",
    20,
    (Rehearsed(Metric.TTFT, 95.0, 0.95, 0.975, (Rung(1.0, 100.0, float("inf"), 120.0),)),),
)

ENGINE = EngineInfo("sim", "1", "h100-sxm", "llama-3.1-8b", simulated=True)


@pytest.fixture(name="asked")
def _asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_profile(evenly(9000, S // 10), tmp_path / "even.jsonl")
    return Asked(
        model="llama-3.1-8b",
        profile=str(tmp_path / "even.jsonl"),
        engine="sim",
        targets=("ttft:p95<=1s", "itl:p99<=40ms"),
        hardware="h100-sxm",
    )


@pytest.fixture(name="calls")
def _calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The rehearsal itself is another room's; here counts when it is asked for, and for what."""
    made: list[dict[str, Any]] = []

    def rehearse(*args: Any, **named: Any) -> Calibration:
        made.append({"asked": args[3], "levels": args[4], **named})
        return FOUND

    monkeypatch.setattr(module, "rehearse", rehearse)
    return made


def prepared(asked: Asked, **over: Any) -> Prepared:
    return prepare(spec_of(replace(asked, **over)))


def test_every_latency_percentile_is_rehearsed_at_both_levels_of_the_job(
    asked: Asked, calls: list[dict[str, Any]]
) -> None:
    assert rehearsed(prepared(asked), ENGINE).spec.calibration == FOUND
    (call,) = calls
    assert call["asked"] == [(Metric.ITL, 99.0), (Metric.TTFT, 95.0)]
    assert call["levels"] == (0.95, pytest.approx(1 - 0.05 / 3))
    assert call["load"] == 1.0


def test_the_same_profile_and_plan_are_rehearsed_once(
    asked: Asked, calls: list[dict[str, Any]]
) -> None:
    for seed in (1, 2):
        assert rehearsed(prepared(asked, seed=seed), ENGINE).spec.calibration == FOUND
    rehearsed(
        prepared(asked, targets=("ttft:p95<=9s", "itl:p99<=7ms")), ENGINE
    )  # other limits alone
    assert len(calls) == 1


@pytest.mark.parametrize(
    "over",
    [
        {"targets": ("ttft:p90<=1s",)},
        {"confidence": 0.9},
        {"load": 2.0},
        {"hardware": "a100-80gb-sxm"},
        {"baseline": "--max-num-batched-tokens 512"},
    ],
)
def test_another_plan_is_another_rehearsal(
    asked: Asked, calls: list[dict[str, Any]], over: dict[str, Any]
) -> None:
    rehearsed(prepared(asked), ENGINE)
    rehearsed(prepared(asked, **over), ENGINE)
    assert len(calls) == 2


def test_a_damaged_cache_is_made_again(
    asked: Asked, calls: list[dict[str, Any]], tmp_path: Path
) -> None:
    rehearsed(prepared(asked), ENGINE)
    (kept,) = (tmp_path / "cache").rglob("*.json")
    for damage in ("", "{}", '{"model": 3}'):
        kept.write_text(damage, encoding="utf-8")
        assert rehearsed(prepared(asked), ENGINE).spec.calibration == FOUND
    assert len(calls) == 4


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(
    asked: Asked, calls: list[dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file where the folder would be", encoding="utf-8")
    for _ in range(2):
        assert rehearsed(prepared(asked), ENGINE).spec.calibration == FOUND
    assert len(calls) == 2


def test_a_server_that_the_simulator_does_not_know_is_not_rehearsed(
    asked: Asked, calls: list[dict[str, Any]]
) -> None:
    known = prepared(asked)
    for spec in (
        replace(known.spec, hardware="abacus"),
        replace(known.spec, model="no-such-model"),
    ):
        unknown = replace(known, spec=spec)
        assert rehearsed(unknown, ENGINE).spec.calibration is None
    real = replace(known, spec=replace(known.spec, hardware=None))
    for reported in ("2 cores of some CPU", "simulated by vllm-sim 1", "NVIDIA T4"):
        assert rehearsed(real, replace(ENGINE, hardware=reported)).spec.calibration is None
    assert calls == []


@pytest.mark.parametrize("reported", ["NVIDIA H100 80GB HBM3", "2x NVIDIA H200", "NVIDIA L40S"])
def test_a_real_device_is_known_by_its_drivers_name(
    asked: Asked, calls: list[dict[str, Any]], reported: str
) -> None:
    known = prepared(asked)
    real = replace(known, spec=replace(known.spec, hardware=None))
    assert rehearsed(real, replace(ENGINE, hardware=reported)).spec.calibration == FOUND


def test_a_job_on_the_error_rate_alone_has_nothing_to_rehearse(
    asked: Asked, calls: list[dict[str, Any]]
) -> None:
    known = prepared(asked)
    only = replace(known, spec=replace(known.spec, targets=(parse_target("errors<=1%"),)))
    assert rehearsed(only, ENGINE) is only
    assert calls == []


def test_a_baseline_that_does_not_start_is_rehearsed_with_defaults(
    asked: Asked, calls: list[dict[str, Any]]
) -> None:
    # far too little memory for the weights
    rehearsed(prepared(asked, baseline="--gpu-memory-utilization 0.05"), ENGINE)
    assert len(calls) == 1
