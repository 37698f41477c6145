"""vLLM's V1 scheduler: which requests take part in the next step, and with how many tokens.

Follows vLLM 0.33.0 `vllm/v1/core/sched/scheduler.py`: first come first served, no speculation,
no asynchronous lag (there a new arrival waits up to one further step).
Requests are rows of flat lists, named by the index that `add` returns.
"""

from collections import deque
from collections.abc import Sequence

from advisor.sim.blocks import BlockPool
from advisor.sim.steps import Batch, Limits

#: Blocks that no other request can hold get keys below 0, this many for each request.
_OWN_KEYS = 1 << 32


class Scheduler:
    """Waiting and running requests over one block pool."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.pool = BlockPool(limits.num_blocks)
        self.waiting: deque[int] = deque()
        #: in admission order
        self.running: list[int] = []
        # Columns, one row a request.
        self.prompt: list[int] = []
        self.planned_output: list[int] = []
        #: prompt and generated tokens
        self.tokens: list[int] = []
        #: of these, in the KV cache
        self.computed: list[int] = []
        self.tables: list[list[int]] = []
        self.num_preempted: list[int] = []
        self.cached_tokens: list[int] = []
        self._keys: list[list[int]] = []
        self._key_of_prefix: dict[int, int] = {}
        #: block_tokens -> where a name's blocks end in it, by where the first one does
        self._last_tokens: dict[int, list[range]] = {}
        # Counters, as vLLM exports them.
        self.preemptions = 0
        self.prefix_queries = 0
        self.prefix_hits = 0

    def add(
        self,
        prompt_tokens: int,
        output_tokens: int,
        block_ids: Sequence[int] = (),
        block_tokens: int = 1,
    ) -> int:
        """Queue a request; returns its index.

        `block_ids` name the prompt's prefix up to each `block_tokens`-th token, the last one the
        whole prompt; an equal id is an equal prefix. Empty: the prompt shares nothing.
        """
        index = len(self.prompt)
        self.prompt.append(prompt_tokens)
        self.planned_output.append(output_tokens)
        self.tokens.append(prompt_tokens)
        self.computed.append(0)
        self.tables.append([])
        self.num_preempted.append(0)
        self.cached_tokens.append(0)
        self._keys.append(self._prompt_keys(prompt_tokens, block_ids, block_tokens))
        self.waiting.append(index)
        return index

    def _prompt_keys(self, prompt: int, block_ids: Sequence[int], block_tokens: int) -> list[int]:
        """One key for each full block: the id that covers its last token, and where in it."""
        if not block_ids or not self.limits.enable_prefix_caching:
            return []
        known, size = self._key_of_prefix, self.limits.block_size
        names = [known.setdefault(each, len(known)) for each in block_ids]
        if block_tokens not in self._last_tokens:
            self._last_tokens[block_tokens] = [range(i, block_tokens, size) for i in range(size)]
        last_tokens = self._last_tokens[block_tokens]
        starts = range(0, prompt, block_tokens)
        keys = [
            name * block_tokens + token
            for name, start in zip(names, starts, strict=False)
            for token in last_tokens[(-start - 1) % size]
        ]
        del keys[prompt // size :]
        return keys

    # --- one step ---

    def schedule(self) -> Batch:
        """Choose the next step's requests within the token budget; may preempt."""
        batch = Batch([], [])
        budget, preempted = self._schedule_running(batch)
        if not preempted:
            self._schedule_waiting(batch, budget)
        return batch

    def complete(self, batch: Batch) -> tuple[list[int], list[int]]:
        """End the step: (requests that got a token, those of them that are finished)."""
        emitted = self._emit(batch)
        return emitted, self._finish(emitted)

    def remove(self, index: int) -> None:
        """Take an unfinished request out, as when its client went away."""
        if index in self.running:
            self.running.remove(index)
            self._release(index)
        elif index in self.waiting:
            self.waiting.remove(index)

    def _schedule_running(self, batch: Batch) -> tuple[int, bool]:
        """Running requests in admission order; returns (budget left, was any preempted)."""
        budget, preempted, position = self.limits.max_num_batched_tokens, False, 0
        while position < len(self.running) and budget > 0:
            index = self.running[position]
            count = min(self._outstanding(index), budget)
            while not self._grow(index, count):
                preempted = True
                victim = self.running.pop()
                self._preempt(victim)
                if victim == index:
                    return budget, True
            self._enter(batch, index, count)
            budget -= count
            position += 1
        return budget, preempted

    def _schedule_waiting(self, batch: Batch, budget: int) -> None:
        """Admit in order while the head fits; a head that does not fit blocks all behind it."""
        while (hits := self._admissible(budget)) is not None:
            index = self.waiting.popleft()
            self._admit(index, hits)
            count = min(self._outstanding(index), budget)
            self._grow(index, count)
            self._enter(batch, index, count)
            budget -= count

    def _outstanding(self, index: int) -> int:
        """Tokens the request could compute now."""
        count = self.tokens[index] - self.computed[index]
        threshold = self.limits.long_prefill_token_threshold
        alone = len(self.running) + len(self.waiting) <= 1
        return threshold if 0 < threshold < count and not alone else count

    def _admissible(self, budget: int) -> list[int] | None:
        """The cached blocks with which the head of the queue can be admitted; None if it cannot.

        The whole prompt must find room at once, though only a chunk of it may be computed.
        """
        limits = self.limits
        if not self.waiting or budget <= 0 or len(self.running) >= limits.max_num_seqs:
            return None
        index = self.waiting[0]
        hits = self._cached_prefix(index)
        new_tokens = self.tokens[index] - len(hits) * limits.block_size
        if not limits.enable_chunked_prefill and new_tokens > budget:
            return None
        references = self.pool.references
        idle_hits = sum(references[block] == 0 for block in hits)
        need = -(-self.tokens[index] // limits.block_size) - len(hits) + idle_hits
        return hits if need <= self.pool.num_free else None

    def _cached_prefix(self, index: int) -> list[int]:
        """Full blocks found from the start on, never with the last token, which is computed."""
        if not self.limits.enable_prefix_caching:
            return []
        full = (self.tokens[index] - 1) // self.limits.block_size
        return self.pool.find_prefix(self._keys_between(index, 0, full))

    def _keys_between(self, index: int, first: int, last: int) -> Sequence[int]:
        """Keys of a request's blocks first .. last - 1; those past the prompt are its own."""
        keys = self._keys[index]
        if last <= len(keys):
            return keys[first:last]
        own = -(index * _OWN_KEYS) - 1
        return [*keys[first:], *range(own - max(first, len(keys)), own - last, -1)]

    def _admit(self, index: int, hits: list[int]) -> None:
        self.pool.acquire(hits)
        self.tables[index] = hits
        cached = len(hits) * self.limits.block_size
        self.computed[index] = cached
        if not self.num_preempted[index] and self.limits.enable_prefix_caching:
            # vLLM keeps what preempted requests find apart from these counters.
            self.prefix_queries += self.tokens[index]
            self.prefix_hits += cached
            self.cached_tokens[index] = cached
        self.running.append(index)

    def _grow(self, index: int, count: int) -> bool:
        """Advance by `count` tokens and hold the blocks for them; False when the pool has none.

        Blocks that become full get their name now, so that a request later in the same step
        already finds them.
        """
        table, before = self.tables[index], self.computed[index]
        after = before + count
        missing = -(-after // self.limits.block_size) - len(table)
        if missing > 0:
            if missing > self.pool.num_free:
                return False
            table += self.pool.take(missing)
        self.computed[index] = after
        self._name(index, before, after)
        return True

    def _name(self, index: int, before: int, after: int) -> None:
        """The request's blocks that `after - before` tokens more have made full get their keys."""
        size = self.limits.block_size
        first, last = before // size, after // size
        if first < last and self.limits.enable_prefix_caching:
            self.pool.name(self.tables[index][first:last], self._keys_between(index, first, last))

    def _enter(self, batch: Batch, index: int, count: int) -> None:
        context = self.computed[index]
        batch.requests.append(index)
        batch.tokens.append(count)
        batch.total_tokens += count
        batch.context_tokens += context
        if count > 1:
            batch.prefill_pairs += count * (context - count) + count * (count + 1) // 2

    def _preempt(self, index: int) -> None:
        """All its KV is dropped; it will be computed again, before anything else waits."""
        self._release(index)
        self.num_preempted[index] += 1
        self.preemptions += 1
        self.waiting.appendleft(index)

    def _release(self, index: int) -> None:
        self.pool.release(self.tables[index])
        self.tables[index] = []
        self.computed[index] = 0

    def _emit(self, batch: Batch) -> list[int]:
        """One token for each request all of whose tokens are computed now."""
        emitted = [i for i in batch.requests if self.computed[i] == self.tokens[i]]
        for index in emitted:
            self.tokens[index] += 1
        return emitted

    def _finish(self, emitted: list[int]) -> list[int]:
        finished = [
            i for i in emitted if self.tokens[i] - self.prompt[i] >= self.planned_output[i]
        ]
        for index in finished:
            self._release(index)
        if finished:
            ended = set(finished)
            self.running = [i for i in self.running if i not in ended]
        return finished
