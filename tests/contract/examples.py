"""One example of each noun that a ledger keeps, with every optional part filled in."""

import dataclasses
import math

import numpy as np

from advisor.terms.advice import Advice, AdviceOutcome, Evidence
from advisor.terms.job import (
    EngineInfo,
    JobSpec,
    Launch,
    Objective,
    Proposal,
    Replay,
    ServerFacts,
    TrialResult,
)
from advisor.terms.measurement import Headroom, Judgement, Measurement, Percentiles
from advisor.terms.outcome import Failure, Reason, ReplayOutcome, TrialState
from advisor.terms.profile import Plan, Window, WindowRole
from advisor.terms.setting import Setting
from advisor.terms.target import Metric, Verdict, parse_target
from advisor.terms.traces import MISSING, ClientAudit, RequestStatus, Traces

ENGINE = EngineInfo("sim", "0.33.0", "h100-sxm", "llama-3.1-8b", simulated=True)
TARGETS = (parse_target("itl:p99<=0.6x"), parse_target("errors<=0.1%"))
SPEC = JobSpec(
    model="llama-3.1-8b",
    profile_path="profiles/chat.jsonl",
    profile_sha256="ab" * 32,
    engine="sim",
    hardware=None,
    vllm_command="vllm",
    baseline="--max-num-seqs 64",
    space="[knobs]\n",
    sampler="tpe",
    objective=Objective.HEADROOM,
    load=1.0,
    launches=12,
    time_budget_s=None,
    confidence=0.95,
    targets=TARGETS,
    accept_precision_change=False,
    seed=7,
)
SETTING = Setting.of(
    "llama-3.1-8b",
    {"max_num_seqs": 64, "gpu_memory_utilization": 0.9, "enable_prefix_caching": False},
    ("max_num_seqs",),
    "bf16",
)
PROPOSAL = Proposal(SETTING, "sampler")
HEADROOM = Headroom(1.0, None, 1.1)
AUDIT = ClientAudit(0.1, 0.2, 0.3, None, 0.5, 1.5, "kernel")


def measurement() -> Measurement:
    """The requests that failed reach the p99, so it is infinite."""
    target = parse_target("itl:p99<=60ms")
    judgement = Judgement(
        target, Verdict.MET, 40.0, 35.0, math.inf, 0.001, 0.0, 0.008, 9_000, 12, 0.95
    )
    percentiles = Percentiles(Metric.TTFT, 100.0, 300.5, math.inf, 300)
    return Measurement(1.0, (percentiles,), (judgement,), 1e3, 2e3, 4.5, 0.02, 300, 3)


def measured() -> TrialResult:
    launch = Launch((("max_num_seqs", 64), ("block", "inf")), 31.5, None, ("asked 1, runs 2",))
    return TrialResult(
        TrialState.MEASURED, launch=launch, measurements=(measurement(),), headroom=HEADROOM
    )


def refused() -> TrialResult:
    failure = Failure(Reason.OOM_LOAD, "out of memory", "load", "torch: …", 0.25)
    return TrialResult(TrialState.INFEASIBLE, failure=failure)


def advice() -> Advice:
    evidence = Evidence(SETTING, measurement(), HEADROOM, confirmed=True)
    return Advice(
        AdviceOutcome.RECOMMENDED,
        evidence,
        None,
        ("--max-num-seqs 256 -> 64",),
        ("ITL p99: 0.1 % over 60 ms",),
        9,
        6,
        45,
        0.95,
        ENGINE,
        "ab" * 32,
    )


def traces() -> Traces:
    """Three requests: five tokens in three events, one reset, one cut in its stream."""
    return Traces(
        planned_ns=np.array([0, 10**9, 2 * 10**9]),
        sent_ns=np.array([1_000, MISSING, 2 * 10**9 + 7]),
        end_ns=np.array([5 * 10**8, 10**9 + 5, MISSING]),
        status=np.array(
            [RequestStatus.OK, RequestStatus.RESET, RequestStatus.TRUNCATED], dtype=np.uint8
        ),
        counted=np.array([False, True, True]),
        input_tokens=np.array([100, 2000, 3]),
        prompt_tokens=np.array([101, MISSING, MISSING]),
        output_tokens=np.array([5, 8, 13]),
        event_offsets=np.array([0, 3, 4, 5]),
        event_ns=np.array([10**8, 2 * 10**8, 3 * 10**8, 10**9 + 4, 3 * 10**9]),
        event_tokens=np.array([1, 2, 2, 1, 1], dtype=np.int32),
        window_start_ns=10**9,
        window_end_ns=3 * 10**9,
        audit=AUDIT,
    )


def replay(ordinal: int = 0, outcome: ReplayOutcome = ReplayOutcome.VALID) -> Replay:
    """The salt is wider than a signed 64-bit integer."""
    window = Window(f"search-{ordinal}", WindowRole.SEARCH, 0, 2 * 10**9)
    plan = Plan(window, 1.2, 2**64 - 1 - ordinal, 10**9)
    facts = ServerFacts(running_max=3.0, kv_cache_usage_max=0.0)
    return Replay(plan, outcome, "late by 2 ms", traces(), facts)


def assert_same(left: Traces, right: Traces) -> None:
    """Equal to the last bit, types included."""
    for field in dataclasses.fields(Traces):
        one, other = getattr(left, field.name), getattr(right, field.name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype, field.name
            np.testing.assert_array_equal(one, other, err_msg=field.name)
        else:
            assert one == other, field.name
