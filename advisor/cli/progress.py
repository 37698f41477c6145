"""What a person sees on stderr while a job runs: trial, phase, elapsed, time left."""

import time

from rich.console import Console
from rich.markup import escape

from advisor.advice.choose import diff, effective
from advisor.terms.job import Job, Phase, Trial
from advisor.terms.setting import Setting


class StderrWatch:
    """One line per step; on a terminal the current replay is shown in place below them.

    `baseline`: as it ran, where the job that goes on has measured it already.
    """

    def __init__(self, console: Console, baseline: Setting | None = None) -> None:
        self._console = console
        self._status = console.status("starting") if console.is_terminal else None
        self._started_s = time.monotonic()
        self._baseline = baseline
        self._planned = 0
        self._closed_here = 0
        #: number -> what it is called, of the trials that run
        self._running: dict[int, str] = {}
        self._opened_last: int | None = None

    def job_opened(self, job: Job, planned_launches: int) -> None:
        self._planned = planned_launches
        if self._status:
            self._status.start()
        about = job.engine
        label = "simulated, " if about.simulated else ""
        self._line(f"job {job.id}: {about.model} on {about.hardware} ({label}{about.kind})")

    def trial_opened(self, number: int, phase: Phase, setting: Setting) -> None:
        known = self._baseline is not None and phase is not Phase.BASELINE
        changed = ", ".join(diff(setting, self._baseline)) if known and self._baseline else ""
        self._running[number] = f"trial {number} {phase}"
        self._opened_last = number
        self._line(f"{self._running[number]}: {changed or 'current setting'}")

    def replaying(self, window: str, multiple: float) -> None:
        if self._status:
            doing = ", ".join(self._running.values())
            self._status.update(f"{doing}: window {window} at {multiple:g}x{self._clock()}")

    def trial_closed(self, trial: Trial) -> None:
        self._closed_here += 1
        self._running.pop(trial.number, None)
        if trial.phase is Phase.BASELINE:
            self._baseline = effective(trial)
        result = trial.result
        found = str(result.state)
        if result.failure is not None:
            found = f"{result.state}: {result.failure.reason}: {result.failure.message}"
            found += f" ({result.failure.rule.hint})"
        elif result.measurements:
            # one window of a confirmation proves nothing by itself; the pooled round does
            confirming = trial.phase.is_proof
            words = ("replayed" if confirming else m.verdict for m in result.measurements)
            multiples = (m.multiple for m in result.measurements)
            found = ", ".join(f"{w} at {m:g}x" for w, m in zip(words, multiples, strict=True))
        if result.failure is None and result.note:
            found = f"{found}: {result.note}"
        # lines of others may stand between this one and the one that says what it is of
        alone = not self._running and trial.number == self._opened_last
        name = "" if alone else f"trial {trial.number}: "
        self._line(f"  {name}{found}{self._clock()}")

    def note(self, text: str) -> None:
        self._line(text)

    def close(self) -> None:
        if self._status:
            self._status.stop()

    def _clock(self) -> str:
        """Elapsed, and what is left if every planned launch takes as long as those so far."""
        elapsed_s = time.monotonic() - self._started_s
        text = f"  [{_duration(elapsed_s)} elapsed"
        left = self._planned - self._closed_here
        if self._closed_here and left > 0:
            text += f", about {_duration(elapsed_s / self._closed_here * left)} left"
        return text + "]"

    def _line(self, text: str) -> None:
        self._console.print(escape(text), highlight=False, soft_wrap=True)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
