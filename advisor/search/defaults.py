"""The Space that is searched when the operator gives none."""

from collections.abc import Sequence

from advisor.search.knob import Knob
from advisor.search.space import Space, Variant
from advisor.terms.errors import SpaceError

#: What ends the name of a precision that the checkpoint already has.
_IN_CHECKPOINT = "-checkpoint"


def allowed_precisions(checkpoint_quantization: str | None, *, fp8_hardware: bool) -> list[str]:
    """Weight precisions that this checkpoint can be served in on this hardware.

    `checkpoint_quantization` is `quantization_config.quant_method` of the checkpoint's
    config.json, None where there is none. A checkpoint that is quantised already is served as
    it is: vLLM detects the method, and naming it explicitly can force a slower kernel
    (https://github.com/vllm-project/vllm/issues/21376). Online fp8 is offered only where the
    hardware computes in fp8; elsewhere it saves memory and may cost time.
    """
    if checkpoint_quantization is not None:
        return [checkpoint_quantization + _IN_CHECKPOINT]
    return ["bf16", "fp8"] if fp8_hardware else ["bf16"]


def default_space(*, precisions: Sequence[str]) -> Space:
    """Batched tokens, memory utilisation, prefix caching, and one variant per precision.

    `precisions` as `allowed_precisions` gives them; a single one leaves nothing to choose and
    makes no variant. Raises SpaceError for another word, or none.
    """
    if not precisions:
        raise SpaceError("space: no precision given; accepted: bf16, fp8")
    variants = tuple(_variant(word) for word in precisions)
    return Space(
        knobs=(
            Knob.ranging("max_num_batched_tokens", 256, 16384, log=True),
            Knob.ranging("gpu_memory_utilization", 0.80, 0.95, step=0.05),
            Knob.of("enable_prefix_caching", [True, False]),
        ),
        variants=variants if len(variants) > 1 else (),
    )


def _variant(precision: str) -> Variant:
    if precision == "bf16" or precision.endswith(_IN_CHECKPOINT):
        return Variant(precision)
    if precision == "fp8":
        # vLLM quantises the weights while it loads them.
        return Variant(precision, flags=(("quantization", "fp8"),))
    raise SpaceError(f"space: precision {precision!r} is unknown; accepted: bf16, fp8")
