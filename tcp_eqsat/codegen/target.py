"""The machines that code is emitted for: processors (LLVM name and features, vectors, caches) and NVIDIA GPUs."""

from __future__ import annotations

import functools
import os
import platform
from dataclasses import dataclass

import llvmlite.binding as llvm

from tcp_eqsat.errors import ArgumentError, TargetError
from tcp_eqsat.lang.types import DType

BYPASS_BYTES = 16 << 20
"""Half of what a core can hope for of a last-level cache that it shares. Systems report that cache for the whole
socket, also to a virtual machine that has a small part of it, so this is no question to ask them."""
ENVIRONMENT = "TCP_EQSAT_CPU"
CHOICES = ("x86-64", "x86-64-v3", "x86-64-v4", "native")

_X86 = ("x86_64", "amd64")
_NEEDS_V3 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_NEEDS_V4 = (*_NEEDS_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_NEEDS = {"x86-64": (), "x86-64-v3": _NEEDS_V3, "x86-64-v4": _NEEDS_V4}
_FUSED_ELSEWHERE = ("aarch64", "arm64", "ppc64le", "s390x", "riscv64")


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """A processor as code generation sees it.

    `name` and `features` are LLVM's processor name and feature string; `vector_bits` and `registers` describe
    the widest vector registers; `l1_bytes` and `l2_bytes` are the data caches of one core. The flags say what
    is one instruction: a fused multiply-add, rounding to an integral value, scaling by a power of two, conversion
    between f16 and f32. Results of at least `bypass_bytes` that nothing reads soon are stored around the caches; 0:
    none are.
    """

    name: str
    features: str
    vector_bits: int
    registers: int
    has_fma: bool
    has_round: bool
    has_scale: bool
    has_half: bool
    l1_bytes: int
    l2_bytes: int
    bypass_bytes: int = 0

    def lanes(self, dtype: DType) -> int:
        """How many elements of `dtype` one vector register holds (at least 1)."""
        return max(1, self.vector_bits // (8 * dtype.bytes))

    def __str__(self) -> str:
        return f"{self.name} ({self.vector_bits}-bit vectors)"


def host_target() -> CpuTarget:
    """The processor this process runs on, narrowed by the environment variable TCP_EQSAT_CPU.

    Raises TargetError for a setting that is unknown or that this processor can't run.
    """
    return cpu_target(os.environ.get(ENVIRONMENT) or "native")


def available_targets() -> tuple[str, ...]:
    """The settings of TCP_EQSAT_CPU that this processor can run, narrowest first."""
    return tuple(choice for choice in CHOICES if not _obstacle(choice))


@functools.cache
def cpu_target(choice: str = "native") -> CpuTarget:
    """The target called `choice`; raises TargetError if it is unknown or can't run here."""
    if choice not in CHOICES:
        raise TargetError(f"unknown processor {choice!r} ({ENVIRONMENT}); known are {', '.join(CHOICES)}")
    obstacle = _obstacle(choice)
    if obstacle:
        raise TargetError(f"{ENVIRONMENT}={choice} needs {obstacle}")
    machine = platform.machine().lower()
    if machine not in _X86:
        return _generic(machine)
    features = _host_features()
    if choice == "native":
        level = next(level for level in reversed(tuple(_NEEDS)) if not _missing(level, features))
        name = llvm.get_host_cpu_name()
        flags = ",".join(f"{'+' if present else '-'}{feature}" for feature, present in sorted(features.items()))
        has_round = features.get("sse4.1", False)
    else:
        level, name, flags = choice, choice, ""
        has_round = choice != "x86-64"
    wide = level == "x86-64-v4"
    return CpuTarget(
        name=name,
        features=flags,
        vector_bits={"x86-64": 128, "x86-64-v3": 256, "x86-64-v4": 512}[level],
        registers=32 if wide else 16,
        has_fma=level != "x86-64",
        has_round=has_round,
        has_scale=wide,
        has_half=level != "x86-64",
        l1_bytes=_cache_bytes("SC_LEVEL1_DCACHE_SIZE", 32 << 10),
        l2_bytes=_cache_bytes("SC_LEVEL2_CACHE_SIZE", 1 << 20),
        bypass_bytes=BYPASS_BYTES,
    )


def _generic(machine: str) -> CpuTarget:
    """A processor that is not x86: 128-bit vectors, which LLVM legalises as the processor needs."""
    features = _host_features()
    fused = machine in _FUSED_ELSEWHERE
    return CpuTarget(
        name=llvm.get_host_cpu_name(),
        features=",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items())),
        vector_bits=128,
        registers=32 if fused else 16,
        has_fma=fused,
        has_round=machine in ("aarch64", "arm64"),
        has_scale=False,
        has_half=machine in ("aarch64", "arm64"),
        l1_bytes=_cache_bytes("SC_LEVEL1_DCACHE_SIZE", 32 << 10),
        l2_bytes=_cache_bytes("SC_LEVEL2_CACHE_SIZE", 1 << 20),
    )


def _obstacle(choice: str) -> str:
    """Why this machine can't run `choice`; empty if it can."""
    if choice == "native":
        return ""
    machine = platform.machine().lower()
    if machine not in _X86:
        return f"an x86-64 processor, this one is {machine}"
    missing = _missing(choice, _host_features())
    return f"processor features that are missing here: {', '.join(missing)}" if missing else ""


def _missing(level: str, features: dict[str, bool]) -> tuple[str, ...]:
    return tuple(name for name in _NEEDS[level] if not features.get(name, False))


@functools.cache
def _host_features() -> dict[str, bool]:
    try:
        return dict(llvm.get_host_cpu_features())
    except RuntimeError:  # LLVM knows no way to ask on this system
        return {}


def _cache_bytes(setting: str, default: int) -> int:
    """A cache size by the system's configuration, or `default` where it does not say."""
    try:
        return os.sysconf(setting) or default
    except (AttributeError, ValueError, OSError):
        return default


# NVIDIA GPUs ------------------------------------------------------------------------------------------------------

_PTX_VERSIONS = {
    "sm_70": (6, 0), "sm_72": (6, 1), "sm_75": (6, 3), "sm_80": (7, 0), "sm_86": (7, 1), "sm_87": (7, 4),
    "sm_89": (7, 8), "sm_90": (7, 8), "sm_100": (8, 6),
}
"""The lowest PTX version that has each architecture, which LLVM picks when no feature asks for more."""
DEFAULT_SM = "sm_80"
PTX = "ptx"


@dataclass(frozen=True, slots=True)
class PtxTarget:
    """An NVIDIA architecture: `sm` is its name, `ptx` the version of the PTX that is written for it.

    Limits are those that every architecture here has: threads of a block, static shared bytes of a block, bytes of
    a kernel's parameters, blocks of a launch. As a target of scalar code it has fused multiply-adds and rounding to
    integral values, and no scaling by a power of two; conversions of f16 are written as integer arithmetic.
    """

    sm: str
    ptx: tuple[int, int]
    most_threads: int = 1024
    shared_bytes: int = 48 << 10
    parameter_bytes: int = 4096
    most_blocks: int = (1 << 31) - 1
    has_fma: bool = True
    has_round: bool = True
    has_scale: bool = False
    has_half: bool = False

    @property
    def capability(self) -> int:
        """The number in the name: 80 of sm_80."""
        return int(self.sm.removeprefix("sm_"))

    def __str__(self) -> str:
        return f"{PTX}:{self.sm}"


def known_architectures() -> tuple[str, ...]:
    """The names that `ptx_target` takes, oldest first."""
    return tuple(_PTX_VERSIONS)


def is_ptx(name: str) -> bool:
    """Whether a target is PTX, for whatever architecture: `ptx`, `ptx:sm_90`."""
    return name.partition(":")[0] == PTX


def ptx_target(name: str = PTX, sm: str | None = None) -> PtxTarget:
    """The target called `ptx` or `ptx:SM`; `sm` names the architecture where `name` does not.

    Raises TargetError for an architecture that is not known here, ArgumentError where two are named.
    """
    _, _, named = name.partition(":")
    if named and sm is not None and named != sm:
        raise ArgumentError(f"target {name} names an architecture, and sm={sm} another")
    chosen = named or sm or DEFAULT_SM
    if chosen not in _PTX_VERSIONS:
        raise TargetError(f"unknown GPU architecture {chosen!r}; known are {', '.join(_PTX_VERSIONS)}")
    return PtxTarget(chosen, _PTX_VERSIONS[chosen])
