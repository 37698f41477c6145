"""Records what each step of a real vLLM computed, for the tests of the simulator's scheduler.

    python -m tests.real.record_steps [NAME …]

starts one server for each name, plays part of the profile `tiny-cpu` (`crowded`: long answers to
prompts that begin alike) and writes `tests/recordings/NAME.json.gz`. Which requests meet in a
step depends on the machine; whether the recording fits the scheduler does not.
"""

import asyncio
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import aiohttp

from advisor.calibrate.iterlog import parse_iterations
from advisor.calibrate.relive import relive
from advisor.engine import Endpoint, FactsWatch, VllmEngine
from advisor.engine.metrics import fetch
from advisor.profile.load import load_profile
from advisor.profile.schedule import schedule
from advisor.profile.shipped import resolve
from advisor.terms.flags import FlagValue
from advisor.terms.profile import Plan, PlannedRequest, Window, WindowRole
from advisor.terms.setting import Setting
from advisor.terms.traces import Traces
from tests.real import install
from tests.real.load import play
from tests.recordings import FOLDER, Recording, write

PROFILE = load_profile(resolve("tiny-cpu"))
SECOND = 1_000_000_000
WINDOW = Window("steps", WindowRole.SEARCH, 60 * SECOND, 96 * SECOND)
#: what the tiny model needs on a CPU, and the log
FIXED: dict[str, FlagValue] = {
    "dtype": "float32",
    "enforce_eager": True,
    "load_format": "dummy",
    "max_model_len": 2048,
    "gpu_memory_utilization": 0.2,
    "enable_logging_iteration_details": True,
}
#: a pool that a handful of requests fill, in blocks so small that their answers outgrow it
TIGHT: dict[str, FlagValue] = {
    "block_size": 32,
    "num_gpu_blocks_override": 110,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 512,
}


def part(multiple: float) -> tuple[PlannedRequest, ...]:
    """Chats and documents."""
    return schedule(PROFILE, Plan(WINDOW, multiple, salt=1, lead_in_ns=0))


def crowd() -> tuple[PlannedRequest, ...]:
    """Prompts of whole blocks that begin alike, and answers that outgrow the pool.

    No two are equal: a real server would give them equal answers and share the blocks of these.
    """
    rng = random.Random(5)
    drawn: list[PlannedRequest] = []
    for family in range(1, 31):
        for blocks in rng.sample((1, 2, 3, 4), 3):
            ids = tuple(family * 1_000 + block for block in range(blocks))
            at_ns = len(drawn) * SECOND // 40  # more than any machine serves at once
            tokens, output = blocks * PROFILE.block_tokens, rng.randrange(40, 240)
            drawn.append(PlannedRequest(at_ns, tokens, output, ids, True))
    return tuple(drawn)


#: name -> (flags, load)
LAUNCHES: dict[str, tuple[dict[str, FlagValue], tuple[PlannedRequest, ...]]] = {
    **{
        f"batched-{tokens}{'' if caching else '-no-caching'}": (
            {"max_num_batched_tokens": tokens, "enable_prefix_caching": caching},
            part(1.0),
        )
        for tokens in (128, 512, 2048)
        for caching in (True, False)
    },
    "tight": ({**TIGHT, "enable_prefix_caching": True}, part(2.0)),
    "tight-no-caching": ({**TIGHT, "enable_prefix_caching": False}, part(1.5)),
    "crowded": ({**TIGHT, "num_gpu_blocks_override": 70}, crowd()),
    "threshold": (
        {"max_num_batched_tokens": 1024, "long_prefill_token_threshold": 200, "max_num_seqs": 6},
        part(2.0),
    ),
    "whole-prompts": (
        {"max_num_batched_tokens": 2048, "enable_chunked_prefill": False, "max_num_seqs": 8},
        part(1.5),
    ),
}


async def record(
    engine: VllmEngine,
    model: str,
    flags: dict[str, FlagValue],
    requests: tuple[PlannedRequest, ...],
) -> Recording:
    """Launch, play the load, and read the log of just that."""
    async with engine.serve(Setting.of(model, {**FIXED, **flags})) as server:
        return (await observe(server, flags, requests))[0]


async def observe(
    server: Endpoint, flags: dict[str, FlagValue], requests: tuple[PlannedRequest, ...]
) -> tuple[Recording, Traces]:
    """Play the load to a server of these flags: the log of just that, and what the client saw."""
    async with aiohttp.ClientSession(trust_env=False) as session:
        samples = await fetch(session, server.base_url)
    cache = samples["vllm:cache_config_info"][0][0]
    before = len(await _settled_log(server))
    async with FactsWatch(server.base_url) as watch:
        since = await watch.facts()
        traces = await play(server, requests, PROFILE.block_tokens, WINDOW.duration_ns)
        log = (await _settled_log(server))[before:]
        over = await watch.facts(since)
    numbers: dict[int, int] = {}
    assert None not in (over.preemptions, over.prefix_cache_queries, over.prefix_cache_hits)
    recording = Recording(
        vllm=server.version or "",
        flags=flags,
        block_size=int(cache["block_size"]),
        num_blocks=int(cache["num_gpu_blocks"]),
        block_tokens=PROFILE.block_tokens,
        requests=[
            (
                each.input_length,
                each.output_length,
                [numbers.setdefault(id_, len(numbers)) for id_ in each.block_ids],
            )
            for each in requests
        ],
        steps=[
            (
                step.context_requests,
                step.context_tokens,
                step.generation_requests,
                step.generation_tokens,
                step.elapsed_ns // 1_000,
                round(1_000 * (step.kv_cache_usage or 0)),
            )
            for step in parse_iterations(log)
        ],
        preemptions=int(over.preemptions or 0),
        prefix_queries=int(over.prefix_cache_queries or 0),
        prefix_hits=int(over.prefix_cache_hits or 0),
    )
    return recording, traces


def scheduled_alike(recording: Recording) -> bool:
    """Whether the simulator's scheduler does in every step what the log says, and counts the same
    preemptions and prefix-cache queries and hits."""
    found = relive(recording.load(), recording.limits(), recording.logged())
    counted = (found.preemptions, found.prefix_queries, found.prefix_hits)
    return (
        found.mismatch is None
        and found.steps == len(recording.steps)
        and counted == (recording.preemptions, recording.prefix_queries, recording.prefix_hits)
    )


async def _settled_log(server: Endpoint) -> list[str]:
    """Its lines of steps once no more come: the last ones are logged after their tokens are sent.
    Other lines never end, since its metrics are asked for."""
    steps: list[str] = []
    while True:
        await asyncio.sleep(1)
        lines = server.log_path.read_text(encoding="utf-8").splitlines()
        found = [line for line in lines if "Iteration(" in line]
        if len(found) == len(steps):
            return found
        steps = found


def main() -> None:
    target = install.target_dir()
    if not install.is_ready(target):
        raise SystemExit(f"no vLLM at {target}; build it with: python tests/real/install.py")
    argv = [str(target / "bin" / "python"), str(Path(__file__).with_name("tiny_model.py"))]
    model = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
    for name in sys.argv[1:] or LAUNCHES:
        flags, requests = LAUNCHES[name]
        with tempfile.TemporaryDirectory() as logs:
            engine = VllmEngine(
                str(target / "bin" / "vllm"),
                log_dir=Path(logs),
                extra_env={"HF_HUB_OFFLINE": "1"},
                start_timeout_s=300,
            )
            found = asyncio.run(record(engine, model, flags, requests))
        write(found, FOLDER / f"{name}.json.gz")
        print(f"{name}: {len(found.steps)} steps, {found.preemptions} preemptions", flush=True)


if __name__ == "__main__":
    main()
