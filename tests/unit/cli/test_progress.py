"""What a person is told while a job runs."""

import io

from rich.console import Console

from advisor.cli.progress import StderrWatch
from advisor.terms.job import Launch, Phase, Trial, TrialResult
from advisor.terms.outcome import TrialState
from advisor.terms.setting import Setting

KNOBS = ("max_num_seqs",)
BASELINE = Setting.of("m", {"max_num_seqs": 256}, KNOBS)
CHANGE = "trial 3 search: --max-num-seqs 256 -> 64"
OTHER = Setting.of("m", {"max_num_seqs": 64}, KNOBS)


def opened(baseline: Setting | None, closed: Trial | None = None) -> str:
    out = io.StringIO()
    watch = StderrWatch(Console(file=out, width=200), baseline)
    if closed is not None:
        watch.trial_closed(closed)
    watch.trial_opened(3, Phase.SEARCH, OTHER)
    return out.getvalue().splitlines()[-1]


def test_a_searched_setting_is_told_by_what_it_changes() -> None:
    launch = Launch((("max_num_seqs", 256),), 1.0, None)
    result = TrialResult(TrialState.MEASURED, launch=launch)
    trial = Trial(0, Phase.BASELINE, Setting.of("m", {}, KNOBS), "baseline", result)
    assert opened(None, trial) == CHANGE


def test_a_job_that_goes_on_knows_its_baseline_from_the_start() -> None:
    assert opened(BASELINE) == CHANGE


def test_trials_side_by_side_are_told_apart() -> None:
    out = io.StringIO()
    watch = StderrWatch(Console(file=out, width=200), BASELINE)

    def closed(number: int) -> str:
        result = TrialResult(TrialState.FAILED, note=f"of {number}")
        watch.trial_closed(Trial(number, Phase.SEARCH, OTHER, "grid", result))
        return out.getvalue().splitlines()[-1]

    watch.trial_opened(3, Phase.SEARCH, OTHER)
    watch.trial_opened(4, Phase.SEARCH, OTHER)
    assert closed(3).startswith("  trial 3: failed: of 3  [")
    watch.trial_opened(5, Phase.SEARCH, OTHER)
    assert closed(5).startswith("  trial 5: failed: of 5  [")
    assert closed(4).startswith("  trial 4: failed: of 4  [")
    watch.trial_opened(6, Phase.SEARCH, OTHER)
    assert closed(6).startswith("  failed: of 6  [")
