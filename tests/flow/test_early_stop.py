"""A real replay of a server that cannot keep up is ended early; one that can is played whole."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from advisor.bench.live import LiveBench
from advisor.engine.vllm import VllmEngine
from advisor.profile.window import split
from advisor.terms.job import Objective, Replay, TrialResult
from advisor.terms.outcome import ReplayOutcome, StopReason, TrialState
from advisor.terms.profile import Request
from advisor.terms.setting import Setting
from advisor.terms.target import Verdict
from advisor.tune.trial import Keep, TrialRunner
from tests.unit.profile.builders import S, profile_of
from tests.unit.tune.jobs import Quiet, spec_with

COMMAND = [sys.executable, "-c", "import sys; from advisor.standin import main; sys.exit(main())"]
#: 40 requests a second, of which one sequence at a time can be served about 12.
PROFILE = profile_of([Request(i * S // 40, 64, 12) for i in range(960)])
WINDOWS = split(PROFILE, windows=3, rounds=1, gap_ns=S // 2)


async def trial(max_num_seqs: int, folder: Path) -> tuple[TrialResult, Sequence[Replay]]:
    spec = spec_with(
        "ttft:p90<=400ms", "errors<=5%", objective=Objective.LATENCY, rounds=1, load=1.0
    )
    flags = {"max_num_seqs": max_num_seqs, "max_num_batched_tokens": 2048}
    setting = Setting.of("llama-3.1-8b", flags, tuple(flags))
    bench = LiveBench(PROFILE, VllmEngine(COMMAND, log_dir=folder), setting.model)
    # no quiet machine is promised to a test: only what the server did is judged here
    runner = TrialRunner(
        bench, spec, WINDOWS, lambda _: lambda _: (ReplayOutcome.VALID, ""), Quiet()
    )
    replays = list[Replay]()
    keep = Keep(lambda token: None, replays.append)
    result = await runner.search(
        setting, spec.targets, keep, lambda pool: spec.targets, whole=False
    )
    return result, replays


@pytest.mark.slow
async def test_an_overloaded_server_is_stopped_early_and_provably_misses(tmp_path: Path) -> None:
    result, replays = await trial(1, tmp_path)
    assert result.state is TrialState.MEASURED
    (measured,) = result.measurements
    assert measured.verdict is Verdict.MISSED
    assert measured.stopped
    assert measured.replays == len(replays) < 3
    last = replays[-1]
    assert last.outcome is ReplayOutcome.STOPPED_EARLY
    assert last.stop is StopReason.OUT_OF_REACH
    assert last.note.startswith("out_of_reach: ttft:p90<=400ms is missed whatever is still")
    assert "was stopped early, out_of_reach: ttft:p90<=400ms" in result.note
    drained_s = (last.traces.end_ns.max() - last.traces.window_end_ns) / S
    assert drained_s < 5, "the whole drain would have taken longer"


@pytest.mark.slow
async def test_a_server_that_keeps_up_is_never_stopped(tmp_path: Path) -> None:
    result, replays = await trial(256, tmp_path)
    assert [replay.outcome for replay in replays] == [ReplayOutcome.VALID] * 3
    assert result.note == ""
    assert not result.measurements[0].stopped
