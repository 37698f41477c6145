"""Running requests that get one token in every step, counted rather than visited."""


class Decodes:
    """A calendar over the steps: who needs a block when, and who gets its last token.

    In between, a request that decodes does not change in any way that another could notice, so
    its row in the scheduler stands still from `join` to `leave`.
    """

    def __init__(self, block_size: int) -> None:
        self._size = block_size
        #: steps done
        self.clock = 0
        #: contexts after the last step, summed, in tokens
        self.context = 0
        #: request -> (clock, context then, clock when it has all its tokens)
        self._joined: dict[int, tuple[int, int, int]] = {}
        #: by clock modulo block size: who outgrows its last block in the step that follows
        self._growing: list[set[int]] = [set() for _ in range(block_size)]
        #: by clock: who has all its tokens then
        self._ends: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._joined)

    def join(self, request: int, context: int, tokens_left: int) -> None:
        """From the next step on; its block table just covers the context."""
        end = self.clock + tokens_left
        self._joined[request] = self.clock, context, end
        self.context += context
        self._growing[(self.clock - context) % self._size].add(request)
        self._ends.setdefault(end, []).append(request)

    def leave(self, request: int) -> int:
        """Returns how many tokens the request got since it joined."""
        start, context, end = self._joined.pop(request)
        self.context -= context + self.clock - start
        self._growing[(start - context) % self._size].remove(request)
        together = self._ends[end]
        together.remove(request)
        if not together:
            del self._ends[end]
        return self.clock - start

    def members(self) -> list[int]:
        """In order of admission."""
        return sorted(self._joined)

    def growing(self) -> set[int]:
        """Who needs another block in the next step."""
        return self._growing[self.clock % self._size]

    def growth(self) -> list[int]:
        """Blocks that each of the next steps needs, one block size of steps; then again so."""
        needs = [len(each) for each in self._growing]
        first = self.clock % self._size
        return needs[first:] + needs[:first]

    def steps_to_end(self) -> int:
        """Until the first has all its tokens; 0 when nobody is here."""
        return min(self._ends) - self.clock if self._ends else 0

    def advance(self, steps: int) -> list[int]:
        """Do `steps` steps, at most `steps_to_end`; returns who has all its tokens now.

        These must leave before the next step.
        """
        self.clock += steps
        self.context += steps * len(self._joined)
        return sorted(self._ends.get(self.clock, ()))
