from advisor.bench.carries import SURELY_PER_S, client_warning, peak_tokens_per_s
from advisor.replay.capacity import Carried
from advisor.terms.profile import Profile, Request
from advisor.terms.traces import ClientAudit


def profile(*rows: tuple[float, int]) -> Profile:
    requests = tuple(Request(round(at_s * 1e9), 100, tokens) for at_s, tokens in rows)
    return Profile("p", requests, 16, "0" * 64, "here", "none", "by hand")


class Measured:
    """A machine that carries so much, and what it was asked."""

    def __init__(self, per_s: int) -> None:
        self.per_s = per_s
        self.asked: list[float] = []

    async def __call__(self, up_to_per_s: float) -> list[Carried]:
        self.asked.append(up_to_per_s)
        audit = ClientAudit(0.0, 0.0, 0.0, None, None, None, "kernel")
        return [Carried(self.per_s, 0.0, audit), Carried(2 * self.per_s, 9.0, audit)]


BUSY = profile((0, 10), (12, 9_000), (19, 11_000), (25, 10))


def test_the_busiest_ten_seconds_count() -> None:
    assert peak_tokens_per_s(BUSY) == 2_000


async def test_a_load_above_what_is_carried_is_said_before_it_starts() -> None:
    measure = Measured(per_s=5_000)
    warning = await client_warning(BUSY, 3.0, measure)
    assert measure.asked == [6_000]
    assert warning == (
        "this machine's load generator carries 5,000 events/s, the profile at 3 times its load "
        "may need 6,000: replays may be void as client_bound"
    )


async def test_a_load_that_is_carried_needs_no_word() -> None:
    assert await client_warning(BUSY, 2.0, Measured(per_s=5_000)) is None


async def test_a_light_load_is_not_even_tried() -> None:
    measure = Measured(per_s=1)
    light = SURELY_PER_S / peak_tokens_per_s(BUSY)
    assert await client_warning(BUSY, light, measure) is None
    assert measure.asked == []
