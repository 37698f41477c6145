"""The longest requests of a profile: what fills a server's memory most."""

from collections.abc import Sequence


def longest(tokens: Sequence[int], count: int) -> list[tuple[int, int]]:
    """(pass, row) of the `count` rows that hold most tokens, prompt and answer together.

    The longest first, of equal ones the earlier; when there are fewer rows than that, from the
    first again in a next pass. `tokens` has one number for each row of the profile.
    """
    order = sorted(range(len(tokens)), key=lambda row: -tokens[row])
    return [(number // len(order), order[number % len(order)]) for number in range(count)]
