"""How much more would settle what a job left open; estimates, and they say so where shown."""

import math

from advisor.terms.measurement import Judgement
from advisor.terms.target import Verdict


def load_factor(judgement: Judgement) -> float | None:
    """How many times as much load would decide an undecided target, at least.

    If the share over the limit stays what it is: its way to a bound shrinks with the square root
    of the load, and in proportion to it where nothing was over. What a rehearsal adds does not
    shrink, so it may take more. None for a target that is decided, where nothing is known of the
    bound that would decide, or where the share lies on the allowed one, since no load tells then.
    """
    share, allowed = judgement.share_over, judgement.target.allowed_share
    lower, upper = judgement.share_over_lower, judgement.share_over_upper
    if judgement.verdict is not Verdict.UNDECIDED or share is None:
        return None
    if share > allowed:
        return None if lower is None else max((share - lower) / (share - allowed), 1.0) ** 2
    if upper is None or upper >= 1 or share == allowed:
        return None
    if share == 0:
        return max(upper / allowed, 1.0)
    return max((upper - share) / (allowed - share), 1.0) ** 2


def pairs_needed(ratio: float, end: float, pairs: int) -> int | None:
    """Pairs of launches that would show on which side of 1 a ratio lies, at most.

    `end` is the end of its interval that lies nearer to 1 or beyond it. If ratio and spread stay
    what they are: the interval shrinks with the square root of the pairs, and a little faster, as
    the t quantile does, which is left out. None where it is shown already, or the ratio is 1.
    """
    way, reach = math.log(ratio), math.log(ratio) - math.log(end)
    if way == 0 or way * math.log(end) > 0:
        return None
    return math.ceil(round(pairs * (reach / way) ** 2, 6))
