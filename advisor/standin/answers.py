"""The JSON that tells of the tokens: text completions and chats, whole or in stream events."""

import random
import time
import uuid
from typing import Any

from advisor.standin.bodies import Generation

#: Ids below are special tokens in most vocabularies.
_FIRST_ORDINARY_ID = 256


class Answer:
    """One answer on its way: what is known of it, and the tokens so far."""

    #: how its id begins, and what its whole form and its events are called
    _id, _whole, _event = "cmpl", "text_completion", "text_completion"

    def __init__(
        self,
        body: Generation,
        prompt: list[int],
        max_tokens: int,
        name: str,
        *,
        seed: int,
        vocab: int,
    ) -> None:
        self.body = body
        self.prompt = prompt
        self.max_tokens = max_tokens
        self.generated = 0
        self.id = f"{self._id}-{uuid.uuid4().hex}"
        self._name = name
        self._created = int(time.time())
        self._random = random.Random(f"{seed} {len(prompt)} {prompt[-1]}")
        self._ids = range(min(_FIRST_ORDINARY_ID, vocab - 1), vocab)

    def opening(self) -> dict[str, Any] | None:
        """An event without a token before the first one that has some; None where there is none.

        It comes once the prompt is done, as in vLLM.
        """
        return None

    def chunk(self, count: int) -> dict[str, Any]:
        """The next `count` tokens, in the form of one stream event."""
        first = self.generated == 0
        ids = self._next(count)
        choice = {
            "index": 0,
            **self._piece("".join(f" {each}" for each in ids)),
            "logprobs": None,
            "finish_reason": "length" if self.generated >= self.max_tokens else None,
            "stop_reason": None,
        }
        event = {**self._head(self._event), "choices": [choice]}
        if self.body.return_token_ids:
            choice["token_ids"] = ids
            self._tell_prompt(event, choice, self.prompt if first else None)
        return event

    def whole(self, count: int) -> dict[str, Any]:
        """An answer that is not streamed."""
        event = self.chunk(count)
        choice = event["choices"][0]
        if (delta := choice.pop("delta", None)) is not None:
            choice["message"] = {"role": "assistant", **delta}
        return {**event, "object": self._whole, "usage": self.usage()}

    def usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": len(self.prompt),
            "completion_tokens": self.generated,
            "total_tokens": len(self.prompt) + self.generated,
        }

    def last(self) -> dict[str, Any]:
        """The usage event that ends a stream."""
        return {**self._head(self._event), "choices": [], "usage": self.usage()}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self._created, "model": self._name}

    def _next(self, count: int) -> list[int]:
        self.generated += count
        return [self._random.choice(self._ids) for _ in range(count)]

    def _piece(self, text: str) -> dict[str, Any]:
        return {"text": text}

    def _tell_prompt(
        self, event: dict[str, Any], choice: dict[str, Any], ids: list[int] | None
    ) -> None:
        choice["prompt_token_ids"] = ids


class ChatAnswer(Answer):
    """The same for `/v1/chat/completions`."""

    _id, _whole, _event = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def opening(self) -> dict[str, Any]:
        choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None}
        return {
            **self._head(self._event),
            "choices": [{**choice, "finish_reason": None, "stop_reason": None}],
        }

    def _piece(self, text: str) -> dict[str, Any]:
        return {"delta": {"content": text}}

    def _tell_prompt(
        self, event: dict[str, Any], choice: dict[str, Any], ids: list[int] | None
    ) -> None:
        # here it stands beside the choices
        event["prompt_token_ids"] = ids
