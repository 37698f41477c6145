"""The classifier, over logs of real refused starts and the texts of vLLM's source."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.engine.failures import classify
from advisor.engine.texts import TABLE
from advisor.terms.outcome import Reason, TrialState
from advisor.terms.reasons import RULES, Seen

LOGS = Path(__file__).parent / "logs"

#: file (a start of vLLM 0.32.0 for CPUs that was refused) -> reason, stage, shortfall
REAL = {
    "awq_without_config": (Reason.UNSUPPORTED, "config", None),
    "batched_below_model_len": (Reason.INVALID_SETTING, "config", None),
    "batched_below_seqs": (Reason.INVALID_SETTING, "config", 1.0),
    "fp8_kernel_missing": (Reason.UNSUPPORTED, "load", None),
    "fp8_with_float32": (Reason.UNSUPPORTED, "config", None),
    "invalid_choice": (Reason.INVALID_SETTING, "config", None),
    "kv_cache_too_small": (Reason.KV_CACHE_TOO_SMALL, "kv_cache", None),
    "model_len_too_long": (Reason.INVALID_SETTING, "config", 23.4138),
    "no_model_folder": (Reason.MODEL_UNAVAILABLE, "load", None),
    "no_model_repository": (Reason.MODEL_UNAVAILABLE, "load", None),
    "no_weights": (Reason.MODEL_UNAVAILABLE, "load", None),
    "port_taken": (Reason.PORT_TAKEN, "ready", None),
    "unrecognized_flag": (Reason.INVALID_SETTING, "config", None),
    "utilisation_above_free": (Reason.OOM_LOAD, "load", 0.1202),
    "utilisation_above_one": (Reason.INVALID_SETTING, "config", None),
}

#: text as vLLM 0.33.0 words it -> reason, shortfall
TEXTS = [
    (
        "ValueError: Free memory on device cuda:0 (5.10/22.05 GiB) on startup is less than "
        "desired GPU memory utilization (0.9, 19.84 GiB). Decrease GPU memory utilization",
        Reason.MEMORY_TAKEN,
        2.8902,
    ),
    (
        "ValueError: Free memory on device cuda:0 (19.77/22.05 GiB) on startup is less than "
        "desired GPU memory utilization (0.9, 19.84 GiB). Decrease GPU memory utilization",
        Reason.OOM_LOAD,
        0.0035,
    ),
    (
        "AssertionError: Error in memory profiling. Initial free memory 82.94 GiB, current free "
        "memory 90.17 GiB.",
        Reason.MEMORY_TAKEN,
        None,
    ),
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB.\n"
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy "
        "requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization`",
        Reason.OOM_SAMPLER,
        None,
    ),
    (
        "Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization",
        Reason.OOM_LOAD,
        None,
    ),
    (
        '  File "gpu_model_runner.py", line 1, in capture_model\n    run()\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB.",
        Reason.OOM_GRAPH_CAPTURE,
        None,
    ),
    (
        '  File "gpu_worker.py", line 1, in determine_available_memory\n    run()\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB.",
        Reason.OOM_PROFILING,
        None,
    ),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to", Reason.OOM_LOAD, None),
    (
        "ValueError: No available memory for the cache blocks. Try increasing "
        "`gpu_memory_utilization` when initializing the engine.",
        Reason.KV_CACHE_TOO_SMALL,
        None,
    ),
    (
        "ValueError: To serve at least one request with the model's max seq len (131072), "
        "(16.0 GiB KV cache is needed, which is larger than the available KV cache memory "
        "(12.8 GiB). Based on the available memory, the estimated maximum model length is 9.",
        Reason.KV_CACHE_TOO_SMALL,
        0.25,
    ),
    (
        "ValueError: The worker already uses 3.0 GiB (model weights and runtime), more than the "
        "2.4 GiB of CPU memory reserved",
        Reason.KV_CACHE_TOO_SMALL,
        0.25,
    ),
    ("ValueError: Invalid kv_cache_dtype: fp3", Reason.INVALID_SETTING, None),
    (
        'ValueError: kv_cache_dtype="float16" is incompatible with dtype="bfloat16".',
        Reason.INVALID_SETTING,
        None,
    ),
    (
        "max_num_active_seqs (9) cannot be greater than max_num_seqs (8)",
        Reason.INVALID_SETTING,
        None,
    ),
    (
        "ValueError: VllmConfig does not have enough slots to schedule a token",
        Reason.INVALID_SETTING,
        None,
    ),
    (
        "Value error, The quantization method fp8 is not supported for the current GPU. Minimum "
        "capability: 89. Current capability: 80.",
        Reason.UNSUPPORTED,
        None,
    ),
    ("Value error, Unknown quantization method: fp7. Must be one of", Reason.UNSUPPORTED, None),
    (
        "Value error, gptq quantization is currently not supported in cpu.",
        Reason.UNSUPPORTED,
        None,
    ),
    (
        "Quantization method specified in the model config (awq) does not match the "
        "quantization method specified in the `quantization` argument (fp8).",
        Reason.UNSUPPORTED,
        None,
    ),
    (
        "Async scheduling is not supported by the V1 model runner with pipeline parallelism",
        Reason.UNSUPPORTED,
        None,
    ),
    (
        "NotImplementedError: FP8 KV cache on CPU requires x86 with AVX-512 or AMX",
        Reason.UNSUPPORTED,
        None,
    ),
    (
        "TimeoutError: Timed out waiting for engine core processes to start",
        Reason.START_TOO_SLOW,
        None,
    ),
    ("RuntimeError: No CUDA GPUs are available", Reason.DRIVER_FAULT, None),
    ("RuntimeError: Failed to infer device type", Reason.DRIVER_FAULT, None),
    (
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        Reason.DRIVER_FAULT,
        None,
    ),
]
WRAPPERS = """\
Exception: WorkerProc initialization failed due to an exception in a background process.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


@pytest.mark.parametrize("name", sorted(REAL))
def test_real_logs(name: str) -> None:
    reason, stage, shortfall = REAL[name]
    failure = classify((LOGS / f"{name}.txt").read_text(), 1)
    assert (failure.reason, failure.stage) == (reason, stage)
    assert failure.shortfall == pytest.approx(shortfall, abs=2e-4)
    assert failure.message[:100] in failure.excerpt
    assert "Engine core initialization failed" not in failure.message
    assert "pid=" not in failure.excerpt


def test_every_real_log_has_its_row() -> None:
    assert {path.stem for path in LOGS.glob("*.txt")} == set(REAL)


@pytest.mark.parametrize(("text", "reason", "shortfall"), TEXTS)
def test_texts(text: str, reason: Reason, shortfall: float | None) -> None:
    log = f"INFO 11-30 07:06:27 [core.py:1] starting\n{text}\n{WRAPPERS}"
    failure = classify(log, 1)
    assert failure.reason is reason
    assert failure.shortfall == pytest.approx(shortfall, abs=1e-4)
    assert failure.message in text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried", Reason.OOM_UNDER_LOAD),
        ("ERROR EngineCore encountered a fatal error.", Reason.CRASHED_UNDER_LOAD),
        ("KeyError: 7", Reason.CRASHED_UNDER_LOAD),
        ("", Reason.CRASHED_UNDER_LOAD),
        ("CUDA error: unspecified launch failure", Reason.DRIVER_FAULT),
    ],
)
def test_a_server_that_had_been_ready(text: str, reason: Reason) -> None:
    log = f"WARNING awq quantization is currently not supported in cpu.\n{text}"
    assert classify(log, -6, under_load=True).reason is reason


def test_a_wrapper_is_never_the_cause() -> None:
    failure = classify(f"ZeroDivisionError: division by zero\n{WRAPPERS}", 1)
    assert failure.reason is Reason.UNCLASSIFIED
    assert failure.message == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [(1, "exited with 1"), (-9, "SIGKILL"), (-99, "a signal"), (None, "stopped answering")],
)
def test_no_text_at_all(exit_code: int | None, words: str) -> None:
    failure = classify(WRAPPERS, exit_code)
    assert failure.reason is Reason.DIED
    assert words in failure.message


@pytest.mark.parametrize("under_load", [False, True])
@pytest.mark.parametrize(
    ("exit_code", "times"), [(0, 0), (1, 0), (-15, 0), (-11, 0), (-9, 1), (None, 0)]
)
def test_what_sigkill_may_mean_is_said_once_and_of_it_alone(
    exit_code: int | None, times: int, under_load: bool
) -> None:
    failure = classify("", exit_code, under_load=under_load)
    said = f"{failure.message} ({failure.rule.hint})"
    assert said.count("SIGKILL") == said.count("kernel") == said.count("dmesg") == times
    assert failure.excerpt == ""
    assert "excerpt" not in said


def test_whose_fault_it_is() -> None:
    taken = classify(TEXTS[0][0], 1)
    assert taken.state is TrialState.FAILED
    too_much = classify(TEXTS[1][0], 1)
    assert too_much.state is TrialState.INFEASIBLE


@given(
    st.text(max_size=400),
    st.one_of(st.none(), st.integers(-64, 255)),
    st.booleans(),
)
def test_any_log_gets_a_reason(log: str, exit_code: int | None, under_load: bool) -> None:
    failure = classify(log, exit_code, under_load=under_load)
    assert failure.message
    assert len(failure.excerpt) < 10_000


def test_the_table_has_no_two_rows_alike() -> None:
    assert len({(row.pattern, row.under_load) for row in TABLE}) == len(TABLE)


def test_the_amounts_and_the_length_that_fits_are_kept() -> None:
    text = next(text for text, _, _ in TEXTS if text.startswith("ValueError: To serve at least"))
    failure = classify(text, 1)
    assert (failure.needed, failure.available, failure.fits_tokens) == (16.0, 12.8, 9)
    without = classify(text.partition(" Based on")[0], 1)
    assert (without.shortfall, without.fits_tokens) == (0.25, None)


def test_every_reason_is_known_by_a_text_or_by_the_supervisor_itself() -> None:
    by_text = {row.reason for row in TABLE}
    ours = {reason for reason, rule in RULES.items() if rule.seen is Seen.OURSELVES}
    assert set(Reason) == by_text | ours


def test_what_a_cpu_has_shown_rests_on_a_log() -> None:
    """A crash under load is no log of a start; `tests/real` causes it."""
    shown = {reason for reason, _, _ in REAL.values()} | {Reason.CRASHED_UNDER_LOAD}
    assert {reason for reason, rule in RULES.items() if rule.seen is Seen.CPU} == shown
