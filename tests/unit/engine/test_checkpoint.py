"""A checkpoint's config.json, read for what a job must know before a launch."""

import json
from pathlib import Path

import pytest

from advisor.engine.checkpoint import Checkpoint, read_checkpoint


def test_a_local_checkpoint_tells_vocabulary_context_and_quantisation(tmp_path: Path) -> None:
    config = {
        "vocab_size": 8000,
        "max_position_embeddings": 4096,
        "quantization_config": {"quant_method": "compressed-tensors"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_checkpoint(str(tmp_path)) == Checkpoint(8000, 4096, "compressed-tensors")


def test_a_mixture_of_experts_is_no_error_here(tmp_path: Path) -> None:
    config = {"vocab_size": 151936, "num_experts": 128, "text_config": {"hidden_size": 1}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_checkpoint(str(tmp_path)) == Checkpoint(vocabulary=151936)


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '{"vocab_size": "many"}'])
def test_what_cannot_be_read_tells_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert read_checkpoint(str(tmp_path)) == Checkpoint()


def test_a_hub_name_tells_nothing() -> None:
    assert read_checkpoint("meta-llama/Llama-3.1-8B-Instruct") == Checkpoint()
