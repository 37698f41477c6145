"""Warm-up of a fresh server: rounds of the profile's own shapes until latency settles.

The first requests of a server pay for what its start did not cover: kernels compiled for a new
shape, lazily loaded code, cold allocators. Nothing of it may fall into a measured window.
"""

import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np

from advisor.bench.play import salt
from advisor.terms.profile import PlannedRequest, Profile
from advisor.terms.traces import RequestStatus, Traces

#: Requests of a round: the first round's, and never fewer; never more than a step's usual batch.
FEWEST, MOST = 4, 256
#: Enough steps that all of a round's requests come to run beside each other.
_OUTPUT_TOKENS = 16
#: The prompts beside the longest have at most so many times its tokens together, however many.
_BESIDE = 4
#: Two rounds agree when their medians are that near; differences below the slack are the
#: machine's and the client's.
_NEAR, _TTFT_SLACK_S, _ITL_SLACK_S = 0.10, 0.005, 0.001
#: A round as large as the one before, where the estimates are that near, so that two compare.
_SAME_SIZE = 0.25
_LEAST_ROUNDS, _MOST_ROUNDS = 3, 8


@dataclass(frozen=True, slots=True)
class Round:
    """How fast one round was, in seconds; None where no request of it got that far."""

    at_once: int
    #: medians
    ttft_s: float | None
    itl_s: float | None
    #: the least TTFT: hardly anything was ahead of that request
    unqueued_s: float | None

    @classmethod
    def of(cls, traces: Traces) -> "Round":
        """Of the requests that succeeded; every gap between two events is a sample of ITL."""
        first, ends = traces.event_offsets[:-1], traces.event_offsets[1:]
        good = (traces.status == RequestStatus.OK) & (ends > first)
        ttft_s = (traces.event_ns[first[good]] - traces.planned_ns[good]) / 1e9
        spans = zip(first[good], ends[good], strict=True)
        gaps = [np.diff(traces.event_ns[start:end]) / 1e9 for start, end in spans]
        itl_s = np.concatenate(gaps) if gaps else np.empty(0)
        return cls(
            at_once=len(traces),
            ttft_s=float(np.median(ttft_s)) if ttft_s.size else None,
            itl_s=float(np.median(itl_s)) if itl_s.size else None,
            unqueued_s=float(ttft_s.min()) if ttft_s.size else None,
        )

    def __str__(self) -> str:
        return f"TTFT {_ms(self.ttft_s)}, ITL {_ms(self.itl_s)}"


@dataclass(frozen=True, slots=True)
class Warmed:
    """How a warm-up went."""

    rounds: tuple[Round, ...]
    #: for a person: that it did not settle; empty when it did
    note: str


def is_settled(before: Round, after: Round) -> bool:
    """Whether two successive rounds were of one size and as fast as each other: the median TTFT
    within 10 % or 5 ms, the median ITL within 10 % or 1 ms."""
    return (
        before.at_once == after.at_once
        and _near(before.ttft_s, after.ttft_s, _TTFT_SLACK_S)
        and _near(before.itl_s, after.itl_s, _ITL_SLACK_S)
    )


@dataclass(frozen=True, slots=True)
class Shapes:
    """What a profile asks of a server at once, at a job's load."""

    profile: Profile
    #: a multiple of the recorded load
    load: float
    #: that may run at once, None where the server did not tell
    max_num_seqs: int | None

    @property
    def fewest(self) -> int:
        """At once in the first round, when nothing is known of latencies."""
        return self._bounded(FEWEST)

    def in_flight(self, round_: Round) -> int:
        """The most requests open at one moment of the profile, if each took as long as an
        unqueued one of that round: `unqueued TTFT + median ITL * (output - 1)`.

        Little's law counts the same on average; the maximum is what a batch grows to. Queueing is
        left out, since that is what a setting decides. At least 4, at most 256 and max_num_seqs.
        """
        if round_.unqueued_s is None:
            return self.fewest
        requests = self.profile.requests
        outputs = np.array([request.output_length for request in requests])
        starts_s = np.array([request.arrival_ns for request in requests]) / 1e9 / self.load
        lasts_s = round_.unqueued_s + (round_.itl_s or 0.0) * (outputs - 1)
        ended = np.searchsorted(np.sort(starts_s + lasts_s), starts_s, side="right")
        return self._bounded(int((np.arange(1, len(requests) + 1) - ended).max()))

    def requests(self, at_once: int) -> list[PlannedRequest]:
        """The profile's longest prompt, and beside it prompts of its median length, shorter where
        they are many, in all so many: none was sent before, and none will be again."""
        ordered = sorted(self.profile.requests, key=lambda request: request.input_length)
        longest, median = ordered[-1], ordered[len(ordered) // 2]
        beside = max(at_once - 1, 1)
        most = max(_BESIDE * longest.input_length // beside, 1)
        fresh, size = secrets.randbits(63), self.profile.block_tokens
        planned = [(longest.input_length, longest.output_length)]
        planned += [(min(median.input_length, most), median.output_length)] * (at_once - 1)
        return [
            PlannedRequest(
                at_ns=0,
                input_length=length,
                output_length=min(_OUTPUT_TOKENS, output),
                block_ids=tuple(
                    salt("warm-up", fresh, number, block) for block in range(-(-length // size))
                ),
                counted=False,
            )
            for number, (length, output) in enumerate(planned)
        ]

    def _bounded(self, count: int) -> int:
        most = MOST if self.max_num_seqs is None else min(MOST, max(1, self.max_num_seqs))
        return min(max(count, FEWEST), most)


async def warm_up(
    shapes: Shapes,
    play: Callable[[list[PlannedRequest]], Awaitable[Traces]],
    most_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> Warmed:
    """Play at least 3 rounds, until the last two agree: 8 at most, and none but the first 3 begun
    after `most_s`. Each round is as large as the latencies of the one before say."""
    deadline = clock() + most_s
    rounds = [Round.of(await play(shapes.requests(shapes.fewest)))]
    while len(rounds) < _LEAST_ROUNDS or not is_settled(*rounds[-2:]):
        late = len(rounds) >= _LEAST_ROUNDS and clock() > deadline
        if late or len(rounds) == _MOST_ROUNDS:
            return Warmed(tuple(rounds), _unsettled(rounds))
        size = _size(rounds[-1].at_once, shapes.in_flight(rounds[-1]))
        rounds.append(Round.of(await play(shapes.requests(size))))
    return Warmed(tuple(rounds), "")


def _size(before: int, estimate: int) -> int:
    return before if abs(estimate - before) <= _SAME_SIZE * before else estimate


def _near(before: float | None, after: float | None, slack: float) -> bool:
    if before is None or after is None:
        return before is after
    return abs(after - before) <= max(slack, _NEAR * before)


def _unsettled(rounds: list[Round]) -> str:
    before, after = rounds[-2:]
    return (
        f"the warm-up did not settle in {len(rounds)} rounds: with {before.at_once} requests "
        f"at once {before}, then with {after.at_once} {after}"
    )


def _ms(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1e3:.1f} ms"
