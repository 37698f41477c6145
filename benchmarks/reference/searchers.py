"""What the default sampler is held against: wrong forecasts, and the simulator's word alone."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from advisor.search.physics import Expected, Physics
from advisor.terms.job import Proposal, TrialResult
from advisor.terms.setting import Setting


class Twisted:
    """Physics that foretells another setting's headroom, or the opposite."""

    def __init__(self, inner: Physics, kind: str, seed: int) -> None:
        self._inner, self._kind, self._seed = inner, kind, seed

    def expect(self, settings: Sequence[Setting]) -> Expected:
        found = self._inner.expect(settings)
        if self._kind == "adverse":
            middle = found.log_headroom.mean()
            return replace(
                found,
                log_headroom=2 * middle - found.log_headroom,
                deviations=-found.deviations,
            )
        keys = [int(setting.key, 16) ^ self._seed for setting in settings]
        order = np.argsort(np.argsort([key * 2654435761 % 2**32 for key in keys]))
        return Expected(found.log_headroom[order], found.deviations[order], found.starts[order])

    def learn(self, setting: Setting, result: TrialResult) -> None:
        """A simulator that is this wrong is not put right by a fit."""


class Ranking:
    """Implements `tune.ports.Searcher`: the simulator's own order, as the data sheets have it."""

    why_ended = "every setting of the Space was tried"

    def __init__(self, physics: Physics, settings: Sequence[Setting]) -> None:
        found = physics.expect(settings)
        # what is not expected to start comes last
        worth = found.log_headroom + np.log(np.maximum(found.starts, 1e-9))
        self._left = [settings[n] for n in np.argsort(-worth, kind="stable")]

    def ask(self) -> Proposal | None:
        return Proposal(self._left.pop(0), "simulator") if self._left else None

    def simpler(self, setting: Setting, baseline: Setting) -> Proposal | None:
        return None

    def resume(self, proposal: Proposal) -> None:
        self._left = [setting for setting in self._left if setting != proposal.setting]

    def tell(self, proposal: Proposal, result: TrialResult) -> None:
        """It learns nothing."""
