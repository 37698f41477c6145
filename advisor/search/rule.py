"""What must hold between flags: the operator's rules, and vLLM's own that a launch would fail."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass

from advisor.search.knob import is_number, same, show
from advisor.terms.flags import FlagValue

_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
OPERATORS = (*_ORDER, "==", "!=")


@dataclass(frozen=True, slots=True)
class Flag:
    """The value of another flag, as the right side of a rule."""

    name: str


@dataclass(frozen=True, slots=True)
class Rule:
    """`left op right`; without a value on both sides it does not apply."""

    #: a flag
    left: str
    #: one of OPERATORS
    op: str
    #: a constant, or another flag
    right: FlagValue | Flag
    #: (flag, value): the rule applies only where all of these hold
    when: tuple[tuple[str, FlagValue], ...] = ()

    def holds(self, flags: Mapping[str, FlagValue]) -> bool:
        """True also where a flag is absent, or is a word (`auto`) that has no order."""
        if any(not same(flags.get(name), value) for name, value in self.when):
            return True
        left = flags.get(self.left)
        right = flags.get(self.right.name) if isinstance(self.right, Flag) else self.right
        if left is None or right is None:
            return True
        if self.op not in _ORDER:
            return same(left, right) == (self.op == "==")
        if not (is_number(left) and is_number(right)):
            return True
        return bool(_ORDER[self.op](left, right))

    def __str__(self) -> str:
        right = self.right.name if isinstance(self.right, Flag) else show(self.right)
        text = f"{self.left} {self.op} {right}"
        conditions = " and ".join(f"{name} = {show(value)}" for name, value in self.when)
        return f"{text} when {conditions}" if conditions else text


#: vLLM refuses to start otherwise (0.33.0, `vllm/config/scheduler.py` and `vllm/config/cache.py`).
#: A flag that nobody set is not compared: with max_num_seqs unset and fewer batched tokens than
#: its default, vLLM starts and silently lowers max_num_seqs to the batched tokens. Such a
#: setting is valid and stays as it is; what the server resolved is read back after its launch.
VLLM_RULES = (
    Rule("max_num_batched_tokens", ">=", Flag("max_num_seqs")),
    Rule("max_num_active_seqs", "<=", Flag("max_num_seqs")),
    Rule("gpu_memory_utilization", ">", 0),
    Rule("gpu_memory_utilization", "<=", 1),
    Rule(
        "max_num_batched_tokens",
        ">=",
        Flag("max_model_len"),
        when=(("enable_chunked_prefill", False),),
    ),
)
