"""The block pool: what is forgotten first, copies, and the same done with numbered blocks."""

from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.sim.blocks import BlockPool
from advisor.sim.keys import part, total


class NumberedPool:
    """The same pool block by block: a free queue of numbers, each with the key it holds."""

    def __init__(self, num_blocks: int) -> None:
        self.free = list(range(1, num_blocks))
        self.references = [0] * num_blocks
        self.holds: dict[int, int] = {}
        #: key -> its blocks: the one that serves, then the latest, …, the second
        self.cached: dict[int, list[int]] = {}

    def find(self, keys: list[int]) -> list[int]:
        found = []
        for key in keys:
            if key not in self.cached:
                break
            found.append(self.cached[key][0])
        return found

    def acquire(self, blocks: list[int]) -> None:
        for block in blocks:
            if self.references[block] == 0:
                self.free.remove(block)
            self.references[block] += 1

    def take(self, count: int) -> list[int]:
        taken, self.free = self.free[:count], self.free[count:]
        for block in taken:
            self.references[block] = 1
            key = self.holds.pop(block, None)
            if key is not None:
                self.cached[key].remove(block)
                if not self.cached[key]:
                    del self.cached[key]
        return taken

    def name(self, blocks: list[int], keys: list[int]) -> None:
        for block, key in zip(blocks, keys, strict=True):
            self.holds[block] = key
            self.cached.setdefault(key, []).insert(1, block)

    def release(self, blocks: list[int]) -> None:
        for block in reversed(blocks):
            self.references[block] -= 1
            if self.references[block] == 0:
                self.free.insert(len(self.free) if block in self.holds else 0, block)


def found(pool: BlockPool, keys: range) -> int:
    return total(pool.find([keys]))


def test_null_block_is_never_given_away() -> None:
    pool = BlockPool(5)
    assert pool.num_usable == pool.num_free == 4
    pool.take(4)
    assert pool.num_free == 0


def test_unnamed_blocks_are_reused_first_and_named_ones_last_tail_before_head() -> None:
    pool = BlockPool(6)
    keys = pool.new_keys(2)
    pool.take(3)
    pool.release(pool.name([keys]), 1)
    left = []
    for _ in range(5):
        pool.take(1)
        left.append(found(pool, keys))
    assert left == [2, 2, 2, 1, 0]


def test_found_content_leaves_the_queue_and_is_not_forgotten() -> None:
    pool = BlockPool(4)
    keys = pool.new_keys(2)
    pool.take(2)
    pool.release(pool.name([keys]), 0)
    head = pool.find([keys[:1]])
    assert pool.count_idle(head) == 1
    pool.acquire(head)
    assert (pool.num_free, pool.count_idle(head)) == (2, 0)
    pool.take(2)
    assert pool.find([keys]) == head


def test_of_two_blocks_with_one_key_the_other_is_found_when_the_first_is_gone() -> None:
    pool = BlockPool(3)
    keys = pool.new_keys(1)
    pool.take(2)
    first, copy = pool.name([keys]), pool.name([keys])
    assert (first, pool.find([keys]), pool.has_copies([keys])) == ([keys], first, True)
    pool.release(first, 0)
    pool.take(1)
    assert pool.find([keys]) == copy
    pool.release(copy, 0)
    pool.take(1)
    assert pool.find([keys]) == []
    # Content that was forgotten may come again.
    assert pool.name([keys]) == [keys]


def test_of_several_copies_the_latest_serves_next() -> None:
    pool = BlockPool(4)
    keys = pool.new_keys(1)
    pool.take(3)
    first, second, third = (pool.name([keys]) for _ in range(3))
    for held, then in ((first, third), (third, second), (second, [])):
        pool.release(held, 0)
        pool.take(1)
        assert pool.find([keys]) == then


@settings(max_examples=200, deadline=None)
@given(
    st.integers(5, 14),
    st.lists(
        # (which of three prompts, blocks of it, unnamed blocks, who leaves first)
        st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 2), st.integers(0, 3)),
        max_size=40,
    ),
)
def test_finds_and_frees_what_a_pool_of_numbered_blocks_does(
    num_blocks: int, moves: list[tuple[int, int, int, int]]
) -> None:
    pool, plain = BlockPool(num_blocks), NumberedPool(num_blocks)
    # Prompts 1 and 2 share the first three blocks.
    prompts = [[pool.new_keys(6)], [pool.new_keys(6)]]
    prompts.append([prompts[1][0][:3], pool.new_keys(3)])
    running: list[tuple[list[range], int, list[int]]] = []
    for which, blocks, unnamed, leaver in moves:
        if leaver < len(running):
            cached, others, numbers = running.pop(leaver)
            pool.release(cached, others)
            plain.release(numbers)
        prompt = [key for span in prompts[which] for key in span][:blocks]
        # As in the scheduler, the last block is computed even where it is known.
        hits = pool.find(part(prompts[which], 0, blocks - 1))
        plain_hits = plain.find(prompt[:-1])
        assert total(hits) == len(plain_hits)
        new = blocks - total(hits)
        if new + unnamed + pool.count_idle(hits) <= pool.num_free:
            pool.acquire(hits)
            pool.take(new + unnamed)
            named = pool.name(part(prompts[which], total(hits), blocks))
            running.append((hits + named, unnamed, [*plain_hits]))
            plain.acquire(plain_hits)
            running[-1][2].extend(plain.take(new + unnamed))
            plain.name(running[-1][2][len(plain_hits) : blocks], prompt[len(plain_hits) :])
        assert pool.num_free == len(plain.free)
        for spans in prompts:
            keys = [key for span in spans for key in span]
            assert total(pool.find(spans)) == len(plain.find(keys))
