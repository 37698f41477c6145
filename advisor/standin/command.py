"""`vllm-sim`: from the command line to a serving process, or to a refusal."""

import signal
import socket
import sys
from collections.abc import Sequence
from types import FrameType

import uvicorn

from advisor import __version__
from advisor.sim import hardware, resolve
from advisor.standin.api import create_app
from advisor.standin.arguments import parse_arguments, parser
from advisor.standin.live import LiveEngine
from advisor.standin.startup import configure_logging, log, log_refusal, log_start
from advisor.terms.errors import InputError, LaunchFailed

_USAGE = "usage: vllm-sim [--version] serve MODEL [vllm serve flags] [--help=all]\n"
#: How long open streams may go on after SIGTERM.
_GRACE_S = 1


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
    try:
        config = resolve(arguments.setting, hardware(arguments.hardware))
    except LaunchFailed as exc:
        return log_refusal(exc.failure)
    except InputError as exc:
        log.error(
            "OSError: %s is not a local folder and is not a valid model identifier: %s",
            arguments.setting.model,
            exc,
        )
        return 1
    log_start(arguments, config)
    try:
        listener = _listen(arguments.host, arguments.port)
    except OSError as exc:
        log.error("OSError: %s", exc)
        return 1
    engine = LiveEngine(config, arguments.speed, arguments.seed)
    # uvicorn shuts down on a signal, then raises it again for whoever was there before: us.
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    app = create_app(engine, arguments.names, arguments.seed)
    server = uvicorn.Config(app, access_log=False, timeout_graceful_shutdown=_GRACE_S)
    with listener:
        uvicorn.Server(server).run([listener])
    return 0


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
