"""Where a request's time went, by the server's own counters."""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.advice.background import Background, Served
from advisor.terms.setting import Setting


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """Means over all requests of some replays, the lead-in's too, in ms; None is not told."""

    setting: Setting
    multiple: float
    #: of the windows that every setting compared played to its end
    replays: int
    #: from arrival to the first step that computes something for it
    queue_ms: float | None
    #: from then to the first token: the prompt, and the way
    prefill_ms: float | None
    #: queue and prefill together
    ttft_ms: float | None
    #: from the first token to the last, with what preemptions cost
    decode_ms: float | None
    #: in all of the replays together
    preemptions: float | None


def time_spent(
    settings: Sequence[Setting], multiple: float, background: Background
) -> tuple[TimeSpent, ...]:
    """One for each setting, over the windows that all of them played; empty without any."""
    replays = [
        [each for each in background.of(setting, multiple) if each.whole] for setting in settings
    ]
    windows = [{each.window for each in of_setting} for of_setting in replays]
    shared = set.intersection(*windows) if windows else set()
    if not shared:
        return ()
    return tuple(
        _spent(setting, multiple, [each for each in of_setting if each.window in shared])
        for setting, of_setting in zip(settings, replays, strict=True)
    )


def total(replays: Sequence[Served], fact: str) -> float | None:
    """One counter of `ServerFacts` over all of them; None where one does not tell it."""
    values: list[float | None] = [getattr(each.facts, fact) for each in replays]
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def queue_share(replays: Sequence[Served]) -> float | None:
    """Of the mean TTFT, what was waiting, 0..1; None where the server does not tell."""
    queue_s, ttft_s = total(replays, "queue_time_s"), total(replays, "ttft_s_sum")
    if queue_s is None or not ttft_s or queue_s > ttft_s:
        return None  # more than all of it: the two counters are not of the same requests
    return queue_s / ttft_s


def _spent(setting: Setting, multiple: float, replays: Sequence[Served]) -> TimeSpent:
    requests, share = total(replays, "ttft_count"), queue_share(replays)

    def mean_ms(seconds: float | None) -> float | None:
        return 1e3 * seconds / requests if seconds is not None and requests else None

    ttft_ms = mean_ms(total(replays, "ttft_s_sum"))
    queue_ms = ttft_ms * share if ttft_ms is not None and share is not None else None
    return TimeSpent(
        setting=setting,
        multiple=multiple,
        replays=len(replays),
        queue_ms=queue_ms,
        prefill_ms=ttft_ms - queue_ms if ttft_ms is not None and queue_ms is not None else None,
        ttft_ms=ttft_ms,
        decode_ms=mean_ms(total(replays, "itl_s_sum")),
        preemptions=total(replays, "preemptions"),
    )
