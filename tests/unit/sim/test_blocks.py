"""The block pool: order of the free queue, and duplicates in the prefix cache."""

from advisor.sim.blocks import NOT_FOUND, BlockPool


def test_null_block_is_never_given_away() -> None:
    pool = BlockPool(5)
    assert pool.num_free == 4
    assert pool.take(4) == [1, 2, 3, 4]


def test_unnamed_blocks_are_reused_first_and_named_ones_last_tail_before_head() -> None:
    pool = BlockPool(6)
    held = pool.take(3)
    pool.name(held[:2], [70, 71])
    pool.release(held)
    assert pool.free_blocks() == [3, 4, 5, 2, 1]


def test_a_found_block_leaves_the_queue_and_is_forgotten_when_taken() -> None:
    pool = BlockPool(4)
    held = pool.take(2)
    pool.name(held[:2], [70, 71])
    pool.release(held)
    pool.acquire([pool.find(70)])
    assert pool.num_free == 2
    assert pool.take(2) == [3, 2]
    assert pool.find(71) == NOT_FOUND
    assert pool.find(70) == 1


def test_of_two_blocks_with_one_key_the_other_is_found_when_the_first_is_gone() -> None:
    pool = BlockPool(4)
    pool.name(pool.take(3), [70, 70, 70])
    pool.release([1])
    assert pool.find(70) == 1
    pool.take(1)
    assert pool.find(70) in (2, 3)
    pool.release([pool.find(70)])
    pool.take(1)
    last = pool.find(70)
    pool.release([last])
    pool.take(1)
    assert pool.find(70) == NOT_FOUND
