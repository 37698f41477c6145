"""From what was asked to all that defines a job."""

import asyncio
import math
from dataclasses import replace
from pathlib import Path

from advisor.bench.engines import ENGINES
from advisor.engine.checkpoint import Checkpoint, read_checkpoint
from advisor.engine.doctor import has_fp8
from advisor.profile.load import load_profile
from advisor.profile.shipped import resolve
from advisor.search.defaults import allowed_precisions, default_space
from advisor.search.searcher import sampler_name
from advisor.search.space import Space
from advisor.search.spacefile import parse_space
from advisor.sim.hardware import Hardware, hardware
from advisor.sim.models import model
from advisor.terms.errors import InputError, SpaceError
from advisor.terms.job import Api, JobSpec, Objective
from advisor.terms.target import parse_targets
from advisor.wiring.asked import Asked, check_load
from advisor.wiring.gpus import gpu_sets

DEFAULT_COMMAND = "vllm"
#: Years of launches; beyond it somebody meant something else.
MOST_LAUNCHES = 10_000
#: The normal and t quantiles behind the bounds are no longer trustworthy further out.
MOST_CONFIDENCE = 0.9999


def spec_of(asked: Asked) -> JobSpec:
    """Read and check what needs no other thing to be checked against. Raises InputError."""
    if asked.engine not in ENGINES:
        raise InputError(f"engine {asked.engine!r} is unknown; one of {', '.join(ENGINES)}")
    if asked.engine == "attach":
        _refuse_changes(asked)
        _refuse_control(asked)
    if not 1 <= asked.launches <= MOST_LAUNCHES:
        raise InputError(f"launches is {asked.launches}; expected 1 to {MOST_LAUNCHES}")
    check_load(asked.load)
    if not 0.5 < asked.confidence <= MOST_CONFIDENCE:
        raise InputError(
            f"confidence is {asked.confidence!r}; expected above 0.5, at most {MOST_CONFIDENCE}"
        )
    if not asked.targets:
        raise InputError("target is missing; give at least one, e.g. --target 'ttft:p95<=1000ms'")
    if asked.gpu_price is not None and not 0 < asked.gpu_price < math.inf:
        raise InputError(f"gpu_price is {asked.gpu_price:g}; expected a number above 0")
    _refuse_of_the_other_engine(asked)
    if asked.gpu_hours is not None and not 0 < asked.gpu_hours < math.inf:
        raise InputError(f"gpu hours is {asked.gpu_hours:g}; expected a number above 0")
    sampler_name(asked.sampler)
    path = resolve(asked.profile)
    spec = JobSpec(
        model=asked.model,
        profile_path=str(path.absolute()),
        profile_sha256=load_profile(path).sha256,
        engine=asked.engine,
        hardware=asked.hardware,
        vllm_command=DEFAULT_COMMAND if asked.vllm_command is None else asked.vllm_command,
        baseline=asked.baseline,
        space=_space_text(asked),
        sampler=asked.sampler,
        objective=_objective(asked.objective),
        load=asked.load,
        launches=asked.launches,
        time_budget_s=asked.time_budget_s,
        confidence=asked.confidence,
        targets=parse_targets(asked.targets),
        accept_precision_change=asked.accept_precision_change,
        seed=asked.seed,
        gpus=gpu_sets(asked.gpu_sets),
        api=_api(asked.api),
        control_arm=asked.control_arm,
        gpu_price=asked.gpu_price,
        gpu_hours=asked.gpu_hours,
    )
    return _as_it_runs(spec) if asked.engine == "attach" else spec


def _refuse_changes(asked: Asked) -> None:
    for name, given in (("space", asked.space), ("baseline", asked.baseline)):
        if given:
            raise InputError(
                f"{name} {given!r}: --engine attach measures a server as it runs and changes none "
                "of its flags; leave it out"
            )


def _refuse_control(asked: Asked) -> None:
    if asked.control_arm:
        raise InputError(
            "control_arm is given; --engine attach recommends no change that it could guard: "
            "leave it out"
        )


def _as_it_runs(spec: JobSpec) -> JobSpec:
    """A server that someone else runs is the baseline and the only setting there is; it gets the
    load that was asked for and never more."""
    return replace(spec, launches=1, multiples=(1.0,))


def _refuse_of_the_other_engine(asked: Asked) -> None:
    """An option that would change nothing is a misunderstanding, often a forgotten --engine."""
    given = {
        "hardware": (("sim",), asked.hardware),
        "vllm_command": (("vllm", "docker", "attach"), asked.vllm_command),
        "gpu_sets": (("vllm", "docker"), asked.gpu_sets),
        "gpu_hours": (("vllm", "docker"), asked.gpu_hours),
        "api": (("vllm", "docker", "attach"), asked.api),
    }
    for name, (engines, value) in given.items():
        if value is not None and asked.engine not in engines:
            raise InputError(
                f"{name} is {value!r}; it goes with --engine {' or '.join(engines)}, this is "
                f"{asked.engine}"
            )


def _api(word: str | None) -> Api:
    try:
        return Api.COMPLETIONS if word is None else Api(word)
    except ValueError:
        raise InputError(f"api {word!r} is unknown; one of {', '.join(Api)}") from None


def _objective(word: str) -> Objective:
    try:
        return Objective(word)
    except ValueError:
        known = ", ".join(Objective)
        raise InputError(f"objective {word!r} is unknown; one of {known}") from None


def _space_text(asked: Asked) -> str:
    if asked.space is None:
        return _default_space(asked).to_toml()
    path = Path(asked.space)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise SpaceError(
            f"space {asked.space!r}: {exc.strerror}; expected a TOML file of knobs"
        ) from exc
    except UnicodeDecodeError as exc:
        raise SpaceError(f"space {asked.space!r}: not UTF-8; expected a TOML file") from exc
    return parse_space(text).to_toml()


def _default_space(asked: Asked) -> Space:
    """The mission's four knobs, quantisation as far as checkpoint and hardware allow."""
    quantization = checkpoint_of(asked.engine, asked.model).quantization
    if asked.engine == "sim":
        fp8 = simulated_hardware(asked.hardware).flops_fp8 is not None
    else:
        fp8 = asyncio.run(has_fp8())
    return default_space(precisions=allowed_precisions(quantization, fp8_hardware=fp8))


def checkpoint_of(engine: str, name: str) -> Checkpoint:
    """What can be told of the model without a download; the simulator knows all of its own."""
    if engine != "sim":
        return read_checkpoint(name)
    shape = model(name)
    return Checkpoint(shape.vocab, shape.max_position_embeddings, shape.quantization)


def simulated_hardware(name: str | None) -> Hardware:
    """The device by its name. Raises InputError for none and for an unknown one."""
    if name is None:
        raise InputError("hardware is missing; the simulator needs one, e.g. --hardware h100-sxm")
    return hardware(name)
