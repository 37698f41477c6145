"""What a person sees while a job runs."""

from typing import Protocol

from advisor.terms.job import Job, Phase, Trial
from advisor.terms.setting import Setting


class Watch(Protocol):
    """Told of every step; must not fail and must not write to stdout."""

    def job_opened(self, job: Job, planned_launches: int) -> None: ...

    def trial_opened(self, number: int, phase: Phase, setting: Setting) -> None: ...

    def replaying(self, window: str, multiple: float) -> None: ...

    def trial_closed(self, trial: Trial) -> None: ...

    def note(self, text: str) -> None: ...
