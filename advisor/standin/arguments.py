"""The command line: vLLM's flags as far as the simulator models them, and the stand-in's own."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.sim import hardware_names
from advisor.sim.flagvalues import KNOWN_FLAGS
from advisor.standin.faults import Fault, Faults, parse_faults
from advisor.terms.errors import InputError
from advisor.terms.flags import SWITCHES, FlagValue, parse_value
from advisor.terms.setting import Setting

#: Other spellings that vLLM accepts.
_ALIASES = {
    "gpu_memory_utilization": ("--device-memory-utilization",),
    "tensor_parallel_size": ("-tp",),
    "pipeline_parallel_size": ("-pp",),
    "data_parallel_size": ("-dp",),
    "quantization": ("-q",),
}
#: Switches that a baseline never names.
_MORE_SWITCHES = frozenset(
    {
        "disable_uvicorn_access_log",
        "enable_force_include_usage",
        "allow_deprecated_quantization",
    }
)
#: Read by the server itself, not by the engine.
_SERVER = frozenset({"host", "port", "served_model_name"})


@dataclass(frozen=True, slots=True)
class Arguments:
    """What `vllm-sim serve` was asked to do."""

    setting: Setting
    host: str
    port: int
    #: names under which the model is served
    names: tuple[str, ...]
    hardware: str
    #: simulated time passes this many times faster than real time
    speed: float
    seed: int
    faults: Faults
    #: where to write what was sent when; None: nowhere
    truth: Path | None


def parser() -> argparse.ArgumentParser:
    """The parser of `vllm-sim serve`; `--help` and `--help=all` are handled before it."""
    parse = argparse.ArgumentParser(prog="vllm serve", allow_abbrev=False, add_help=False)
    parse.add_argument("model", nargs="?", help="a built-in shape or a path to a config.json")
    parse.add_argument("--model", dest="model_flag", help="the same as a flag")
    for name in sorted(KNOWN_FLAGS - _SERVER):
        words = ("--" + name.replace("_", "-"), *_ALIASES.get(name, ()))
        if name in SWITCHES | _MORE_SWITCHES:
            parse.add_argument(
                *words, dest=name, action=argparse.BooleanOptionalAction, default=None
            )
        else:
            parse.add_argument(*words, dest=name, type=parse_value)
    parse.add_argument("--host", default="127.0.0.1")
    parse.add_argument("--port", type=_port, default=8000)
    parse.add_argument("--served-model-name", nargs="+")
    stand_in = parse.add_argument_group("the stand-in's own")
    stand_in.add_argument("--sim-hardware", choices=hardware_names(), default="h100-sxm")
    stand_in.add_argument("--sim-speed", type=_positive, default=1.0)
    stand_in.add_argument("--sim-seed", type=int, default=0)
    stand_in.add_argument(
        "--sim-fault",
        type=_faults,
        action="append",
        metavar="NAME[:ARG]",
        help="do wrong: none, " + ", ".join(Fault),
    )
    stand_in.add_argument(
        "--sim-truth",
        type=_writable,
        metavar="FILE",
        help="write at the end, as JSON lines, when each event was sent",
    )
    return parse


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Read what follows `serve`; like vLLM's, ends the process with status 2 on a wrong flag."""
    parse = parser()
    given = vars(parse.parse_args(argv))
    model = given["model"] or given["model_flag"]
    if model is None:
        parse.error("the following arguments are required: model")
    flags: dict[str, FlagValue] = {
        name: given[name] for name in KNOWN_FLAGS - _SERVER if given[name] is not None
    }
    return Arguments(
        setting=Setting.of(model, flags),
        host=given["host"],
        port=given["port"],
        names=tuple(given["served_model_name"] or [model]),
        hardware=given["sim_hardware"],
        speed=given["sim_speed"],
        seed=given["sim_seed"],
        faults=Faults({k: v for each in given["sim_fault"] or () for k, v in each.items()}),
        truth=given["sim_truth"],
    )


def _faults(words: str) -> dict[Fault, str | None]:
    try:
        return parse_faults(words)
    except InputError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc


def _writable(word: str) -> Path:
    """Found out now and not when there is something to write."""
    path = Path(word)
    there = path if path.exists() else path.parent
    if path.is_dir() or not path.parent.is_dir() or not os.access(there, os.W_OK):
        raise argparse.ArgumentTypeError(f"{word!r} cannot be written")
    return path


def _port(word: str) -> int:
    """0 is a free one."""
    number = int(word) if word.isascii() and word.isdigit() and len(word) <= len("65535") else -1
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{word!r} is not a port, 0 to 65535")
    return number


def _positive(word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{word!r} is not a number above 0")
    return number
