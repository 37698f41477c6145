"""How far a job's Space reaches."""

from dataclasses import replace

from advisor.search.knob import Knob
from advisor.search.space import Space
from advisor.wiring.explained import ranges_of
from tests.unit.tune.jobs import SPEC


def test_only_knobs_with_an_order_and_a_choice_have_a_range() -> None:
    space = Space(
        (
            Knob.of("max_num_seqs", [64, 8, 16]),
            Knob.of("gpu_memory_utilization", [0.9]),
            Knob.of("enable_prefix_caching", [True, False]),
            Knob.of("kv_cache_dtype", ["auto", "fp8"]),
        )
    )
    spec = replace(SPEC, space=space.to_toml())
    assert ranges_of(spec) == (("max_num_seqs", (8, 16, 64)),)
