"""What a real vLLM scheduled on this project's own launches is what the simulator schedules."""

from dataclasses import replace

import numpy as np
import pytest

from advisor.calibrate.relive import Relived, relive
from advisor.sim import compiled, plain
from advisor.sim.cost import CostModel
from advisor.sim.played import Played, Served
from advisor.sim.scheduler import Scheduler
from advisor.sim.timeline import Timeline
from advisor.terms.load import Load
from advisor.terms.traces import Int64
from tests.recordings import FOLDER, Recording, read

NAMES = sorted(each.name.removesuffix(".json.gz") for each in FOLDER.glob("*.json.gz"))


@pytest.fixture(scope="module", params=NAMES)
def recording(request: pytest.FixtureRequest) -> Recording:
    return read(FOLDER / f"{request.param}.json.gz")


@pytest.fixture(scope="module")
def relived(recording: Recording) -> Relived:
    return relive(recording.load(), recording.limits(), recording.logged())


def test_every_setting_was_recorded() -> None:
    launches = [read(FOLDER / f"{name}.json.gz") for name in NAMES]
    kinds = {
        (each.flags["max_num_batched_tokens"], each.limits().enable_prefix_caching)
        for each in launches
    }
    assert kinds >= {(tokens, on) for tokens in (128, 512, 2048) for on in (True, False)}
    assert max(each.preemptions for each in launches) > 50
    assert any(each.limits().long_prefill_token_threshold for each in launches)
    assert any(not each.limits().enable_chunked_prefill for each in launches)


def test_every_step_is_the_real_one(recording: Recording, relived: Relived) -> None:
    assert relived.mismatch is None
    assert relived.steps == len(recording.steps) > 200
    assert len(relived.arrived) == len(recording.requests)


def test_counters_and_the_pool_are_the_real_ones(recording: Recording, relived: Relived) -> None:
    assert relived.prefix_queries == recording.prefix_queries
    assert relived.prefix_hits == recording.prefix_hits
    assert relived.preemptions == recording.preemptions
    # Logged to a thousandth of the pool.
    usage = relived.held_blocks / (recording.num_blocks - 1)
    logged = np.array([used for *_, used in recording.steps]) / 1_000
    assert np.abs(usage - logged).max() < 0.00051


@pytest.mark.parametrize("form", ["compiled", "plain"])
def test_with_the_logged_times_the_whole_simulator_steps_alike(
    recording: Recording, relived: Relived, form: str
) -> None:
    """Arrivals as late as the log allows: at the start of the step that first shows them."""
    elapsed = np.array([each.elapsed_ns for each in recording.logged()])
    starts = np.cumsum(elapsed) - elapsed
    load = replace(recording.load(), at_ns=starts[relived.arrived])
    played = play(form, load, recording, taking(elapsed))
    timeline = Timeline.of(played.log, recording.num_blocks - 1)
    assert (timeline.step_end_ns == np.cumsum(elapsed)).all()
    generating = (timeline.sequences - timeline.prompt_requests).tolist()
    generated = (timeline.tokens - timeline.prompt_tokens).tolist()
    columns = (timeline.prompt_requests, timeline.prompt_tokens)
    steps = list(zip(*(each.tolist() for each in columns), generating, generated, strict=True))
    assert steps == [each.counts for each in recording.logged()]
    assert played.preemptions == recording.preemptions
    assert (played.prefix_queries, played.prefix_hits) == (
        recording.prefix_queries,
        recording.prefix_hits,
    )


def play(form: str, load: Load, recording: Recording, cost: CostModel) -> Played:
    served, limits = Served.of(load, 2048, ingest_ns=0), recording.limits()
    if form == "plain":
        return plain.play(load, served, Scheduler(limits), cost)
    return compiled.play(load, served, limits, cost)


def taking(elapsed_ns: Int64) -> CostModel:
    """Steps that last as long as given: each a millisecond, by its own factor in millionths."""
    return CostModel(
        weights_fs=(0,),
        token_fs=0,
        context_fs=0,
        pair_fs=0,
        prefill_fs=0,
        step_fs=10**12,
        sequence_fs=0,
        reduce_fs=0,
        launch_fs=0,
        largest_graph=0,
        host_fs=0,
        host_sequence_fs=0,
        depth=1,
        ingest_ns=0,
        emit_ns=0,
        factors=elapsed_ns,
    )
