"""The `docker` that the tests put on PATH: containers are processes of the stand-in.

Knows `run`, `logs -f`, `wait`, `stop`, `rm -f` and `ps` as far as Advisor uses them, and refuses
every other word, so that a wrong argument fails a test. One container is one folder of state; its
init waits for the server, writes down the exit status and removes the folder, as `--rm` asks.
"""

import argparse
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

STATE = Path(os.environ["FAKE_DOCKER_STATE"])
SIM = [sys.executable, "-c", "import sys; from advisor.standin import main; sys.exit(main())"]


def main(words: Sequence[str]) -> int:
    with open(STATE / "calls.jsonl", "a") as calls:
        calls.write(json.dumps(list(words)) + "\n")
    verb, *rest = words
    return {"run": run, "logs": logs, "wait": wait, "stop": stop, "rm": rm, "ps": ps}[verb](rest)


def run(words: Sequence[str]) -> int:
    parse = argparse.ArgumentParser(prog="docker run", allow_abbrev=False)
    parse.add_argument("--rm", action="store_true", required=True)
    parse.add_argument("-d", action="store_true")
    parse.add_argument("--ipc")
    parse.add_argument("--gpus")
    parse.add_argument("--entrypoint")
    for name in ("--label", "-p", "-v", "-e"):
        parse.add_argument(name, action="append", default=[])
    parse.add_argument("image")
    parse.add_argument("command", nargs=argparse.REMAINDER)
    asked = parse.parse_args(words)
    if asked.image != "vllm/vllm-openai:test":
        sys.stderr.write(f"Unable to find image '{asked.image}' locally\n")
        return 125
    if asked.entrypoint == "vllm":
        return subprocess.run([*SIM, *asked.command], check=False).returncode
    id_ = secrets.token_hex(32)
    folder = STATE / id_
    folder.mkdir()
    (folder / "labels").write_text(json.dumps(dict(label.split("=", 1) for label in asked.label)))
    (folder / "asked.json").write_text(json.dumps(vars(asked)))
    argv = [sys.executable, __file__, "init", str(folder), *_served(asked)]
    # a daemon's child, not the client's: no token, no session, no parent of ours
    env = {name: value for name, value in os.environ.items() if name != "ADVISOR_LAUNCH"}
    with open(folder / "log", "wb") as log:
        init = subprocess.Popen(
            argv,
            env=env,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    (folder / "pid").write_text(str(init.pid))
    sys.stdout.write(f"{id_}\n")
    return 0


def _served(asked: argparse.Namespace) -> list[str]:
    """The command inside, its port moved to where the host's port leads."""
    (published,) = asked.p
    host, port, inside = published.split(":")
    words = list(asked.command)
    assert words[words.index("--port") + 1] == inside
    assert words[words.index("--host") + 1] == "0.0.0.0"
    words[words.index("--port") + 1], words[words.index("--host") + 1] = port, host
    return ["serve", *words]


def init(folder: Path, words: Sequence[str]) -> int:
    server = subprocess.Popen([*SIM, *words])
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    code = server.wait()
    (folder / "exit").write_text(str(code if code >= 0 else 128 - code))
    time.sleep(0.5)  # `logs` and `wait` of a daemon hear of it before it is removed
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def logs(words: Sequence[str]) -> int:
    flag, id_ = words
    assert flag == "-f"
    with open(STATE / id_ / "log", "rb", buffering=0) as log:
        while True:
            ended = not (STATE / id_).exists() or (STATE / id_ / "exit").exists()
            while chunk := log.read(65536):
                os.write(1, chunk)
            if ended:
                return 0
            time.sleep(0.05)


def wait(words: Sequence[str]) -> int:
    (id_,) = words
    while (STATE / id_).exists():
        if (STATE / id_ / "exit").exists():
            sys.stdout.write((STATE / id_ / "exit").read_text() + "\n")
            return 0
        time.sleep(0.05)
    sys.stderr.write("no such container\n")
    return 1


def stop(words: Sequence[str]) -> int:
    assert words[0] == "-t"
    deadline = time.monotonic() + float(words[1])
    for id_ in words[2:]:
        _signal(id_, signal.SIGTERM)
        while (STATE / id_).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
    return rm(["-f", *words[2:]])


def rm(words: Sequence[str]) -> int:
    assert words[0] == "-f"
    for id_ in words[1:]:
        _signal(id_, signal.SIGKILL, group=True)
        shutil.rmtree(STATE / id_, ignore_errors=True)
    return 0


def _signal(id_: str, number: int, *, group: bool = False) -> None:
    try:
        pid = int((STATE / id_ / "pid").read_text())
        os.killpg(pid, number) if group else os.kill(pid, number)
    except (FileNotFoundError, ProcessLookupError):
        return


def ps(words: Sequence[str]) -> int:
    assert list(words[:3]) == ["-a", "--no-trunc", "--filter"]
    key, _, value = words[3].removeprefix("label=").partition("=")
    assert list(words[4:]) == ["--format", '{{.ID}} {{.Label "advisor.launch"}}']
    for folder in STATE.iterdir():
        if folder.is_dir() and (folder / "pid").exists():
            labels = json.loads((folder / "labels").read_text())
            if labels.get(key) == value:
                sys.stdout.write(f"{folder.name} {labels['advisor.launch']}\n")
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "init":
        sys.exit(init(Path(sys.argv[2]), sys.argv[3:]))
    sys.exit(main(sys.argv[1:]))
