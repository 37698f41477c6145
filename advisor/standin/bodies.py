"""What clients send: the fields that matter here, all others are ignored."""

from typing import Annotated

from pydantic import BaseModel, Field

Count = Annotated[int, Field(ge=1)]


class Refused(Exception):
    """A request that vLLM answers with an error."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


class StreamOptions(BaseModel):
    include_usage: bool = False
    continuous_usage_stats: bool = False


class Generation(BaseModel):
    """What both kinds of completion share.

    Every completion runs to its token limit: a stand-in has no end-of-sequence token to stop at.
    """

    model: str | None = None
    n: Annotated[int, Field(ge=1, le=1)] = 1
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    return_token_ids: bool = False


class CompletionRequest(Generation):
    """`/v1/completions`"""

    prompt: str | list[int] | list[str] | list[list[int]]
    max_tokens: Count = 16

    def prompt_ids(self) -> list[int]:
        """Raises Refused for none, or for more than one."""
        prompt: object = self.prompt
        if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
            if len(prompt) > 1:
                raise Refused(400, "BadRequestError", "prompt: the stand-in takes one a request")
            prompt = prompt[0]
        ids = token_ids(prompt) if isinstance(prompt, str) else prompt
        if not isinstance(ids, list) or not ids:
            raise Refused(400, "BadRequestError", "prompt: must not be empty")
        return ids


class Part(BaseModel):
    """One piece of a message; only texts are known."""

    type: str = "text"
    text: str


class Message(BaseModel):
    role: str
    content: str | list[Part]

    def rendered(self) -> str:
        """With the marks that a chat template puts around it."""
        parts = self.content
        text = parts if isinstance(parts, str) else "".join(part.text for part in parts)
        return f"<|{self.role}|>\n{text}\n"


class ChatRequest(Generation):
    """`/v1/chat/completions`; as in vLLM the answer may by default fill the context."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None

    def prompt_ids(self) -> list[int]:
        return chat_ids(self.messages)


class TokenizeRequest(BaseModel):
    """`/tokenize`: a text or a conversation."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None

    def ids(self) -> list[int]:
        """Raises Refused when there is nothing to count."""
        if self.messages is not None:
            return chat_ids(self.messages)
        if self.prompt is None:
            raise Refused(400, "BadRequestError", "prompt or messages: one of them must be given")
        return token_ids(self.prompt)


def token_ids(text: str) -> list[int]:
    """One token for each UTF-8 byte, like a byte-level tokeniser without merges."""
    return list(text.encode())


def chat_ids(messages: list[Message]) -> list[int]:
    """Of the whole conversation, up to where the answer begins."""
    return token_ids("".join(message.rendered() for message in messages) + "<|assistant|>\n")


def check_model(name: str | None, names: tuple[str, ...]) -> None:
    """Raises Refused for a model that is not served here."""
    if name is not None and name not in names:
        raise Refused(404, "NotFoundError", f"The model `{name}` does not exist.")


def check_ids(ids: list[int], max_tokens: int, vocab: int, longest: int) -> None:
    """Raises Refused for ids outside the vocabulary and for what exceeds the context."""
    if not 0 <= min(ids) <= max(ids) < vocab:
        raise Refused(400, "BadRequestError", f"prompt: token ids must be in 0..{vocab - 1}")
    if len(ids) + max_tokens > longest or max_tokens < 1:
        raise Refused(
            400,
            "BadRequestError",
            f"This model's maximum context length is {longest} tokens. However, you requested "
            f"{max_tokens} output tokens and your prompt contains {len(ids)} input tokens.",
        )
