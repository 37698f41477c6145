"""What a server's side can say against a replay."""

from dataclasses import replace

import pytest

from advisor.bench.doubts import NO_DOUBT, Ceiling, ceiling, doubt
from advisor.terms.job import ServerFacts
from advisor.terms.outcome import ReplayOutcome
from advisor.terms.profile import PlannedRequest

MOST = Ceiling(prompt=100_000, output=20_000, shared=40_000)
CALM = ServerFacts(
    prompt_tokens=100_000,
    generation_tokens=20_000,
    prefix_cache_hits=39_000,
    preemptions=0,
    throttled=(),
)


def request(length: int, *blocks: int) -> PlannedRequest:
    return PlannedRequest(0, length, 5, blocks, counted=True)


def test_what_a_plan_shares_is_counted_from_the_front_and_never_beyond_the_prompt() -> None:
    requests = [
        request(100, 1, 2),
        request(130, 1, 2, 3),
        request(100, 1, 4),
        request(64, 5),
        request(100, 9, 2),  # a block is known by what stands before it: no hit without the first
        request(100, 1, 2),
    ]
    assert ceiling(requests, 64) == Ceiling(594, 30, 100 + 128 - 28 + 64 + 100 - 100 + 28)


def test_nothing_against_it() -> None:
    assert doubt(CALM, MOST, "INFO 200 OK\n") == NO_DOUBT
    assert doubt(ServerFacts(), MOST, "") == NO_DOUBT, "what is not told says nothing"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"prompt_tokens": 103_000}, "read 103000 prompt tokens, the plan has 100000"),
        ({"generation_tokens": 21_000}, "wrote 21000 tokens, the plan has 20000"),
        ({"prefix_cache_hits": 45_000}, "found 45000 prompt tokens in its cache, the plan shares"),
    ],
)
def test_more_than_the_plan_can_cause_is_somebody_elses(
    facts: dict[str, float], words: str
) -> None:
    outcome, note = doubt(replace(CALM, **facts), MOST, "")  # type: ignore[arg-type]
    assert outcome is ReplayOutcome.CONTAMINATED
    assert words in note


def test_a_preempted_request_finds_its_own_blocks_again() -> None:
    assert doubt(replace(CALM, prefix_cache_hits=90_000, preemptions=3), MOST, "") == NO_DOUBT


def test_a_reading_a_moment_off_is_forgiven() -> None:
    assert doubt(replace(CALM, generation_tokens=20_900), MOST, "") == NO_DOUBT


def test_a_gpu_that_is_slowed_makes_noise() -> None:
    slowed = replace(CALM, throttled=("hardware thermal slowdown",))
    assert doubt(slowed, MOST, "") == (
        ReplayOutcome.NOISY,
        "the GPU was slowed: hardware thermal slowdown",
    )


@pytest.mark.parametrize(
    "line",
    [
        "WARNING Triton kernel JIT compilation during inference: _fwd_kernel. This causes a",
        "WARNING Triton autotuning during inference: _fwd_kernel.",
        "INFO Compiling a graph for compile range (1, 64) takes 3.1 s",
        "AUTOTUNE mm(64x256, 256x256)",
    ],
)
def test_a_server_that_compiles_makes_noise(line: str) -> None:
    outcome, note = doubt(CALM, MOST, f"INFO a\n{line}\nINFO b\n")
    assert outcome is ReplayOutcome.NOISY
    assert note == f"the server compiled while it was measured: {line}"
