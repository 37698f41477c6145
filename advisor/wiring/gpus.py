"""Which GPUs a job may use, from the words that were given."""

import re

from advisor.terms.errors import InputError
from advisor.terms.job import EngineInfo, JobSpec


def gpu_sets(text: str | None) -> str | None:
    """Sets of GPUs parted by `;`, inside by `,`, as `JobSpec.gpus` has them: without blanks.

    Raises InputError for what is no such list, for sets of different sizes, and for a GPU that is
    in it twice.
    """
    if text is None:
        return None
    sets = [[word.strip() for word in part.split(",")] for part in text.split(";")]
    words = [word for part in sets for word in part]
    if not all(re.fullmatch(r"[0-9A-Za-z-]+", word) for word in words):
        raise InputError(
            f"gpu sets {text!r}: expected GPUs with commas between them, and semicolons between "
            "sets, e.g. 0 or '0;1' or '0,1;2,3'"
        )
    sizes = sorted({len(part) for part in sets})
    if len(sizes) > 1:
        raise InputError(
            f"gpu sets {text!r}: the sets have from {sizes[0]} to {sizes[-1]} GPUs; expected the "
            "same number in each"
        )
    twice = next((word for word in words if words.count(word) > 1), None)
    if twice is not None:
        raise InputError(f"gpu sets {text!r}: GPU {twice} is in it twice; expected each once")
    return ";".join(",".join(part) for part in sets)


def check_gpu_hours(spec: JobSpec, engine: EngineInfo) -> None:
    """Raises InputError for a budget of GPU-hours where there are no GPUs that could use it up."""
    if spec.gpu_hours is not None and engine.gpus is None:
        raise InputError(
            f"gpu hours is {spec.gpu_hours:g}; NVIDIA's driver (NVML) finds no GPU on this "
            "machine, so give --time-budget instead"
        )
