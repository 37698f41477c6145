"""Searches on real vLLM processes: a few launches to a setting that is proven on unseen load.

The profiles last as long as their windows need and no longer; rates, limits and the share of
memory come from a probing launch, since processors differ tenfold.
"""

import json
import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from advisor.engine import VllmEngine
from advisor.store.ledger import SqlLedger
from advisor.store.owner import Owner
from advisor.terms.advice import Advice, AdviceOutcome, Evidence
from advisor.terms.flags import parse_flags, to_argv
from advisor.terms.job import Job, Phase, Trial
from advisor.terms.outcome import Reason, TrialState
from advisor.terms.setting import Setting
from advisor.terms.target import Verdict
from advisor.tune.case import baseline_of
from advisor.wiring.asked import Asked
from advisor.wiring.prepare import prepare
from advisor.wiring.run import run
from advisor.wiring.spec import spec_of
from tests.real.conftest import FIXED, made_model
from tests.real.load import prefill_s

pytestmark = [pytest.mark.real, pytest.mark.accept, pytest.mark.timeout(3000)]

#: Search launches, the baseline's included, and confirming ones: three pairs.
SEARCH, CONFIRM = 6, 6
#: Multiples of the load at which headroom is looked for: who meets it at 1 is left at that.
MULTIPLES = (0.7, 1.0)
#: Of each window and of the gap before it; six windows make one search and one confirmation.
LEAST_WINDOW_S, GAP_S, WINDOWS = 8.0, 5.0, 6
TOKENS, SHARE = "max_num_batched_tokens", "gpu_memory_utilization"
#: Out of memory, in each of which at least as much memory is asked for in vain.
OUT_OF_MEMORY = (
    Reason.OOM_LOAD,
    Reason.OOM_PROFILING,
    Reason.OOM_GRAPH_CAPTURE,
    Reason.OOM_SAMPLER,
    Reason.OOM_UNDER_LOAD,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One request of a profile."""

    input_length: int
    output_length: int
    hash_ids: tuple[int, ...] = ()


def write_profile(path: Path, rows: Iterator[Row], rate_rps: float, in_window: int) -> None:
    """Random arrivals at a rate, for six windows of at least so many requests each."""
    rng = random.Random(11)
    length_s = WINDOWS * (max(LEAST_WINDOW_S, in_window / rate_rps) + GAP_S) + 1
    lines, at_s = [], 0.0
    while at_s < length_s:
        row = next(rows)
        line = {"timestamp": round(1000 * at_s, 1), "input_length": row.input_length}
        shared = {"hash_ids": row.hash_ids} if row.hash_ids else {}
        lines.append(json.dumps({**line, "output_length": row.output_length, **shared}))
        at_s += rng.expovariate(rate_rps)
    path.write_text("".join(line + "\n" for line in lines))
    path.with_suffix(".toml").write_text("block_tokens = 128\n")


@dataclass(frozen=True, slots=True)
class Asking:
    """One job."""

    vllm_command: str
    model: str
    baseline: str
    space: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that came to its end."""

    job: Job
    trials: tuple[Trial, ...]
    advice: Advice

    @property
    def searched(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.phase is not Phase.CONFIRM]

    @property
    def confirmed(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.phase is Phase.CONFIRM]


class Printing:
    """Implements `tune.watch.Watch`: what a person wants to see of a run that failed."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def job_opened(self, job: Job, planned_launches: int) -> None: ...

    def trial_opened(self, number: int, phase: Phase, setting: Setting) -> None: ...

    def replaying(self, window: str, multiple: float) -> None: ...

    def trial_closed(self, trial: Trial) -> None:
        found, at_load = trial.result, trial.result.at(1.0)
        why = found.failure.message if found.failure else found.note
        verdicts = [] if at_load is None else [str(j.verdict) for j in at_load.judgements]
        knobs = {name: trial.setting.get(name) for name in (TOKENS, SHARE)}
        spent_s = round(time.monotonic() - self._began_s)
        print(f"{spent_s} s: {trial.phase} {knobs} {found.state} {verdicts} {why}", flush=True)

    def note(self, text: str) -> None:
        print(text, flush=True)


async def played(asking: Asking, profile: Path, home: Path) -> Ended:
    """The whole job, as the command line runs it; one round of confirmation."""
    space = home / "space.toml"
    space.write_text(asking.space)
    asked = Asked(
        model=asking.model,
        profile=str(profile),
        engine="vllm",
        targets=asking.targets,
        vllm_command=asking.vllm_command,
        baseline=asking.baseline,
        space=str(space),
        launches=SEARCH,
    )
    ready = prepare(replace(spec_of(asked), rounds=1, multiples=MULTIPLES))
    url = f"sqlite:///{home / 'ledger.db'}"
    with ready.bench.hold("a test"), SqlLedger(url, owner=Owner.this_process()) as ledger:
        job = ledger.open_job(ready.spec, await ready.bench.about())
        advice = await run(ready, job, ledger, Printing())
        ended = Ended(ledger.job(job.id), tuple(ledger.trials(job.id)), advice)
    print("\n".join(advice.reasons))
    return ended


@pytest.fixture(name="home")
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Logs, locks and database go below it; nothing is downloaded."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


def check(ended: Ended) -> Evidence:
    """What holds of both jobs; returns the setting advised, with its evidence."""
    advice = ended.advice
    assert advice.outcome is AdviceOutcome.RECOMMENDED, advice.reasons
    assert not advice.engine.simulated
    current = baseline_of(ended.trials)
    assert current is not None
    baseline = current.result.at(1.0)
    assert baseline is not None
    assert baseline.verdict is Verdict.MISSED
    assert len(ended.searched) == advice.search_launches <= SEARCH
    pairs = [trial for trial in ended.confirmed if trial.result.state is TrialState.MEASURED]
    assert len(pairs) == CONFIRM
    assert [trial.setting for trial in spent_on_what_was_known(ended.searched)] == []
    choice = advice.choice
    assert choice is not None
    assert choice.confirmed
    assert choice.measurement is not None
    assert choice.measurement.verdict is Verdict.MET
    assert choice.measurement.replays == 3
    return choice


def spent_on_what_was_known(trials: Sequence[Trial]) -> list[Trial]:
    """Launches that vLLM's rules forbid, or that an earlier one had answered."""
    return [
        trial
        for number, trial in enumerate(trials)
        if number_of(trial, TOKENS) < number_of(trial, "max_num_seqs")
        or any(answers(earlier, trial) for earlier in trials[:number])
    ]


def answers(earlier: Trial, trial: Trial) -> bool:
    failure = earlier.result.failure
    if earlier.result.state is TrialState.FAILED:
        return False  # not the setting's fault
    if earlier.setting == trial.setting:
        return True
    return (
        failure is not None
        and failure.reason in OUT_OF_MEMORY
        and number_of(trial, TOKENS) >= number_of(earlier, TOKENS)
        and number_of(trial, SHARE) >= number_of(earlier, SHARE)
    )


def number_of(trial: Trial, name: str) -> float:
    value = trial.setting.get(name)
    return 0.0 if value is None else float(value)


def with_knobs(**knobs: float) -> str:
    """The fixed flags and these, as they are typed."""
    return " ".join(to_argv({**FIXED, **knobs}))


def short_prompts(seed: int = 5) -> Iterator[Row]:
    """Nothing shared; each prompt delays every stream by its own length, or by less in pieces."""
    rng = random.Random(seed)
    while True:
        yield Row(rng.randint(200, 300), 24)


async def test_fewer_batched_tokens_where_gaps_are_too_long(
    vllm_command: str, model_path: str, engine: VllmEngine, home: Path
) -> None:
    """A step with whole prompts holds up every stream. They keep the server busy for a quarter of
    the time, so one gap in twenty or more is hit, and the 97th percentile is one of them."""
    baseline = with_knobs(**{TOKENS: 2048, SHARE: 0.3, "max_num_seqs": 64})
    async with engine.serve(Setting.of(model_path, parse_flags(baseline))) as server:
        prompt_s = await prefill_s(server, 250)
    rate_rps = min(0.25 / prompt_s, 12.0)
    print(f"250 tokens take {prompt_s:.3f} s, {rate_rps:.1f} requests/s")
    profile = home / "short-prompts.jsonl"
    write_profile(profile, short_prompts(), rate_rps, in_window=80)
    asking = Asking(
        vllm_command,
        model_path,
        baseline,
        # 32 tokens are fewer than the sequences: vLLM would refuse them
        f"knobs.{TOKENS}.values = [32, 64, 128, 2048]",
        ("itl:p97<=0.65x", "ttft:p90<=5x"),
    )
    ended = await played(asking, profile, home)
    choice = check(ended)
    assert choice.setting.get(TOKENS) in (64, 128)
    assert {trial.setting.get(TOKENS) for trial in ended.searched} <= {64, 128, 2048}


#: Texts that are asked about again and again, in turns: a cache that holds them all finds each,
#: one that holds fewer has always just forgotten the next.
TEXTS, TEXT_BLOCKS, BLOCK = 8, 8, 128
#: Tokens that the baseline's pool is to hold: less than half of the texts, more than one request.
SMALL_POOL = 3_500
CONTEXT = 1_280


def questions() -> Iterator[Row]:
    """A short question to one text after the other."""
    number = 0
    while True:
        first = number % TEXTS * TEXT_BLOCKS
        ids = (*range(first, first + TEXT_BLOCKS), TEXTS * TEXT_BLOCKS + number)
        yield Row(TEXT_BLOCKS * BLOCK + 40, 16, ids)
        number += 1


def small_share(log: str, kv_bytes_per_token: int) -> float:
    """The memory utilisation that leaves the small pool, from what a server with a large one
    said: a share of the node's memory, less what the worker itself takes."""
    said = re.search(
        r"Auto set \([\d.]+/(?P<total>[\d.]+)\) GiB for KV cache .* "
        r"(?P<worker>[\d.]+) GiB memory was consumed by non-kv usages",
        log,
    )
    assert said is not None, log[-2000:]
    pool_gib = SMALL_POOL * kv_bytes_per_token / 2**30
    return round((float(said["worker"]) + pool_gib) / float(said["total"]), 4)


async def test_more_memory_where_the_cache_is_too_small(
    vllm_command: str, engine: VllmEngine, home: Path
) -> None:
    """32 KB of KV for each token: memory utilisation decides whether the texts stay cached."""
    model = made_model(vllm_command, "fat")
    others = {TOKENS: 2048, "max_model_len": CONTEXT, "max_num_seqs": 64}
    large = parse_flags(with_knobs(**others, **{SHARE: 0.3}))
    async with engine.serve(Setting.of(model, large)) as server:
        text_s = await prefill_s(server, TEXT_BLOCKS * BLOCK)
        share = small_share(server.log_path.read_text(), kv_bytes_per_token=32_768)
    rate_rps = min(1 / text_s, 12.0)
    print(f"a text takes {text_s:.3f} s, {rate_rps:.1f} requests/s, utilisation {share}")
    profile = home / "questions.jsonl"
    write_profile(profile, questions(), rate_rps, in_window=28)
    asking = Asking(
        vllm_command,
        model,
        with_knobs(**others, **{SHARE: share}),
        # the last two ask for more than a machine with an operating system has
        f"knobs.{SHARE}.values = [{share}, 0.3, 0.98, 0.99]",
        ("ttft:p75<=0.3x",),
    )
    ended = await played(asking, profile, home)
    choice = check(ended)
    assert choice.setting.get(SHARE) == 0.3
    texts = TEXTS * TEXT_BLOCKS * BLOCK
    pools = {
        trial.setting.get(SHARE): trial.result.launch.kv_cache_tokens or 0
        for trial in ended.trials
        if trial.result.launch is not None
    }
    print(f"pools {pools}, texts {texts}")
    assert CONTEXT <= pools[share] < texts < pools[0.3]
