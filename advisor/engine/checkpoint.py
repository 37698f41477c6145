"""What a local checkpoint's config.json tells, without loading it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """None where the file does not say, or where there is no local file at all."""

    vocabulary: int | None = None
    max_position_embeddings: int | None = None
    #: `quantization_config.quant_method`
    quantization: str | None = None


def read_checkpoint(model: str) -> Checkpoint:
    """Read `model` as a folder with a config.json; a hub name or a broken file tells nothing.

    vLLM itself says what is wrong with a checkpoint; here it is only asked what it is.
    """
    try:
        text = (Path(model).expanduser() / "config.json").read_text(encoding="utf-8")
        config = json.loads(text)
    except (OSError, ValueError):
        return Checkpoint()
    if not isinstance(config, dict):
        return Checkpoint()
    quantised = config.get("quantization_config")
    method = quantised.get("quant_method") if isinstance(quantised, dict) else None
    return Checkpoint(
        vocabulary=_size(config, "vocab_size"),
        max_position_embeddings=_size(config, "max_position_embeddings"),
        quantization=method if isinstance(method, str) else None,
    )


def _size(config: dict[str, Any], key: str) -> int | None:
    value = config.get(key)
    return value if type(value) is int and value > 0 else None
