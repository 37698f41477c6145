"""What the search may foresee: the job's load on the simulator, where it knows the server."""

import os
from functools import cache

from advisor.calibrate.percentiles import Played
from advisor.profile.columns import Columns
from advisor.search.physics import Physics
from advisor.sim import hardware
from advisor.terms.job import EngineInfo
from advisor.terms.profile import Plan, Window, WindowRole
from advisor.wiring.prepare import Prepared
from advisor.wiring.rehearsed import server_of

#: Recorded requests that a forecast plays: it ranks settings, it proves nothing.
_REQUESTS = 150


def foreseen(prepared: Prepared, engine: EngineInfo) -> Physics | None:
    """None for a model or hardware that the simulator does not know."""
    spec, profile = prepared.spec, prepared.profile
    config = server_of(prepared, engine)
    if config is None:
        return None
    windows = prepared.split.windows
    whole = windows.search[0]
    per_request_ns = profile.duration_ns / len(profile.requests)
    length_ns = min(whole.duration_ns, round(_REQUESTS * per_request_ns))
    lead_ns = min(windows.gap_ns, length_ns // 2)
    window = Window("forecast", WindowRole.SEARCH, whole.start_ns, whole.start_ns + length_ns)
    columns = Columns.of(profile)

    @cache
    def traffic(multiple: float) -> Played:
        load = columns.load(Plan(window, multiple, 0, lead_ns))
        return Played(load, lead_ns, lead_ns + length_ns)

    return Physics(
        traffic,
        hardware(config.hardware.name),
        spec.targets,
        tuple(spec.load * multiple for multiple in spec.multiples),
        spec.seed,
        threads=1 if prepared.beside else os.cpu_count() or 1,
    )
