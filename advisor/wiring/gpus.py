"""Which GPUs a job may use, from the words that were given."""

import re
from collections.abc import Iterable

from advisor.terms.errors import InputError
from advisor.terms.flags import to_argv
from advisor.terms.job import EngineInfo, JobSpec
from advisor.terms.setting import PARALLEL_FLAGS, Setting


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


def check_set_size(spec: JobSpec, settings: Iterable[Setting]) -> None:
    """Raises InputError where a setting needs more GPUs than a set has."""
    if spec.gpus is None:
        return
    most = max(settings, key=lambda setting: setting.gpus)
    size = len(spec.gpus.split(";")[0].split(","))
    if most.gpus > size:
        flags = [(name, value) for name, value in most.flags if name in PARALLEL_FLAGS]
        raise InputError(
            f"gpu sets {spec.gpus!r}: a launch with {' '.join(to_argv(flags))} needs {most.gpus} "
            f"GPUs; expected as many in each set, with commas between them, e.g. "
            f"{','.join(map(str, range(most.gpus)))}"
        )


def check_gpu_hours(spec: JobSpec, engine: EngineInfo) -> None:
    """Raises InputError for a budget of GPU-hours where there are no GPUs that could use it up."""
    if spec.gpu_hours is not None and engine.gpus is None:
        raise InputError(
            f"gpu hours is {spec.gpu_hours:g}; NVIDIA's driver (NVML) finds no GPU on this "
            "machine, so give --time-budget instead"
        )
