import pytest

from advisor.engine.environment import clean


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PATH", "/usr/bin"),
        ("LC_ALL", "C"),
        ("CUDA_VISIBLE_DEVICES", "1"),
        ("HF_HUB_OFFLINE", "1"),
        ("VLLM_LOGGING_LEVEL", "DEBUG"),
        ("VLLM_CACHE_ROOT", "/cache"),
        ("LD_PRELOAD", "/lib/libtcmalloc.so"),
    ],
)
def test_kept(name: str, value: str) -> None:
    cleaned = clean({name: value}, {})
    assert cleaned.variables[name] == value
    assert cleaned.dropped == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VLLM_PORT", "tcp://10.0.0.1:8000"),
        ("VLLM_PORT", "5000"),
        ("VLLM_HOST_IP", "10.0.0.2"),
        ("VLLM_API_KEY", "x"),
        ("VLLM_SERVICE_HOST", "10.0.0.1"),
        ("VLLM_PORT_8000_TCP_ADDR", "10.0.0.1"),
        ("VLLM_ROUTER_PORT", "tcp://10.0.0.3:80"),
    ],
)
def test_dropped_and_named(name: str, value: str) -> None:
    cleaned = clean({name: value}, {})
    assert name not in cleaned.variables
    assert cleaned.dropped == (name,)


@pytest.mark.parametrize("name", ["HTTP_PROXY", "https_proxy", "PYTHONPATH", "AWS_SECRET"])
def test_not_ours_to_pass_on(name: str) -> None:
    cleaned = clean({name: "x"}, {})
    assert name not in cleaned.variables
    assert cleaned.dropped == ()


def test_the_operator_adds_but_does_not_undo() -> None:
    variables = clean({"PATH": "/a"}, {"PATH": "/b", "MINE": "1", "DO_NOT_TRACK": "0"}).variables
    assert (variables["PATH"], variables["MINE"], variables["DO_NOT_TRACK"]) == ("/b", "1", "1")
