"""Built-in shapes and shapes read from a config.json."""

import json
from pathlib import Path

import pytest

from advisor.sim import hardware, hardware_names, model, model_names
from advisor.terms.errors import InputError

TINY = {
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "intermediate_size": 768,
    "vocab_size": 8000,
    "max_position_embeddings": 4096,
}


def write(folder: Path, **changes: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps({**TINY, **changes}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama-3.1-8b", 8.03),
        ("llama-3.1-70b", 70.55),
        ("qwen2.5-7b", 7.62),
        ("qwen2.5-32b", 32.76),
        ("mistral-7b", 7.25),
        ("mixtral-8x7b", 46.7),
        ("qwen3-30b-a3b", 30.53),
    ],
)
def test_parameters_are_the_published_counts(name: str, billions: float) -> None:
    assert model(name).parameters == pytest.approx(billions * 1e9, rel=0.001)
    assert name in model_names()


def test_config_is_read_from_its_path_or_its_folder(tmp_path: Path) -> None:
    path = write(tmp_path, torch_dtype="float32", tie_word_embeddings=True)
    for name in (str(path), str(tmp_path)):
        shape = model(name)
        assert shape.kv_bytes_per_token() == 2 * 4 * 1 * 64 * 4
        assert shape.tied_embeddings
        assert shape.weight_bytes() == 4 * shape.parameters == shape.step_weight_bytes()


EXPERTS = {"num_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 128}


@pytest.mark.parametrize(
    ("changes", "experts", "shared", "sparse"),
    [
        ({"num_local_experts": 8, "num_experts_per_tok": 2}, 8 * 768, 0, 4),
        (EXPERTS, 16 * 128, 0, 4),
        ({**EXPERTS, "shared_expert_intermediate_size": 512}, 16 * 128, 512, 4),
        ({**EXPERTS, "decoder_sparse_step": 2}, 16 * 128, 0, 2),
        ({**EXPERTS, "mlp_only_layers": [0, 3]}, 16 * 128, 0, 2),
        (
            {
                **EXPERTS,
                "num_experts": None,
                "n_routed_experts": 16,
                "n_shared_experts": 2,
                "first_k_dense_replace": 1,
            },
            16 * 128,
            256,
            3,
        ),
    ],
)
def test_experts_of_every_family_are_counted(
    tmp_path: Path, changes: dict[str, object], experts: int, shared: int, sparse: int
) -> None:
    shape = model(str(write(tmp_path, **changes)))
    assert shape.expert_parameters == 3 * sparse * 256 * experts
    assert (shape.shared_intermediate, shape.sparse_layers) == (shared, sparse)
    chosen = shape.expert_parameters * shape.experts_per_token // shape.experts
    assert shape.active_linear_parameters == (
        shape.linear_parameters - shape.expert_parameters + chosen
    )


def test_active_parameters_of_a_mixture_are_the_published_share() -> None:
    # 12.9 and 3.3 billion, with the embeddings that a token passes through.
    assert model("mixtral-8x7b").active_linear_parameters == pytest.approx(12.6e9, rel=0.01)
    assert model("qwen3-30b-a3b").active_linear_parameters == pytest.approx(2.7e9, rel=0.03)


def test_the_text_part_of_a_model_that_sees_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "gemma3", "text_config": TINY}), encoding="utf-8"
    )
    shape = model(str(tmp_path))
    assert (shape.hidden, shape.tied_embeddings) == (256, True)


def test_kinds_of_attention_that_keep_keys_and_values_are_taken(tmp_path: Path) -> None:
    kinds = ["sliding_attention", "full_attention"]
    read = write(
        tmp_path, layer_types=kinds, architectures=["Qwen3ForCausalLM"], model_type="qwen3"
    )
    assert model(str(read)).layers == 4


def test_null_is_missing(tmp_path: Path) -> None:
    assert model(str(write(tmp_path, head_dim=None))).head_dim == 64


def test_missing_kv_heads_and_head_dim_follow_from_the_rest(tmp_path: Path) -> None:
    config = {k: v for k, v in TINY.items() if k not in ("num_key_value_heads", "head_dim")}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    shape = model(str(tmp_path))
    assert (shape.kv_heads, shape.head_dim) == (4, 64)


def test_quantised_checkpoint_keeps_its_embeddings_plain(tmp_path: Path) -> None:
    shape = model(str(write(tmp_path, quantization_config={"quant_method": "awq", "bits": 4})))
    assert shape.quantization == "awq"
    saved = shape.weight_bytes() - shape.weight_bytes(shape.quantized_bytes)
    assert saved == pytest.approx(1.48 * shape.linear_parameters, rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"hidden_size": "big"}, "hidden_size is 'big', expected an integer >= 1"),
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"num_hidden_layers": None}, "num_hidden_layers is None"),
        ({"quantization_config": {"quant_method": "new"}}, "quant_method 'new' is not modelled"),
        ({"quantization_config": "awq"}, "quant_method None is not modelled"),
        ({"num_local_experts": 8}, "num_experts_per_tok is None, expected an integer"),
        ({"kv_lora_rank": 512}, "kv_lora_rank is 512"),
        # Nemotron-H, Mamba, Qwen3-Next, an encoder, and a kind of layer by its own name.
        ({"ssm_state_size": 128, "mamba_num_heads": 96}, "mamba_num_heads is 96"),
        ({"model_type": "falcon_mamba"}, "model_type is 'falcon_mamba'"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "layer_types is"),
        ({"architectures": ["BertForMaskedLM"]}, "architectures is"),
        ({"num_attention_heads": 28, "num_key_value_heads": 5}, "num_key_value_heads is 5"),
        ({**EXPERTS, "num_experts_per_tok": 17}, "num_experts_per_tok is 17, expected an integer"),
    ],
)
def test_config_that_is_no_use_names_the_field(
    tmp_path: Path, changes: dict[str, object], text: str
) -> None:
    path = write(tmp_path, **changes)
    with pytest.raises(InputError, match=text):
        model(str(path))


@pytest.mark.parametrize("content", ["", "[]", "{", "\x00"])
def test_config_that_is_no_json_object(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"config\.json"):
        model(str(tmp_path))


@pytest.mark.parametrize("name", ["llama-9", "llama-3.1-8b-xyz", "", "/no/such/path"])
def test_unknown_model_names_the_known(name: str) -> None:
    with pytest.raises(InputError, match=r"unknown to the simulator; one of llama-3\.1-8b, "):
        model(name)


def test_every_device_has_figures_with_a_source() -> None:
    for name in hardware_names():
        device = hardware(name)
        assert device.source
        assert device.memory_bytes > 20e9
        assert device.flops_fp8 is None or device.flops_fp8 > device.flops_16bit
