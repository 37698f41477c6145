"""What one pass over a load leaves, whichever form of the scheduler played it."""

from dataclasses import dataclass

import numpy as np

from advisor.terms.load import Load
from advisor.terms.traces import Int64


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """The requests that are served, in order of arrival at the scheduler."""

    #: int64[n], their rows in the load
    rows: Int64
    #: int64[n], when the scheduler sees each, in ns
    arrival_ns: Int64

    @classmethod
    def of(cls, load: Load, max_model_len: int, ingest_ns: int) -> "Served":
        """Requests that fit into the context; equal arrivals keep their order."""
        fits = np.flatnonzero(load.input_length + load.output_length <= max_model_len)
        rows = fits[np.argsort(load.at_ns[fits], kind="stable")]
        return cls(rows, load.at_ns[rows] + ingest_ns)


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
