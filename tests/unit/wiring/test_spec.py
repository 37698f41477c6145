"""From what was asked to a job."""

import sys
from dataclasses import replace

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


def test_price_and_control_are_part_of_the_job_and_older_jobs_have_neither() -> None:
    spec = spec_of(replace(asked(None), gpu_price=2.5, control_arm=True))
    assert (spec.gpu_price, spec.control_arm) == (2.5, True)
    assert load(JobSpec, dump(JobSpec, spec)) == spec
    stored = dump(JobSpec, spec)
    assert (stored.pop("gpu_price"), stored.pop("control_arm")) == (2.5, True)
    older = load(JobSpec, stored)
    assert (older.gpu_price, older.control_arm) == (None, False)


def test_a_control_arm_is_planned_for() -> None:
    spec = spec_of(asked(None))
    most = [prepare(replace(spec, control_arm=control)).most_launches for control in (False, True)]
    assert most == [12 + 12, 12 + 18]
