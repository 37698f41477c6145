"""A Plan -> the requests of one replay, each with its moment and its salted prompt blocks."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b

from advisor.profile.longest import longest
from advisor.profile.window import slice_of
from advisor.terms.errors import InputError
from advisor.terms.profile import Plan, PlannedRequest, Profile, Request

#: (row of the profile, its request)
_Row = tuple[int, Request]


def schedule(profile: Profile, plan: Plan) -> tuple[PlannedRequest, ...]:
    """Expand a plan, in time order.

    The lead-in fills `at_ns` 0 to `plan.lead_in_ns`, uncounted, with the requests that come
    just before the window; the window follows and is counted, and lasts as long as it was
    recorded whatever the multiple. Arrivals come `multiple` times as fast, so a multiple above
    1 needs more load than was recorded: window and lead-in are then played again from their
    own requests, each pass under a salt of its own, never from a neighbour's. Below 1 the
    window's first part is enough, and the lead-in's last.

    `plan.lead_in_ns` must not exceed the gap before the window. Equal block ids mean equal
    prompts up to and including that block, within this salt; no id appears under two salts.
    Sessions are named per pass, and their pauses stay as recorded: at a multiple more people
    come, none of them reads faster. The window may hold no request at all; that is for the caller
    to judge. With `at_once` the profile's longest requests take the place of the recorded ones.
    Raises InputError for a multiple, a lead-in or a number at once that makes no sense.
    """
    check(plan)
    if plan.at_once is not None:
        return _at_once(profile, plan, plan.at_once)
    part = slice_of(profile, plan.window, plan.lead_in_ns)
    clock = _Clock(plan)
    prompts: dict[int, _Prompts] = {}

    def planned(at_ns: int, pass_: int, row: _Row, counted: bool) -> PlannedRequest:
        number, request = row
        if pass_ not in prompts:
            prompts[pass_] = _Prompts(plan.salt, pass_, profile.block_tokens)
        return PlannedRequest(
            at_ns=at_ns,
            input_length=request.input_length,
            output_length=request.output_length,
            block_ids=prompts[pass_].block_ids(number, request),
            counted=counted,
            session_id=None if request.session_id is None else f"{request.session_id}/{pass_}",
            pause_ns=request.pause_ns,
        )

    lead_in = [planned(*moment, counted=False) for moment in clock.lead_in(part.lead_in)]
    window = [planned(*moment, counted=True) for moment in clock.window(part.window)]
    return (*lead_in, *window)


def _at_once(profile: Profile, plan: Plan, count: int) -> tuple[PlannedRequest, ...]:
    """Prompts of their own, though the recorded ones may share parts: what lies in a cache already
    is no load."""
    requests = profile.requests
    planned = []
    for pass_, row in longest([r.input_length + r.output_length for r in requests], count):
        prompts = _Prompts(plan.salt, pass_, profile.block_tokens)
        request = replace(requests[row], hash_ids=())
        planned.append(
            PlannedRequest(
                at_ns=plan.lead_in_ns,
                input_length=request.input_length,
                output_length=request.output_length,
                block_ids=prompts.block_ids(row, request),
                counted=True,
            )
        )
    return tuple(planned)


def check(plan: Plan) -> None:
    """Raises InputError for a multiple, a lead-in or a number at once that makes no sense."""
    if not (math.isfinite(plan.multiple) and plan.multiple > 0):
        raise InputError(f"load multiple is {plan.multiple}; expected a number above 0")
    if plan.lead_in_ns < 0:
        raise InputError(f"lead-in is {plan.lead_in_ns} ns; expected 0 or more")
    if plan.at_once is not None and plan.at_once < 1:
        raise InputError(f"requests at once is {plan.at_once}; expected 1 or more")


class _Clock:
    """Profile time -> replay time, in exact integers: a multiple is a ratio of two."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._fast, self._slow = plan.multiple.as_integer_ratio()

    def _faster(self, span_ns: int) -> int:
        """How long a span of profile time takes in the replay, rounded down."""
        return span_ns * self._slow // self._fast

    def lead_in(self, rows: tuple[_Row, ...]) -> Iterator[tuple[int, int, _Row]]:
        """(at_ns, pass, row): pass 0 ends where the window begins, -1 comes before it, …"""
        length_ns = self._plan.lead_in_ns
        first_ns = self._plan.window.start_ns - length_ns
        passes = math.ceil(self._plan.multiple) if length_ns else 0
        for pass_ in range(1 - passes, 1):
            for row in rows:
                # measured back from the window's start, so that pass 0 joins it without a seam
                before_ns = (1 - pass_) * length_ns - (row[1].arrival_ns - first_ns)
                at_ns = length_ns + self._faster(-before_ns)
                if at_ns >= 0:
                    yield at_ns, pass_, row

    def window(self, rows: tuple[_Row, ...]) -> Iterator[tuple[int, int, _Row]]:
        """(at_ns, pass, row): pass 0, 1, … until the duration is full."""
        window = self._plan.window
        for pass_ in range(math.ceil(self._plan.multiple)):
            for row in rows:
                after_ns = self._faster(
                    pass_ * window.duration_ns + row[1].arrival_ns - window.start_ns
                )
                if after_ns < window.duration_ns:
                    yield self._plan.lead_in_ns + after_ns, pass_, row


class _Prompts:
    """Block ids under one (salt, pass): positive 63-bit numbers, the same in every process."""

    def __init__(self, salt: int, pass_: int, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._key = blake2b(f"{salt}/{pass_}".encode(), digest_size=16).digest()
        #: (id of the prefix before, recorded id) -> id of the prefix with it
        self._known: dict[tuple[int, int], int] = {}

    def block_ids(self, row: int, request: Request) -> tuple[int, ...]:
        """One per block of the prompt, the last may be partly filled."""
        if request.hash_ids:
            return tuple(self._chain(request.hash_ids))
        # Nothing is known to be shared: a run of numbers from a random start is as unique as
        # a hash of each (20,000 prompts of 1,000 blocks meet with a chance of 1 in 10 million)
        start = self._hash(b"row", row, 0) >> 1
        return tuple(range(start, start + -(-request.input_length // self._block_tokens)))

    def _chain(self, hash_ids: Iterable[int]) -> Iterator[int]:
        prefix = 0
        for hash_id in hash_ids:
            link = (prefix, hash_id)
            if link not in self._known:
                self._known[link] = self._hash(b"block", prefix, hash_id)
            prefix = self._known[link]
            yield prefix

    def _hash(self, kind: bytes, a: int, b: int) -> int:
        words = a.to_bytes(8, "little") + b.to_bytes(8, "little")
        digest = blake2b(words, digest_size=8, key=self._key, person=kind).digest()
        return int.from_bytes(digest, "little") >> 1
