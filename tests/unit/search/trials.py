"""Spaces, answers and whole runs for the tests of the searcher."""

import math
from collections.abc import Callable, Sequence

from advisor.search.defaults import default_space
from advisor.search.knob import Knob
from advisor.search.searcher import OptunaSearcher, SamplerName
from advisor.search.space import Space
from advisor.terms.flags import FlagValue
from advisor.terms.job import Launch, Proposal, TrialResult
from advisor.terms.measurement import Headroom
from advisor.terms.outcome import Failure, Reason, TrialState
from advisor.terms.setting import Setting

TOKENS = Knob.ranging("max_num_batched_tokens", 256, 16384, log=True)
SHARE = Knob.ranging("gpu_memory_utilization", 0.80, 0.95, step=0.05)
CACHE = Knob.of("enable_prefix_caching", [True, False])
FOUR = Space((Knob.of("max_num_seqs", [1, 2]), CACHE))
FULL = default_space(precisions=["bf16", "fp8"])
SAMPLERS = list(SamplerName)


def headroom(result: TrialResult) -> float | None:
    return result.headroom.estimate if result.headroom else None


def slack(result: TrialResult) -> Sequence[float]:
    """One target, met from a headroom of 1 on."""
    value = headroom(result)
    return [math.inf if value is None else 1 - value]


def searcher(
    space: Space = FULL,
    *,
    sampler: str = "advisor",
    seed: int = 0,
    fixed: dict[str, FlagValue] | None = None,
    score: Callable[[TrialResult], float | None] = headroom,
    constraints: Callable[[TrialResult], Sequence[float]] = slack,
    targets: int = 1,
    may_be_advised: Callable[[Setting], bool] = lambda setting: True,
) -> OptunaSearcher:
    return OptunaSearcher(
        space,
        "m",
        fixed or {},
        score=score,
        constraints=constraints,
        targets=targets,
        sampler=sampler,
        seed=seed,
        load=1.0,
        may_be_advised=may_be_advised,
    )


def measured(estimate: float, resolved: dict[str, FlagValue] | None = None) -> TrialResult:
    launch = Launch(tuple((resolved or {}).items()), 60.0, None)
    return TrialResult(TrialState.MEASURED, launch=launch, headroom=Headroom(None, None, estimate))


def failed(reason: Reason, shortfall: float | None = None) -> TrialResult:
    failure = Failure(reason, "because", "load", shortfall=shortfall)
    return TrialResult(failure.state, failure)


def truth(setting: Setting) -> float:
    """Best at 2048 tokens, 0.95, caching on, fp8; smooth, as a server is."""
    tokens, share = setting.get("max_num_batched_tokens"), setting.get("gpu_memory_utilization")
    assert isinstance(tokens, int)
    assert isinstance(share, float)
    value = 2.0 - 0.3 * abs(math.log2(tokens) - 11) + 2 * (share - 0.95)
    value += 0.3 * (setting.get("enable_prefix_caching") is True)
    return value + 0.3 * (setting.variant == "fp8")


def run(
    search: OptunaSearcher, launches: int, answer: Callable[[Setting], TrialResult]
) -> list[tuple[Proposal, TrialResult]]:
    done = []
    for _ in range(launches):
        proposal = search.ask()
        if proposal is None:
            break
        result = answer(proposal.setting)
        search.tell(proposal, result)
        done.append((proposal, result))
    return done


def by_truth(setting: Setting) -> TrialResult:
    return measured(truth(setting))


def by_one(_: Setting) -> TrialResult:
    return measured(1.0)
