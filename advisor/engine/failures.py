"""Why a launch failed, read from its log and exit status by the table of `engine.texts`."""

import re
import signal

from advisor.engine.texts import TABLE, Row
from advisor.terms.outcome import Failure, Reason

#: Of a device's memory, at least this share is free when nobody else uses it: a driver's context
#: and an operating system take less, a server that lingers holds more.
_IDLE_FREE_SHARE = 0.75

#: `(EngineCore pid=9368) ERROR 11-30 07:06:27 [core.py:402] `
_PREFIX = re.compile(
    r"^(?:\(\S+ pid=\d+\) ?)?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) )?"
    r"(?:\d\d-\d\d \d\d:\d\d:\d\d )?(?:\[[\w./-]+:\d+\] )?"
)
_ERROR_LINE = re.compile(r"^[\w.]*(?:Error|Exception)\b.*", re.MULTILINE)
_WRAPPER = re.compile(
    r"Engine core initialization failed|WorkerProc initialization failed"
    r"|EngineCore failed to start|please check the stack trace above"
)
#: `… [type=value_error, input_value=ArgsKwargs((), …), input_type=ArgsKwargs]`
_PYDANTIC_TAIL = re.compile(r" \[type=\w+, input_value=.*")
_LINES_BEFORE, _LINES_AFTER, _LINE_CHARS = 3, 4, 500


def classify(log: str, exit_code: int | None, *, under_load: bool = False) -> Failure:
    """The Failure that a server's log and exit status show.

    `exit_code` is None while the server still runs, minus the signal when one ended it. With
    `under_load` the server had been ready before. A text that no row knows is `unclassified`, or
    `crashed_under_load` when it had been ready; an end without any error text is `died`.
    """
    text = "\n".join(_PREFIX.sub("", line) for line in log.splitlines())
    for row in TABLE:
        if row.under_load != under_load and row.reason is not Reason.DRIVER_FAULT:
            continue
        if found := re.search(row.pattern, text):
            return _failure(row, found, text)
    return _unknown(text, exit_code, under_load)


def _failure(row: Row, found: re.Match[str], text: str) -> Failure:
    groups = found.groupdict()
    needed, available = _amount(groups.get("needed")), _amount(groups.get("available"))
    shortfall = None
    if needed is not None and available is not None and available > 0:
        shortfall = round(needed / available - 1, 4)
    reason = row.reason
    total = _amount(groups.get("total"))
    if total and available is not None and available / total >= _IDLE_FREE_SHARE:
        # nobody holds the device: the setting itself asks for more than it has
        reason = Reason.OOM_LOAD
    line_start = text.rfind("\n", 0, found.end()) + 1
    position = max(found.start(), line_start)
    fits = groups.get("fits")
    return Failure(
        reason,
        _line_at(text, position),
        row.stage,
        _excerpt(text, position),
        shortfall,
        needed,
        available,
        None if fits is None else int(fits),
    )


def _unknown(text: str, exit_code: int | None, under_load: bool) -> Failure:
    causes = [m for m in _ERROR_LINE.finditer(text) if not _WRAPPER.search(m.group())]
    stage = "load" if under_load else "ready"
    if causes:
        reason = Reason.CRASHED_UNDER_LOAD if under_load else Reason.UNCLASSIFIED
        position = causes[0].start()
        return Failure(reason, _line_at(text, position), stage, _excerpt(text, position))
    message = f"the server {_ending(exit_code)} without an error text"
    reason = Reason.CRASHED_UNDER_LOAD if under_load else Reason.DIED
    tail = "\n".join(line[:_LINE_CHARS] for line in text.splitlines()[-15:])
    return Failure(reason, message, stage, tail)


def _ending(exit_code: int | None) -> str:
    if exit_code is None:
        return "stopped answering"
    if exit_code >= 0:
        return f"exited with {exit_code}"
    names = {number.value: number.name for number in signal.Signals}  # real-time ones have none
    name = names.get(-exit_code, "a signal")
    hint = (
        "; the kernel does that when memory runs out, see dmesg"
        if -exit_code == signal.SIGKILL
        else ""
    )
    return f"was ended by {name} ({exit_code}{hint})"


def _amount(text: str | None) -> float | None:
    return None if text is None else float(text.rstrip("."))


def _line_at(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    return _PYDANTIC_TAIL.sub("", line).strip()[:_LINE_CHARS]


def _excerpt(text: str, position: int) -> str:
    lines = text.splitlines()
    at = text.count("\n", 0, position)
    near = lines[max(0, at - _LINES_BEFORE) : at + _LINES_AFTER + 1]
    return "\n".join(line[:_LINE_CHARS] for line in near)
