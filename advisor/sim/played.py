"""What one pass over a load leaves, whichever form of the scheduler played it."""

from dataclasses import dataclass, replace

import numpy as np

from advisor.terms.load import Load, Turns
from advisor.terms.traces import Int64


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """The requests that are served, in order of arrival at the scheduler."""

    #: int64[n], their rows in the load
    rows: Int64
    #: int64[n], when the scheduler sees each, in ns; of one that waits for another, counted from
    #: when the client has all of the other's answer
    arrival_ns: Int64
    #: int64[n], which of these each waits for, -1: none
    before: Int64

    @classmethod
    def of(cls, load: Load, max_model_len: int, ingest_ns: int) -> "Served":
        """Requests that fit into the context; equal arrivals keep their order.

        The load's turns wait for none that is not served: see `resolved`.
        """
        fits = np.flatnonzero(load.input_length + load.output_length <= max_model_len)
        rows = fits[np.argsort(load.at_ns[fits], kind="stable")]
        if load.turns is None:
            return cls(rows, load.at_ns[rows] + ingest_ns, np.full(len(rows), -1))
        before, pause_ns = load.turns.before[rows], load.turns.pause_ns[rows]
        place = np.full(len(load) + 1, -1)
        place[rows] = np.arange(len(rows))
        moment_ns = np.where(before < 0, load.at_ns[rows], pause_ns)
        return cls(rows, moment_ns + ingest_ns, place[before])


def resolved(load: Load, max_model_len: int) -> Load:
    """The load with no turn that waits for a request that is not served.

    Such a request fails at once, so its follower's pause begins at the very moment at which it
    was sent: when its own time has come, or after its own pause.
    """
    if load.turns is None:
        return load
    fits = load.input_length + load.output_length <= max_model_len
    at_ns, before, pause_ns = (
        load.at_ns.copy(),
        load.turns.before.copy(),
        load.turns.pause_ns.copy(),
    )
    waits_in_vain = np.flatnonzero((before >= 0) & ~fits[before])
    # In order of the load, where each comes after the one it waits for.
    for row in waits_in_vain.tolist():
        failed = before[row]
        if before[failed] < 0:
            at_ns[row] = at_ns[failed] + pause_ns[row]
        else:
            pause_ns[row] += pause_ns[failed]
        before[row] = before[failed]
    return replace(load, at_ns=at_ns, turns=Turns(before, pause_ns))


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """Log and tokens of a replay."""

    #: int64[steps, columns], the columns of `Timeline`
    log: Int64
    #: int64[tokens], when each token reaches the client, by request in order of arrival
    events: Int64
    preemptions: int
    prefix_queries: int
    prefix_hits: int
    #: from arrival to first admission, summed over the requests
    queued_ns: int
