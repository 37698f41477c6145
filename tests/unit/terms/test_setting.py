"""Settings as values."""

from advisor.terms.setting import Setting


def test_order_of_flags_makes_no_difference() -> None:
    one = Setting.of("m", {"a": 1, "b": 2}, ("b", "a"))
    other = Setting.of("m", {"b": 2, "a": 1}, ("a", "b"))
    assert one == other
    assert one.key == other.key


def test_the_key_names_what_is_launched() -> None:
    one = Setting.of("m", {"a": 1}, ("a",), "bf16")
    assert one.key == Setting.of("m", {"a": 1}).key
    others = [
        Setting.of("n", {"a": 1}),
        Setting.of("m", {"a": 2}),
        Setting.of("m", {"a": True}),
        Setting.of("m", {"a": "1"}),
        Setting.of("m", {}),
    ]
    assert len({one.key, *(other.key for other in others)}) == 6


def test_argv_is_what_follows_serve() -> None:
    setting = Setting.of("m", {"max_num_seqs": 8, "enforce_eager": True})
    assert setting.argv() == ["m", "--enforce-eager", "--max-num-seqs", "8"]


def test_what_is_not_set_is_none_and_off_is_off() -> None:
    setting = Setting.of("m", {"enforce_eager": False})
    assert setting.get("enforce_eager") is False
    assert setting.get("dtype") is None


def test_automatic_precision_is_the_one_without_the_flag() -> None:
    bare = Setting.of("m", {})
    assert Setting.of("m", {"kv_cache_dtype": "auto", "dtype": "auto"}).precision() == (
        bare.precision()
    )
    assert Setting.of("m", {"kv_cache_dtype": "fp8"}).precision() != bare.precision()
    assert Setting.of("m", {"max_num_seqs": 8}).precision() == bare.precision()
