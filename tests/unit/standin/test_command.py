"""The stand-in as its users meet it: a process with a command line and a port."""

import http.client
import json
import re
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.standin.process import request, run, serving


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(
        *("--served-model-name", "mine", "--max-model-len", "4096", "--sim-speed", "50"),
        *("--max-num-batched-tokens", "512", "--no-enable-prefix-caching"),
    ) as (number, _):
        yield number


def complete(port: int, **changes: object) -> tuple[int, str]:
    body: dict[str, object] = {"model": "mine", "prompt": [300] * 50, "max_tokens": 20}
    return request(port, "/v1/completions", {**body, **changes})


def events(text: str) -> list[dict[str, Any]]:
    lines = text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def test_streams_exactly_the_tokens_asked_for(port: int) -> None:
    status, text = complete(
        port,
        stream=True,
        return_token_ids=True,
        ignore_eos=True,
        stream_options={"include_usage": True, "continuous_usage_stats": True},
    )
    assert status == 200
    *chunks, last = events(text)
    ids = [each for chunk in chunks for each in chunk["choices"][0]["token_ids"]]
    assert len(ids) == 20
    assert chunks[0]["choices"][0]["prompt_token_ids"] == [300] * 50
    told = 0
    for chunk in chunks:
        told += len(chunk["choices"][0]["token_ids"])
        assert chunk["usage"]["completion_tokens"] == told
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[-2:]] == [None, "length"]
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70}


def test_stream_without_options_has_no_usage_and_no_ids(port: int) -> None:
    _, text = complete(port, stream=True)
    for event in events(text):
        assert "usage" not in event
        assert "token_ids" not in event["choices"][0]


def test_whole_answer(port: int) -> None:
    _, text = complete(port, prompt="hello", max_tokens=3)
    answer = json.loads(text)
    assert answer["model"] == "mine"
    assert len(answer["choices"][0]["text"].split()) == 3
    assert answer["usage"]["prompt_tokens"] == 5


@pytest.mark.parametrize(
    ("changes", "status", "text"),
    [
        ({"model": "other"}, 404, "The model `other` does not exist."),
        ({"prompt": []}, 400, "prompt: must not be empty"),
        ({"prompt": [-1]}, 400, "prompt: token ids must be in 0..128255"),
        ({"prompt": [[1], [2]]}, 400, "prompt: the stand-in takes one a request"),
        ({"prompt": None}, 400, "prompt"),
        ({"max_tokens": 0}, 400, "max_tokens: Input should be greater than or equal to 1"),
        ({"max_tokens": 4090}, 400, "maximum context length is 4096 tokens"),
        ({"n": 2}, 400, "n: Input should be less than or equal to 1"),
    ],
)
def test_bad_requests_are_answered_as_vllm_does(
    port: int, changes: dict[str, object], status: int, text: str
) -> None:
    got, body = complete(port, **changes)
    assert got == status
    assert json.loads(body)["error"]["code"] == status
    assert text in json.loads(body)["error"]["message"]


def test_it_names_itself_a_stand_in_and_tells_what_it_resolved(port: int) -> None:
    assert json.loads(request(port, "/version")[1])["stand_in"] is True
    models = json.loads(request(port, "/v1/models")[1])["data"]
    assert [(each["id"], each["max_model_len"]) for each in models] == [("mine", 4096)]
    config = json.loads(request(port, "/server_info")[1])["vllm_config"]
    assert config["scheduler_config"]["max_num_batched_tokens"] == 512
    assert config["cache_config"]["enable_prefix_caching"] is False


def metric(text: str, name: str) -> float:
    found = re.search(rf"^{name}\{{[^}}]*\}} (\S+)$", text, re.MULTILINE)
    assert found, f"{name} is not in\n{text}"
    return float(found[1])


def test_metrics_count_what_was_served() -> None:
    with serving("--max-model-len", "4096", "--sim-speed", "50") as (port, _):
        for _ in range(2):
            complete(port, model="llama-3.1-8b")
        text = request(port, "/metrics")[1]
    assert metric(text, "vllm:generation_tokens_total") == 40
    assert metric(text, "vllm:prompt_tokens_total") == 100
    assert metric(text, "vllm:prefix_cache_queries_total") == 100
    assert metric(text, "vllm:prefix_cache_hits_total") == 48
    assert metric(text, "vllm:request_success_total") == 2
    assert metric(text, "vllm:num_requests_running") == 0
    assert 'enable_prefix_caching="True"' in text


def test_sigterm_ends_it_cleanly_with_a_stream_open() -> None:
    with serving("--max-model-len", "100000") as (port, process):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        body = {"prompt": [5] * 9, "max_tokens": 90_000, "stream": True}
        connection.request(
            "POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"}
        )
        assert connection.getresponse().read(5) == b"data:"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        connection.close()


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["--no-such-flag"], 2, "error: unrecognized arguments: --no-such-flag"),
        (["--max-num-seqs", "0"], 2, "error: argument --max-num-seqs: 0: expected"),
        (["--sim-speed", "0"], 2, "argument --sim-speed: '0' is not a number above 0"),
        (["--sim-hardware", "h900"], 2, "argument --sim-hardware: invalid choice: 'h900'"),
        (["--watermark", "0.5"], 2, "unrecognized arguments: the simulator models --watermark"),
        (["-tp", "3"], 1, "must be divisible by tensor parallel size (3)"),
        (["--gpu-memory-utilization", "0.99"], 1, "in capture_model"),
        (["--sim-hardware", "rtx-4090"], 1, "KV cache is needed, which is larger than"),
        (
            ["--max-num-batched-tokens", "9", "--max-num-seqs", "10"],
            1,
            "(9) must be greater than or equal to max_num_seqs (10).",
        ),
        (["--port", "99999"], 2, "argument --port: '99999' is not a port, 0 to 65535\n"),
        (["--port", "-1"], 2, "argument --port: '-1' is not a port"),
        (["--port", "http"], 2, "argument --port: 'http' is not a port"),
    ],
)
def test_refuses_what_vllm_refuses(words: list[str], status: int, text: str) -> None:
    ended = run("serve", "llama-3.1-8b", *words)
    assert ended.returncode == status
    assert text in ended.stderr


def test_refuses_an_unknown_model_and_a_missing_one() -> None:
    unknown = run("serve", "llama-9")
    assert unknown.returncode == 1
    assert "llama-9 is not a local folder and is not a valid model" in unknown.stderr
    missing = run("serve")
    assert missing.returncode == 2
    assert "the following arguments are required: model" in missing.stderr


def test_start_log_tells_pool_and_budget_before_the_port_is_found_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = str(taken.getsockname()[1])
        ended = run("serve", "llama-3.1-8b", "--port", number)
    assert ended.returncode == 1
    assert re.search(r"GPU KV cache size: [\d,]+ tokens", ended.stderr)
    assert "Chunked prefill is enabled with max_num_batched_tokens=8192" in ended.stderr
    assert "Address already in use" in ended.stderr


def test_help_lists_the_flags_and_version_names_the_stand_in() -> None:
    for word in ("--help=all", "-h"):
        shown = run("serve", word)
        assert shown.returncode == 0
        assert "--max-num-batched-tokens" in shown.stdout
        assert "--no-enable-prefix-caching" in shown.stdout
    assert run("--version").stdout.startswith("vllm-sim ")
    assert run("frobnicate").returncode == 2


def test_a_truth_that_could_not_be_written_is_told_before_anything_starts() -> None:
    ended = run("serve", "llama-3.1-8b", "--sim-truth", "/absent/truth.jsonl")
    assert ended.returncode == 2
    assert "'/absent/truth.jsonl' cannot be written" in ended.stderr
    assert "Traceback" not in ended.stderr
