"""From what was asked to a job."""

import sys

from advisor.bench.live import LiveBench
from advisor.store.serde import dump, load
from advisor.terms.job import Api, JobSpec
from advisor.wiring.asked import Asked
from advisor.wiring.prepare import prepare
from advisor.wiring.spec import spec_of


def asked(api: str | None) -> Asked:
    return Asked(
        model="any-model",
        profile="tiny-cpu",
        engine="vllm",
        targets=("itl:p99<=60ms",),
        vllm_command=sys.executable,
        api=api,
    )


def test_the_api_is_part_of_the_job_and_reaches_the_bench() -> None:
    for word, api in (
        (None, Api.COMPLETIONS),
        ("completions", Api.COMPLETIONS),
        ("chat", Api.CHAT),
    ):
        spec = spec_of(asked(word))
        assert spec.api is api
        bench = prepare(spec).bench
        assert isinstance(bench, LiveBench)
        assert bench.api is api


def test_a_job_of_before_there_was_a_choice_used_token_ids() -> None:
    stored = dump(JobSpec, spec_of(asked("chat")))
    assert stored.pop("api") == "chat"
    assert load(JobSpec, stored).api is Api.COMPLETIONS
