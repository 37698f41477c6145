"""Which environment variables a server gets: an allowlist, so that a trial is repeatable."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_NAMES = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV",
        "CONDA_PREFIX", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
        "LD_LIBRARY_PATH", "LD_PRELOAD", "ADVISOR_FAKE_DEVICE",
    }
)  # fmt: skip
_PREFIXES = (
    "LC_", "XDG_", "CUDA_", "NVIDIA_", "NCCL_", "HIP_", "ROCR_", "HSA_", "HF_", "HUGGING_FACE_",
    "TRANSFORMERS_", "TORCH", "PYTORCH_", "TRITON_", "OMP_", "KMP_", "MKL_", "GOMP_", "VLLM_",
)  # fmt: skip

#: VLLM_PORT and VLLM_HOST_IP are for traffic between vLLM's own processes: two servers with the
#: same value collide. An API key in the environment would lock Advisor out.
_NEVER = frozenset({"VLLM_PORT", "VLLM_HOST_IP", "VLLM_API_KEY"})

#: A Kubernetes service called "vllm" injects VLLM_PORT=tcp://…, VLLM_SERVICE_HOST and the like
#: into every pod of its namespace.
_SERVICE_NAME = re.compile(r"VLLM_(SERVICE_|PORT_)")
_SERVICE_VALUE = re.compile(r"(tcp|udp|sctp)://")

#: Set on every launch: no usage reports; /server_info, which tells the resolved configuration
#: (the server listens on loopback alone); process titles that leave /proc/PID/environ readable
#: (setproctitle's SPT_NOENV), since that is how a launch's processes are found.
ALWAYS = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_SERVER_DEV_MODE": "1",
    "SPT_NOENV": "1",
}


@dataclass(frozen=True, slots=True)
class Environment:
    """What a server is started with."""

    variables: Mapping[str, str]
    #: names of VLLM_ variables that were present and not passed on
    dropped: tuple[str, ...]


def clean(environ: Mapping[str, str], extra: Mapping[str, str]) -> Environment:
    """The part of `environ` that a server may see, with the operator's `extra` over it."""
    kept = {name: value for name, value in environ.items() if _is_allowed(name, value)}
    dropped = sorted(name for name in environ if name.startswith("VLLM_") and name not in kept)
    return Environment({**kept, **extra, **ALWAYS}, tuple(dropped))


def _is_allowed(name: str, value: str) -> bool:
    if name in _NEVER or _SERVICE_NAME.match(name) or _SERVICE_VALUE.match(value):
        return False
    return name in _NAMES or name.startswith(_PREFIXES)
