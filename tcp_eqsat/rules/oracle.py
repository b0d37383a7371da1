"""Values to try on rules, and what it means that two results agree under a set of permissions."""

from __future__ import annotations

import enum
import functools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tcp_eqsat.lang.dims import evaluate
from tcp_eqsat.lang.float_format import float_limits
from tcp_eqsat.lang.narrow import convert_array, widened
from tcp_eqsat.lang.program import Node, walk
from tcp_eqsat.lang.reference import evaluate_nodes
from tcp_eqsat.lang.tiers import FINITE_ONLY, REASSOCIATION, Permissions
from tcp_eqsat.lang.types import F32, F64, DType, Kind, TensorType, dtype_of, integer_range, is_float_array
from tcp_eqsat.rules.condition import Fact


class Palette(enum.Enum):
    """Which values inputs are made of.

    SPECIAL   everything IEEE 754 has: NaN, infinities, zeros of both signs, subnormals, the largest, powers of two
    SUMMABLE  small integers, zeros, rarely infinities and NaN: all sums and products are exact in any order
    MODERATE  magnitudes of 1/8 to 4 of both signs, some zeros of both signs and small integers
    NAN       the same with some NaN
    HUGE      zeros and the largest finite numbers: sums of f32 products are exact in double precision, f32 overflows
    TINY      zeros and subnormals, likewise
    """

    SPECIAL = "special"
    SUMMABLE = "summable"
    MODERATE = "moderate"
    NAN = "nan"
    HUGE = "huge"
    TINY = "tiny"


def _float_choices(dtype: DType) -> tuple[float, ...]:
    limits = float_limits(dtype)
    tiny, least, largest = limits.least_normal, limits.least, limits.largest
    common = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0)
    return (*common, *common, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, -7.0, 0.1, 1e-3,
            least, -least, 3 * least, tiny, -tiny, tiny * 1.5, largest, -largest, largest / 2, largest / 3,
            float(np.sqrt(largest)), 100.25, -100.25)


FLOAT_EXAMPLES: np.ndarray = np.array(_float_choices(F64))
"""The special values, as f64."""


def draw(rng: random.Random, type_: TensorType, palette: Palette, bindings: Mapping[str, int]) -> np.ndarray:
    """A random array of a type."""
    shape = tuple(evaluate(size, bindings) for size in type_.shape)
    count, dtype = int(np.prod(shape)), type_.dtype
    source = np.random.default_rng(rng.getrandbits(64))
    if dtype.kind is Kind.BOOL:
        values = source.integers(0, 2, count)
    elif dtype.is_float:
        values = _draw_floats(source, count, palette, dtype)
    else:
        least, most = integer_range(dtype)
        values = source.integers(max(least, -4), min(most, 4), count, endpoint=True)
        if palette is Palette.SPECIAL:
            wide = np.int64 if dtype.is_signed else np.uint64
            extremes = np.array([least, most, most - 1, most // 2, 1, 0], wide)
            values = np.where(source.random(count) < 0.3, source.choice(extremes, count), values.astype(wide))
    return convert_array(values, dtype).reshape(shape)


def _draw_floats(source: np.random.Generator, count: int, palette: Palette, dtype: DType) -> np.ndarray:
    integers = source.integers(-3, 4, count).astype(np.float64)
    signs = source.choice([-1.0, 1.0], count)
    if palette in (Palette.HUGE, Palette.TINY):
        limits = float_limits(dtype)
        unit = limits.largest / 2 if palette is Palette.HUGE else limits.least
        return np.abs(integers % 3) * signs * unit
    if palette is Palette.SUMMABLE:
        special = source.choice([np.nan, np.inf, -np.inf, -0.0, -0.0, -0.0], count)
        rate = source.choice([0.0, 0.02, 0.2])
        return np.where(source.random(count) < rate, special, integers)
    spread = signs * np.exp2(source.uniform(-3, 2, count))
    if palette in (Palette.MODERATE, Palette.NAN):
        ordinary = np.where(source.random(count) < 0.15, signs * np.abs(integers), spread)
        rate = 0.15 if palette is Palette.NAN else 0.0
        return np.where(source.random(count) < rate, np.nan, ordinary)
    with np.errstate(all="ignore"):
        special = source.choice(np.array(_float_choices(dtype)), count)
        wide = signs * np.exp2(source.uniform(-40, 40, count))
        return np.choose(source.integers(0, 5, count), [special, special, special, spread, wide])


def admissible(array: np.ndarray, facts: Sequence[Fact], needs: Permissions) -> np.ndarray:
    """`array` with 1 in place of the elements that a fact or the permissions exclude."""
    one = np.ones((), array.dtype)
    with np.errstate(all="ignore"):
        if FINITE_ONLY in needs:
            array = np.where(np.isfinite(widened(array)), array, one)
        for fact in facts:
            array = np.where(fact.meaning(widened(array)), array, one)
    return np.asarray(array)


Disagreement = tuple[int, tuple[int, ...], np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Sides:
    """Both sides of a rule under one sample, over a parameter node for each tensor variable."""

    parameters: Mapping[str, Node]
    lefts: tuple[Node, ...]
    rights: tuple[Node, ...]

    @functools.cached_property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(walk((*self.lefts, *self.rights)))

    @functools.cached_property
    def sums(self) -> bool:
        """Whether something is added or multiplied along axes, so that the order of its rounding is free."""
        return any(
            x.op.name == "contract" or (x.op.name == "reduce" and x.attributes.operation.name in ("add", "multiply"))
            for x in self.nodes)

    @functools.cached_property
    def elementwise(self) -> bool:
        """Whether each element of the results depends on the same element of the inputs only."""
        return all(x.op.name in ("parameter", "map", "constant")
                   or (x.op.name == "view" and x.operands[0].op.name == "constant") for x in self.nodes)

    def evaluate(self, arrays: Mapping[str, np.ndarray], bindings: Mapping[str, int]) -> dict[Node, np.ndarray]:
        values = {self.parameters[name]: array for name, array in arrays.items()}
        return evaluate_nodes((*self.lefts, *self.rights), values, bindings)

    def disagreement(self, arrays: Mapping[str, np.ndarray], needs: Permissions, palette: Palette,
                     bindings: Mapping[str, int]) -> Disagreement | None:
        """The first root and index where the sides differ, with both values; None where they agree under `needs`."""
        values = self.evaluate(arrays, bindings)
        scale = 0.0
        if REASSOCIATION in needs or self.sums:
            with np.errstate(all="ignore"):
                scale = max((_magnitude(values[x]) for x in self.nodes), default=0.0)
        for number, (left, right) in enumerate(zip(self.lefts, self.rights, strict=True)):
            a, b = values[left], values[right]
            tolerance = self._tolerance(dtype_of(a.dtype), needs, palette)
            differ = ~_agree(a, b, None if tolerance is None else tolerance * scale)
            if FINITE_ONLY in needs:
                differ &= self._defined(values, a)
            if differ.any():
                at = tuple(int(i) for i in np.argwhere(differ)[0])
                return number, at, a, b
        return None

    def _tolerance(self, dtype: DType, needs: Permissions, palette: Palette) -> float | None:
        """Of the largest magnitude in either side; None means equal bits.

        Sums and products of these f32 values (and narrower ones) are exact in the reference's double precision but
        for one rounding in 2**29 that could show, so their bits don't depend on the order. Sums of f64 do.
        """
        if not dtype.is_float:
            return None
        if REASSOCIATION in needs:
            return 2.0**-38 if dtype == F64 else 2.0**-17 if dtype == F32 else 16 * float_limits(dtype).epsilon
        return 2.0**-44 if self.sums and dtype == F64 and palette is Palette.MODERATE else None

    def _defined(self, values: Mapping[Node, np.ndarray], result: np.ndarray) -> np.ndarray:
        """Where everything that the left side computes is finite."""
        defined = np.ones(result.shape, bool)
        for x in walk(self.lefts):
            good = np.isfinite(widened(values[x]))
            defined &= good if self.elementwise and good.shape == result.shape else bool(good.all())
        return defined


def _magnitude(array: np.ndarray) -> float:
    if not is_float_array(array):
        return 0.0
    array = widened(array)
    return float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array)))


def _agree(left: np.ndarray, right: np.ndarray, tolerance: float | None) -> np.ndarray:
    """Equal bits (any NaN for any NaN) without a tolerance; else equal in value, both NaN, or within it."""
    left, right = widened(left), widened(right)
    with np.errstate(all="ignore"):
        same = (left == right) | ((left != left) & (right != right))
        if left.dtype.kind == "f":
            if tolerance is None:
                same &= (np.signbit(left) == np.signbit(right)) | (left != left)
            else:
                same |= np.abs(left.astype(np.float64) - right.astype(np.float64)) <= tolerance
    return np.asarray(same)


def palettes(needs: Permissions, sides: Sides) -> tuple[Palette, ...]:
    """What to try a rule on that claims `needs`."""
    if not any(x.dtype.is_float for x in sides.nodes):
        return (Palette.SPECIAL, Palette.SPECIAL)
    if REASSOCIATION in needs:
        return (Palette.MODERATE, Palette.MODERATE, *(() if sides.sums else (Palette.NAN,)))
    if sides.sums:
        narrow = all(x.dtype.bits < 64 for x in sides.nodes if x.dtype.is_float)
        extremes = (Palette.HUGE, Palette.TINY) if narrow else ()
        return (Palette.SUMMABLE, Palette.SUMMABLE, Palette.MODERATE, *extremes)
    return (Palette.SPECIAL, Palette.SPECIAL, Palette.MODERATE)
