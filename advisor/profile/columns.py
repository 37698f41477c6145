"""A profile in columns: the same requests as `schedule` plans, for a simulator, in bulk."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.profile.longest import longest
from advisor.profile.schedule import check
from advisor.terms.load import Load, Turns
from advisor.terms.profile import Plan, Profile
from advisor.terms.traces import Int64


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """n requests in order of arrival; made once for a profile."""

    #: int64[n]
    arrival_ns: Int64
    input_length: Int64
    output_length: Int64
    #: int64[n], the first row of its session, its own without one
    session_start: Int64
    #: int64[n], ns from the end of the session's answer before, -1 where none was recorded
    pause_ns: Int64
    #: int64[n+1] and int64[m]: numbers of the prefixes that a row's hash ids name
    id_offsets: Int64
    ids: Int64
    num_ids: int
    block_tokens: int

    @classmethod
    def of(cls, profile: Profile) -> "Columns":
        requests = profile.requests
        sessions: dict[str, int] = {}
        chain: dict[tuple[int, int], int] = {}
        ids: list[int] = []
        for request in requests:
            prefix = -1
            for hash_id in request.hash_ids:
                prefix = chain.setdefault((prefix, hash_id), len(chain))
                ids.append(prefix)
        counts = [len(request.hash_ids) for request in requests]
        return cls(
            arrival_ns=_column([request.arrival_ns for request in requests]),
            input_length=_column([request.input_length for request in requests]),
            output_length=_column([request.output_length for request in requests]),
            session_start=_column(
                [
                    row if each.session_id is None else sessions.setdefault(each.session_id, row)
                    for row, each in enumerate(requests)
                ]
            ),
            pause_ns=_column([-1 if r.pause_ns is None else r.pause_ns for r in requests]),
            id_offsets=np.concatenate((_column([0]), np.cumsum(_column(counts)))),
            ids=_column(ids),
            num_ids=len(chain),
            block_tokens=profile.block_tokens,
        )

    def load(self, plan: Plan) -> Load:
        """What `schedule(profile, plan)` plans, in the same order; no salt, as equal ids suffice.

        Raises InputError for a multiple, a lead-in or a number at once that makes no sense.
        """
        check(plan)
        if plan.at_once is not None:
            return self._at_once(plan, plan.at_once)
        lead_in, window = self._slice(plan)
        parts = [*self._lead_in(plan, lead_in), *self._window(plan, window)]
        at_ns, rows, passes = (np.concatenate(each) for each in zip(*parts, strict=True))
        return self._load(at_ns, rows, passes, counted=at_ns >= plan.lead_in_ns)

    def _at_once(self, plan: Plan, count: int) -> Load:
        """The longest requests, none of which waits for another or shares a prompt."""
        chosen = longest((self.input_length + self.output_length).tolist(), count)
        rows = _column([row for _, row in chosen])
        return Load(
            at_ns=np.full(count, plan.lead_in_ns, dtype=np.int64),
            input_length=self.input_length[rows],
            output_length=self.output_length[rows],
            counted=np.ones(count, dtype=np.bool_),
            id_offsets=np.zeros(count + 1, dtype=np.int64),
            ids=_column([]),
            num_ids=0,
            block_tokens=self.block_tokens,
        )

    def _slice(self, plan: Plan) -> tuple[Int64, Int64]:
        """Rows of the lead-in and of the window, sessions whole (`window.slice_of`)."""
        edges = (plan.window.start_ns - plan.lead_in_ns, plan.window.start_ns, plan.window.end_ns)
        low, middle, high = np.searchsorted(self.arrival_ns, edges).tolist()
        rows = np.arange(low, high)
        rows = rows[self.session_start[rows] >= low]
        return rows[rows < middle], rows[rows >= middle]

    def _lead_in(self, plan: Plan, rows: Int64) -> list[tuple[Int64, Int64, Int64]]:
        """(at_ns, rows, pass): pass 0 ends where the window begins, -1 comes before it, …"""
        length_ns = plan.lead_in_ns
        after_ns = self.arrival_ns[rows] - (plan.window.start_ns - length_ns)
        first = 1 - math.ceil(plan.multiple) if length_ns else 1
        parts = []
        for pass_ in range(first, 1):
            at_ns = length_ns + _faster(plan, after_ns - (1 - pass_) * length_ns)
            kept = at_ns >= 0
            parts.append((at_ns[kept], rows[kept], np.full(kept.sum(), pass_)))
        return parts

    def _window(self, plan: Plan, rows: Int64) -> list[tuple[Int64, Int64, Int64]]:
        """(at_ns, rows, pass): pass 0, 1, … until the duration is full."""
        window = plan.window
        parts = []
        for pass_ in range(math.ceil(plan.multiple)):
            after_ns = _faster(
                plan, self.arrival_ns[rows] - window.start_ns + pass_ * window.duration_ns
            )
            kept = after_ns < window.duration_ns
            parts.append(
                (plan.lead_in_ns + after_ns[kept], rows[kept], np.full(kept.sum(), pass_))
            )
        return parts

    def _load(self, at_ns: Int64, rows: Int64, passes: Int64, counted: NDArray[np.bool_]) -> Load:
        starts = self.id_offsets[rows]
        counts = self.id_offsets[rows + 1] - starts
        offsets = np.concatenate((_column([0]), np.cumsum(counts)))
        # Row after row, each from its own start; no pass shares with another.
        places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], counts)
        ids = self.ids[places] + np.repeat((passes - passes.min(initial=0)) * self.num_ids, counts)
        known, ids = np.unique(ids, return_inverse=True)
        session = self.session_start[rows] + (passes - passes.min(initial=0)) * len(self.pause_ns)
        return Load(
            at_ns=at_ns,
            input_length=self.input_length[rows],
            output_length=self.output_length[rows],
            counted=counted,
            id_offsets=offsets,
            ids=ids,
            num_ids=len(known),
            block_tokens=self.block_tokens,
            turns=Turns.of(session, self.pause_ns[rows]),
        )


def _faster(plan: Plan, spans_ns: Int64) -> Int64:
    """How long spans of profile time take in the replay, rounded down; exact, as in `schedule`."""
    fast, slow = plan.multiple.as_integer_ratio()
    if fast == slow:
        return spans_ns
    faster: Int64 = (spans_ns.astype(object) * slow // fast).astype(np.int64)
    return faster


def _column(values: list[int]) -> Int64:
    return np.array(values, dtype=np.int64)
