"""The rest of vLLM's HTTP surface: chats, tokens, the cache, and what was sent when."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.standin.process import request, serving

CHAT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}
#: `<|user|>`, a line end, the text, a line end, `<|assistant|>`, a line end
CHAT_TOKENS = 8 + 1 + 5 + 1 + 13 + 1


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    words = ("--served-model-name", "mine", "--max-model-len", "4096", "--sim-speed", "50")
    with serving(*words) as (number, _):
        yield number


def chat(port: int, **changes: object) -> tuple[int, str]:
    return request(port, "/v1/chat/completions", {**CHAT, **changes})


def test_a_chat_streams_a_role_then_its_tokens(port: int) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    _, text = chat(port, stream=True, stream_options=options, return_token_ids=True)
    *lines, done, rest = text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    role, *chunks, last = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert role["usage"]["completion_tokens"] == 0
    assert "token_ids" not in role["choices"][0]
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    assert len(chunks[0]["prompt_token_ids"]) == CHAT_TOKENS
    ids = [each for chunk in chunks for each in chunk["choices"][0]["token_ids"]]
    assert len(ids) == 5
    said = "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks)
    assert said.split() == [str(each) for each in ids]
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    assert last["usage"]["completion_tokens"] == 5


def test_a_whole_chat(port: int) -> None:
    _, text = chat(port, max_tokens=None, max_completion_tokens=3)
    answer = json.loads(text)
    assert answer["object"] == "chat.completion"
    (choice,) = answer["choices"]
    assert choice["message"]["role"] == "assistant"
    assert len(choice["message"]["content"].split()) == 3
    assert answer["usage"]["prompt_tokens"] == CHAT_TOKENS


def test_a_chat_without_a_limit_fills_the_context(port: int) -> None:
    parts = [{"type": "text", "text": "x" * 4000}, {"type": "text", "text": "y" * 50}]
    message = {"role": "user", "content": parts}
    _, text = chat(port, messages=[message], max_tokens=None)
    assert json.loads(text)["usage"]["total_tokens"] == 4096


@pytest.mark.parametrize(
    ("changes", "status", "named"),
    [
        ({"model": "other"}, 404, "The model `other` does not exist."),
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"role": "user", "content": "x" * 5000}]}, 400, "4096 tokens"),
        ({"max_tokens": 5000}, 400, "maximum context length is 4096 tokens"),
    ],
)
def test_bad_chats_are_refused(
    port: int, changes: dict[str, object], status: int, named: str
) -> None:
    got, text = chat(port, **changes)
    assert got == status
    assert named in json.loads(text)["error"]["message"]


def test_tokens_of_a_text_and_of_a_chat(port: int) -> None:
    told = json.loads(request(port, "/tokenize", {"prompt": "hé"})[1])
    assert told == {
        "count": 3,
        "max_model_len": 4096,
        "tokens": [0x68, 0xC3, 0xA9],
        "token_strs": None,
    }
    told = json.loads(request(port, "/tokenize", {"messages": CHAT["messages"]})[1])
    assert told["count"] == CHAT_TOKENS
    status, text = request(port, "/tokenize", {})
    assert status == 400
    assert "prompt or messages" in text


def hits(port: int) -> float:
    lines = request(port, "/metrics")[1].splitlines()
    return next(
        float(line.split()[-1]) for line in lines if line.startswith("vllm:prefix_cache_hits_tot")
    )


def test_a_reset_cache_is_cold(port: int) -> None:
    body = {"prompt": [9] * 100, "max_tokens": 1}
    request(port, "/v1/completions", body)
    before = hits(port)
    request(port, "/v1/completions", body)
    assert hits(port) == before + 96
    assert json.loads(request(port, "/reset_prefix_cache", {})[1]) == {"success": True}
    request(port, "/v1/completions", body)
    assert hits(port) == before + 96


def test_what_was_sent_when_is_written_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "truth.jsonl"
    words = ("--max-model-len", "4096", "--sim-speed", "50", "--sim-truth", str(path))
    began_ns = time.monotonic_ns()
    with serving(*words) as (port, process):
        stream = {"prompt": [5] * 9, "max_tokens": 6, "stream": True}
        request(port, "/v1/completions", stream)
        request(port, "/v1/completions", {**stream, "stream": False})
        assert not path.exists()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    ended_ns = time.monotonic_ns()
    records: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(records) == 2
    for record in records:
        assert (record["prompt_tokens"], record["planned_tokens"]) == (9, 6)
        assert sum(record["event_tokens"]) == 6
        times = [began_ns, record["received_ns"], *record["event_ns"], record["ended_ns"]]
        assert times == sorted(times)
        assert record["ended_ns"] <= ended_ns
    assert len(records[1]["event_ns"]) == 1
