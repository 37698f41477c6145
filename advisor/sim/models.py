"""The shapes of decoder-only transformers, and the bytes that follow from them."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.terms.errors import InputError

#: Checkpoint format -> bytes per weight of the linear layers; 4-bit formats carry one 16-bit scale
#: and one 4-bit zero point per 128 weights.
CHECKPOINT_BYTES = {"awq": 0.52, "gptq": 0.52, "fp8": 1.0}


@dataclass(frozen=True, slots=True)
class ModelShape:
    """One decoder: attention with grouped key-value heads and a gated MLP, dense or of experts.

    In a mixture of experts every sparse layer has a router, `experts` MLPs of which each token
    takes `experts_per_token`, and perhaps a shared one that all tokens take.
    """

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied_embeddings: bool
    max_position_embeddings: int
    #: bytes per element of unquantised weights, activations and (by default) the KV cache
    element_bytes: int = 2
    #: 0 in a dense model
    experts: int = 0
    experts_per_token: int = 0
    expert_intermediate: int = 0
    shared_intermediate: int = 0
    #: layers with experts; the others have an MLP of `intermediate`
    sparse_layers: int = 0
    #: quantisation method of the checkpoint itself, None for a plain one
    quantization: str | None = None
    #: bytes per weight of the linear layers in a quantised checkpoint
    quantized_bytes: float | None = None

    @property
    def expert_parameters(self) -> int:
        """Weights of all experts that tokens choose from."""
        return 3 * self.sparse_layers * self.experts * self.hidden * self.expert_intermediate

    @property
    def _common_parameters(self) -> int:
        """Weights of all projections that every token goes through."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        dense = 3 * (self.layers - self.sparse_layers) * self.intermediate
        sparse = self.sparse_layers * (3 * self.shared_intermediate + self.experts)
        return self.layers * attention + self.hidden * (dense + sparse)

    @property
    def linear_parameters(self) -> int:
        """Weights of all attention, MLP and expert projections."""
        return self._common_parameters + self.expert_parameters

    @property
    def active_linear_parameters(self) -> int:
        """Of these, what one token is multiplied with."""
        if self.experts == 0:
            return self.linear_parameters
        share = self.expert_parameters * self.experts_per_token // self.experts
        return self._common_parameters + share

    @property
    def embedding_parameters(self) -> int:
        """Of one table: the input embedding, or the output head."""
        return self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        """All weights; norms are two vectors a layer and one at the end."""
        tables = 1 if self.tied_embeddings else 2
        norms = (2 * self.layers + 1) * self.hidden
        return self.linear_parameters + tables * self.embedding_parameters + norms

    def weight_bytes(self, linear_bytes: float | None = None) -> int:
        """Bytes in device memory, linear layers at `linear_bytes` a weight (default: plain)."""
        plain = self.parameters - self.linear_parameters
        each = self.element_bytes if linear_bytes is None else linear_bytes
        return round(plain * self.element_bytes + self.linear_parameters * each)

    def step_weight_bytes(self, linear_bytes: float | None = None) -> int:
        """Bytes that every step reads: all but the input embedding, of which it reads rows."""
        unread = 0 if self.tied_embeddings else self.embedding_parameters * self.element_bytes
        return self.weight_bytes(linear_bytes) - unread

    def kv_bytes_per_token(self, element_bytes: float | None = None) -> int:
        """Keys and values of one token in all layers: 2 x layers x KV heads x head dim x bytes."""
        each = self.element_bytes if element_bytes is None else element_bytes
        return round(2 * self.layers * self.kv_heads * self.head_dim * each)


#: From each model's published config.json.
_BUILT_IN = {
    shape.name: shape
    for shape in (
        ModelShape("llama-3.1-8b", 32, 4096, 14336, 32, 8, 128, 128256, False, 131072),
        ModelShape("llama-3.1-70b", 80, 8192, 28672, 64, 8, 128, 128256, False, 131072),
        ModelShape("qwen2.5-7b", 28, 3584, 18944, 28, 4, 128, 152064, False, 32768),
        ModelShape("qwen2.5-32b", 64, 5120, 27648, 40, 8, 128, 152064, False, 32768),
        ModelShape("mistral-7b", 32, 4096, 14336, 32, 8, 128, 32768, False, 32768),
        ModelShape(
            *("mixtral-8x7b", 32, 4096, 14336, 32, 8, 128, 32000, False, 32768),
            experts=8,
            experts_per_token=2,
            expert_intermediate=14336,
            sparse_layers=32,
        ),
        ModelShape(
            *("qwen3-30b-a3b", 48, 2048, 6144, 32, 4, 128, 151936, False, 40960),
            experts=128,
            experts_per_token=8,
            expert_intermediate=768,
            sparse_layers=48,
        ),
    )
}


def model_names() -> tuple[str, ...]:
    """Built-in shapes; each also exists as a quantised checkpoint, `NAME-awq` and so on."""
    return tuple(_BUILT_IN)


def model(name: str) -> ModelShape:
    """A built-in shape, or one read from a config.json (its path or its folder's).

    Raises InputError for an unknown name and for a config that cannot be read.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    base, _, suffix = name.rpartition("-")
    if base in _BUILT_IN and suffix in CHECKPOINT_BYTES:
        method = CHECKPOINT_BYTES[suffix]
        return replace(_BUILT_IN[base], name=name, quantization=suffix, quantized_bytes=method)
    path = Path(name)
    if path.is_dir():
        path = path / "config.json"
    if path.is_file():
        return _read(name, path)
    raise InputError(
        f"model {name!r}: unknown to the simulator; one of {', '.join(_BUILT_IN)} (also with "
        f"-{', -'.join(CHECKPOINT_BYTES)}), or a path to a config.json"
    )


def _read(name: str, path: Path) -> ModelShape:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise InputError(f"model {name!r}: cannot read {path}: {exc}") from exc
    if not isinstance(config, dict):
        raise InputError(f"model {name!r}: {path} is not a JSON object")
    if isinstance(config.get("text_config"), dict):
        # Of a model that also sees: the text part is what generates.
        config = {**config, **config["text_config"]}

    def size(key: str, default: int | None = None, most: int | None = None) -> int:
        value = default if config.get(key) is None else config[key]
        if type(value) is not int or not 1 <= value <= (most or value):
            bounds = ">= 1" if most is None else f"from 1 to {most}"
            raise InputError(
                f"model {name!r}: {path}: {key} is {value!r}, expected an integer {bounds}"
            )
        return value

    beyond = next(_beyond(config), None)
    if beyond is not None:
        raise InputError(
            f"model {name!r}: {path}: {beyond} is {config[beyond]!r}; the simulator models "
            "decoders of attention with grouped key-value heads only"
        )
    heads = size("num_attention_heads")
    kv_heads = size("num_key_value_heads", heads)
    if heads % kv_heads:
        raise InputError(
            f"model {name!r}: {path}: num_key_value_heads is {kv_heads}, expected a divisor of "
            f"num_attention_heads, {heads}"
        )
    method, each = _quantization(name, path, config.get("quantization_config"))
    return ModelShape(
        name=name,
        layers=size("num_hidden_layers"),
        hidden=size("hidden_size"),
        intermediate=size("intermediate_size"),
        **_experts(config, size),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=size("head_dim", size("hidden_size") // heads),
        vocab=size("vocab_size"),
        # Gemma's files leave out what its class has as a default.
        tied_embeddings=bool(
            config.get("tie_word_embeddings", str(config.get("model_type")).startswith("gemma"))
        ),
        max_position_embeddings=size("max_position_embeddings"),
        element_bytes=4 if "float32" in (config.get("torch_dtype"), config.get("dtype")) else 2,
        quantization=method,
        quantized_bytes=each,
    )


#: Keys of latent attention, of state-space and convolution layers and of encoders: their KV cache
#: would be wrong by a factor.
_NOT_MODELLED = (
    *("kv_lora_rank", "linear_num_key_heads", "conv_L_cache", "is_encoder_decoder"),
    *("mamba_d_state", "mamba_d_ssm", "mamba_num_heads", "ssm_state_size", "ssm_cfg"),
    *("state_size", "time_step_rank", "hybrid_override_pattern", "attn_layer_indices"),
)
#: Kinds of layer that hold keys and values, as `layer_types` names them.
_ATTENTION = ("full_attention", "sliding_attention", "chunked_attention")
#: How the classes of decoders end, with and without eyes.
_DECODERS = ("ForCausalLM", "ForConditionalGeneration")
#: Families that are none although no key says so.
_OTHER_FAMILIES = re.compile(r"mamba|rwkv|recurrent|bert|jamba|zamba|t5$")
#: Key with the number of experts, by family: Mixtral and its kin, Qwen, DeepSeek and its kin.
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


def _beyond(config: Mapping[str, object]) -> Iterator[str]:
    """Keys that show layers or a kind of model that the simulator knows nothing of."""
    yield from (key for key in _NOT_MODELLED if config.get(key))
    if _OTHER_FAMILIES.search(str(config.get("model_type"))):
        yield "model_type"
    layers, classes = config.get("layer_types"), config.get("architectures")
    if isinstance(layers, list) and any(each not in _ATTENTION for each in layers):
        yield "layer_types"
    if isinstance(classes, list) and not all(str(each).endswith(_DECODERS) for each in classes):
        yield "architectures"


def _experts(config: Mapping[str, object], size: Callable[..., int]) -> dict[str, int]:
    """Fields of a mixture of experts; none for a dense model.

    Mixtral gives one MLP size for all; Qwen and others give the experts' apart, and may leave some
    layers dense: `decoder_sparse_step`, `mlp_only_layers`, `first_k_dense_replace`.
    """
    key = next((key for key in _EXPERTS if config.get(key)), None)
    if key is None:
        return {}
    layers, every = size("num_hidden_layers"), size("decoder_sparse_step", 1)
    only = config.get("mlp_only_layers")
    first_dense = size("first_k_dense_replace") if config.get("first_k_dense_replace") else 0
    dense = {*(only if isinstance(only, list) else ()), *range(first_dense)}
    each = size("moe_intermediate_size", size("intermediate_size"))
    shared = 0
    if config.get("shared_expert_intermediate_size"):
        shared = size("shared_expert_intermediate_size")
    elif config.get("n_shared_experts"):
        shared = size("n_shared_experts") * each
    experts = size(key)
    return {
        "experts": experts,
        "experts_per_token": size("num_experts_per_tok", most=experts),
        "expert_intermediate": each,
        "shared_intermediate": shared,
        "sparse_layers": sum((i + 1) % every == 0 and i not in dense for i in range(layers)),
    }


def _quantization(name: str, path: Path, found: object) -> tuple[str | None, float | None]:
    if found is None:
        return None, None
    method = found.get("quant_method") if isinstance(found, dict) else None
    if method not in CHECKPOINT_BYTES:
        known = ", ".join(CHECKPOINT_BYTES)
        raise InputError(
            f"model {name!r}: {path}: quant_method {method!r} is not modelled; one of {known}"
        )
    return method, CHECKPOINT_BYTES[method]
