"""vLLM's iteration log: what each step computed and how long it took.

Written with `--enable-logging-iteration-details`, one line a step.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from advisor.terms.errors import InputError

_LINE = re.compile(
    r"Iteration\((?P<index>\d+)\): (?P<cr>\d+) context requests, (?P<ct>\d+) context tokens, "
    r"(?P<gr>\d+) generation requests, (?P<gt>\d+) generation tokens, "
    r"iteration elapsed time: (?P<ms>[0-9.]+) ms"
    r"(?:.*?KV cache usage: (?P<used>[0-9.]+)%)?"
)


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """One line. A context request has no output token yet."""

    index: int
    context_requests: int
    context_tokens: int
    generation_requests: int
    generation_tokens: int
    elapsed_ns: int
    #: share of the blocks held after the step, 0..1, as rounded in the log to 0.001
    kv_cache_usage: float | None = None

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Requests and tokens in context, requests and tokens in generation."""
        return (
            self.context_requests,
            self.context_tokens,
            self.generation_requests,
            self.generation_tokens,
        )


def parse_iterations(lines: Iterable[str]) -> Iterator[LoggedStep]:
    """Every step that computed something, in order.

    Raises InputError for a line that names an iteration and cannot be read, and for a step that
    is missing: a log with a hole explains nothing after it.
    """
    expected: int | None = None
    for number, line in enumerate(lines, 1):
        if "Iteration(" not in line:
            continue
        found = _LINE.search(line)
        if found is None:
            raise InputError(
                f"iteration log, line {number}: {line.strip()[:120]!r}; expected "
                "'Iteration(N): … context requests, …, iteration elapsed time: … ms'"
            )
        index = int(found["index"])
        if expected is not None and index != expected:
            raise InputError(
                f"iteration log, line {number}: iteration {index}; expected {expected}"
            )
        expected = index + 1
        step = LoggedStep(
            index,
            context_requests=int(found["cr"]),
            context_tokens=int(found["ct"]),
            generation_requests=int(found["gr"]),
            generation_tokens=int(found["gt"]),
            elapsed_ns=round(float(found["ms"]) * 1e6),
            kv_cache_usage=None if found["used"] is None else float(found["used"]) / 100,
        )
        if step.context_requests + step.generation_requests:
            yield step
