"""The processor that code is emitted for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tcp_eqsat.codegen import target as module
from tcp_eqsat.codegen.target import CHOICES, ENVIRONMENT, available_targets, cpu_target, host_target
from tcp_eqsat.errors import TargetError
from tcp_eqsat.lang.types import BOOL, F32, F64


@pytest.fixture
def x86(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """An x86-64 host whose features a test sets with `pretend`."""
    monkeypatch.setattr(module.platform, "machine", lambda: "x86_64")
    cpu_target.cache_clear()
    yield monkeypatch
    cpu_target.cache_clear()


def pretend(monkeypatch: pytest.MonkeyPatch, *features: str) -> None:
    monkeypatch.setattr(module, "_host_features", lambda: dict.fromkeys(features, True))


def test_unknown_setting_lists_the_choices() -> None:
    with pytest.raises(TargetError, match=r"pentium.*x86-64, x86-64-v3, x86-64-v4, native"):
        cpu_target("pentium")


def test_setting_the_host_cannot_run(x86: pytest.MonkeyPatch) -> None:
    pretend(x86, "sse4.1", "avx")
    with pytest.raises(TargetError, match=r"x86-64-v3 needs processor features.*avx2"):
        cpu_target("x86-64-v3")
    assert available_targets() == ("x86-64", "native")


def test_levels(x86: pytest.MonkeyPatch) -> None:
    pretend(x86, "sse4.1", *module._NEEDS_V4)
    assert available_targets() == CHOICES
    widths = {choice: cpu_target(choice).vector_bits for choice in CHOICES}
    assert widths == {"x86-64": 128, "x86-64-v3": 256, "x86-64-v4": 512, "native": 512}
    assert [cpu_target(choice).registers for choice in CHOICES] == [16, 16, 32, 32]
    assert [cpu_target(choice).has_fma for choice in CHOICES] == [False, True, True, True]


def test_native_follows_the_features(x86: pytest.MonkeyPatch) -> None:
    pretend(x86, "sse4.1", *module._NEEDS_V3)
    native = cpu_target("native")
    assert (native.vector_bits, native.has_fma, native.has_scale) == (256, True, False)
    assert "+avx2" in native.features


def test_other_processors_take_the_generic_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.platform, "machine", lambda: "aarch64")
    pretend(monkeypatch, "neon")
    cpu_target.cache_clear()
    try:
        assert available_targets() == ("native",)
        assert cpu_target().vector_bits == 128
        with pytest.raises(TargetError, match="this one is aarch64"):
            cpu_target("x86-64")
    finally:
        cpu_target.cache_clear()


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "z80")
    with pytest.raises(TargetError, match="z80"):
        host_target()
    for choice in available_targets():
        monkeypatch.setenv(ENVIRONMENT, choice)
        assert host_target() == cpu_target(choice)
    monkeypatch.delenv(ENVIRONMENT)
    assert host_target() == cpu_target("native")


def test_lanes() -> None:
    target = cpu_target("native")
    assert target.lanes(F32) == target.vector_bits // 32
    assert target.lanes(F64) == target.vector_bits // 64
    assert target.lanes(BOOL) == target.vector_bits // 8
    assert target.l1_bytes >= 8 << 10 and target.l2_bytes > target.l1_bytes
