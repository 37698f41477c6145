"""`vllm-sim`: from the command line to a serving process, or to a refusal."""

import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

import uvicorn

from advisor import __version__
from advisor.sim import EngineConfig, hardware, resolve
from advisor.standin.api import Serving, create_app
from advisor.standin.arguments import Arguments, parse_arguments, parser
from advisor.standin.device import leave_taken, take, visible
from advisor.standin.faults import Fault
from advisor.standin.live import LiveEngine
from advisor.standin.misbehave import Conduct, start_child_in_own_session
from advisor.standin.refusals import REFUSALS, refuse
from advisor.standin.startup import configure_logging, log, log_refusal, log_start, print_as
from advisor.standin.truth import write_truth
from advisor.terms.errors import InputError, LaunchFailed
from advisor.terms.flags import parse_value
from advisor.terms.setting import Setting

_USAGE = "usage: vllm-sim [--version] serve MODEL [vllm serve flags] [--help=all]\n"
#: How long open streams may go on after SIGTERM.
_GRACE_S = 1
#: How often a start that never ends says that it goes on.
_PROGRESS_S = 0.2


def main(argv: Sequence[str] | None = None) -> int:
    """The console script; returns vLLM's exit status: 2 for the command line, 1 for a refusal."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] in (["--version"], ["-v"]):
        sys.stdout.write(f"vllm-sim {__version__}\n")
        return 0
    if words[:1] != ["serve"]:
        sys.stderr.write(_USAGE)
        return 0 if words[:1] in (["--help"], ["-h"]) else 2
    if any(word == "-h" or word.partition("=")[0] == "--help" for word in words):
        sys.stdout.write(parser().format_help())
        return 0
    return _serve(words[1:])


def _serve(words: Sequence[str]) -> int:
    arguments = parse_arguments(words)
    configure_logging()
    setting = _as_run(arguments)
    try:
        config = resolve(setting, hardware(arguments.hardware))
    except LaunchFailed as exc:
        return log_refusal(exc.failure)
    except InputError as exc:
        log.error(
            "OSError: %s is not a local folder and is not a valid model identifier: %s",
            setting.model,
            exc,
        )
        return 1
    log_start(arguments, config)
    if Fault.OWN_SESSION in arguments.faults:
        start_child_in_own_session()
    refused = _start_badly(arguments)
    if refused is not None:
        return refused
    for device in visible(os.environ):
        _take_memory(device, config, arguments)
    try:
        listener = _listen(arguments.host, arguments.port)
    except OSError as exc:
        log.error("OSError: %s", exc)
        return 1
    with listener:
        return _run(arguments, config, listener)


def _as_run(arguments: Arguments) -> Setting:
    """The setting asked for, but for the knob that is ignored."""
    ignored = arguments.faults.flag(Fault.KNOB_IGNORED)
    if ignored is None:
        return arguments.setting
    name, value = ignored
    flags = {**dict(arguments.setting.flags), name: parse_value(value)}
    return replace(arguments.setting, flags=tuple(sorted(flags.items())))


def _start_badly(arguments: Arguments) -> int | None:
    """The exit status of a start that ends here, None when it goes on."""
    refusal = next((fault for fault in arguments.faults if fault in REFUSALS), None)
    if refusal is not None:
        return refuse(refusal)
    while Fault.START_STALLED in arguments.faults:
        signal.pause()
    done = 0
    while Fault.START_TOO_SLOW in arguments.faults:
        done += 1
        shards = f"Loading safetensors checkpoint shards: {done} completed"
        print_as("EngineCore", "weight_utils.py:1", [shards], level="INFO")
        time.sleep(_PROGRESS_S)
    return None


def _take_memory(device: Path, config: EngineConfig, arguments: Arguments) -> None:
    """What a GPU would hold from now on: weights, KV cache and graphs."""
    memory = config.memory
    size = memory.weight_bytes + memory.kv_bytes + memory.graph_bytes
    if Fault.NOT_RELEASED in arguments.faults:
        leave_taken(device, size)
    else:
        take(device, size)


def _run(arguments: Arguments, config: EngineConfig, listener: socket.socket) -> int:
    """Serve until a signal or a fault ends it; returns the exit status."""
    engine = LiveEngine(config, arguments.speed, arguments.seed)
    failed = False

    def fail() -> None:
        nonlocal failed
        failed = server.should_exit = True

    names = ("somebody-else",) if Fault.WRONG_SERVER in arguments.faults else arguments.names
    serving = Serving(engine, names, arguments.seed, Conduct(arguments.faults, engine, fail))
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(serving),
            access_log=False,
            timeout_graceful_shutdown=_GRACE_S,
            http=serving.connections.protocol(),
        )
    )
    # uvicorn shuts down on a signal, then raises it again for whoever was there before: us.
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    try:
        server.run([listener])
    finally:
        if arguments.truth is not None:
            write_truth(serving.truth, arguments.truth)
    return 1 if failed else 0


def _listen(host: str, port: int) -> socket.socket:
    """Bound before anything else is tried, as vLLM does; raises OSError when it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


def _leave(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(0)
