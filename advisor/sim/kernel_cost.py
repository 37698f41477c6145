"""How long a step takes, compiled: what `cost.py` says."""

from advisor.sim.kernel_state import (
    CONTEXT_FS,
    DEPTH,
    ENDS,
    FACTORS,
    FIXED_FS,
    GRAPH,
    HOST_FS,
    HOST_SEQUENCE_FS,
    LAUNCH_FS,
    NUM_FACTORS,
    NUM_WEIGHTS,
    PAIR_FS,
    PREFILL_FS,
    REDUCE_FS,
    SEQUENCE_FS,
    STEP_BUSY,
    STEP_CONTEXT,
    STEP_END,
    STEP_PAIRS,
    STEP_PREFILLS,
    STEP_SEQUENCES,
    STEP_TOKENS,
    TOKEN_FS,
    WEIGHTS_FS,
    compiled,
)
from advisor.terms.traces import Int64

_FS_PER_NS = 1_000_000
_PER_MILLION = 1_000_000


@compiled
def _step_ns(m: Int64, step: int) -> int:
    """How long the step keeps the device busy: `CostModel.step_ns`."""
    tokens, launch = m[STEP_TOKENS], m[LAUNCH_FS]
    if tokens <= m[GRAPH]:
        launch = 0
        if 2 < tokens <= 4:
            tokens = 4
        elif tokens > 4:
            multiple = 8 if tokens <= 248 else 16
            tokens = min(-(-tokens // multiple) * multiple, m[GRAPH])
    exact_fs = max(m[m[WEIGHTS_FS] + min(tokens, m[NUM_WEIGHTS] - 1)], tokens * m[TOKEN_FS])
    exact_fs += m[STEP_CONTEXT] * m[CONTEXT_FS] + m[STEP_PAIRS] * m[PAIR_FS]
    exact_fs += m[FIXED_FS] + m[STEP_SEQUENCES] * m[SEQUENCE_FS] + m[STEP_PREFILLS] * m[PREFILL_FS]
    exact_fs += tokens * m[REDUCE_FS] + launch
    return exact_fs // _FS_PER_NS * m[m[FACTORS] + step % m[NUM_FACTORS]] // _PER_MILLION


@compiled
def start(m: Int64, step: int, start_ns: int) -> int:
    """Put the scheduled step into flight; when another could start."""
    busy_ns = _step_ns(m, step)
    m[STEP_BUSY] = busy_ns
    m[STEP_END] = start_ns + busy_ns
    m[m[ENDS] + step % m[DEPTH]] = start_ns + busy_ns
    host_ns = (m[HOST_FS] + m[STEP_SEQUENCES] * m[HOST_SEQUENCE_FS]) // _FS_PER_NS
    return start_ns + (max(busy_ns, host_ns) if m[DEPTH] > 1 else busy_ns + host_ns)
