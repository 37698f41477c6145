"""The block pool: what is forgotten first, and which of several copies serves."""

from advisor.sim.blocks import BlockPool


def test_null_block_is_never_given_away() -> None:
    pool = BlockPool(5)
    assert pool.num_usable == pool.num_free == 4
    assert sorted(pool.take(4)) == [1, 2, 3, 4]
    assert pool.num_free == 0


def named(pool: BlockPool, *keys: str) -> list[int]:
    blocks = pool.take(len(keys))
    for block, key in zip(blocks, keys, strict=True):
        pool.name(block, key)
    return blocks


def test_unnamed_blocks_are_reused_first_and_named_ones_last_tail_before_head() -> None:
    pool = BlockPool(6)
    pool.release([*named(pool, "a", "b"), *pool.take(1)])
    left = []
    for _ in range(5):
        pool.take(1)
        left.append(len(pool.find(["a", "b"])))
    assert left == [2, 2, 2, 1, 0]


def test_found_content_leaves_the_queue_and_is_not_forgotten() -> None:
    pool = BlockPool(4)
    pool.release(named(pool, "a", "b"))
    head = pool.find(["a"])
    assert pool.count_idle(head) == 1
    pool.acquire(head)
    assert (pool.num_free, pool.count_idle(head)) == (2, 0)
    pool.take(2)
    assert pool.find(["a", "b"]) == head


def test_of_several_copies_the_one_named_first_serves() -> None:
    pool = BlockPool(4)
    first, second, third = (named(pool, "a") for _ in range(3))
    for held, then in ((first, second), (second, third), (third, [])):
        pool.release(held)
        pool.take(1)
        assert pool.find(["a"]) == then
