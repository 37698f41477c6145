"""The numbers of a profile."""

from advisor.profile.inspect import Quantiles, inspect
from advisor.terms.profile import Request
from tests.unit.profile.builders import S, evenly, profile_of


def test_an_even_load_has_no_dispersion() -> None:
    facts = inspect(evenly(101, S // 2))
    assert (facts.requests, facts.duration_s) == (101, 50.0)
    assert facts.rate_rps == 101 / 50
    assert facts.prompt_tokens_per_s == 40 * 101 / 50
    # 50 bins of 2 and the last of 1
    assert facts.dispersion_1s < 0.02
    assert (facts.sessions, facts.infinite_cache_hit_share) == (None, None)


def test_bursts_have_dispersion() -> None:
    # ten at once every 10 s: counts 10 and nine of 0 have variance 90/10, mean 1
    requests = [Request(10 * S * (i // 10), 1, 1) for i in range(100)]
    last = Request(100 * S - 1, 1, 1)
    facts = inspect(profile_of([*requests, last]))
    mean = 101 / 100
    assert abs(facts.dispersion_1s - ((10 * 100 + 1) / 100 - mean**2) / mean) < 1e-9


def test_lengths_are_nearest_rank() -> None:
    facts = inspect(profile_of([Request(i, i + 1, 200 - i) for i in range(200)]))
    assert facts.input_tokens == Quantiles(p50=100, p90=180, p99=198, max=200)
    assert facts.output_tokens == Quantiles(p50=100, p90=180, p99=198, max=200)


def test_a_block_hits_only_behind_its_whole_prefix() -> None:
    facts = inspect(
        profile_of(
            [
                Request(0, 40, 1, (1, 2, 3)),
                Request(1, 40, 1, (1, 2, 4)),  # 32 of 40
                Request(2, 32, 1, (2, 1)),  # none: other places
                Request(3, 40, 1, (1, 2, 3)),  # all 40, the last block is of 8
                Request(4, 48, 1),  # nothing is known of it
            ]
        )
    )
    assert facts.infinite_cache_hit_share == (32 + 40) / (40 + 40 + 32 + 40 + 48)


def test_one_moment_has_no_rate() -> None:
    facts = inspect(profile_of([Request(5, 1, 1, (), "a"), Request(5, 1, 1, (), "a")]))
    assert (facts.rate_rps, facts.prompt_tokens_per_s) == (None, None)
    assert (facts.duration_s, facts.sessions) == (0.0, 1)
