"""Symbolic sizes as canonical polynomials.

A `Dim` is a sum of products of *atoms*: symbols, `floor(x / y)`, minima and maxima. Equal polynomials
are one object, so `==` and `hash` cost what they cost for any object, and every operation is
memoised. Inside, coefficients may be fractions: `h // 8` is `h / 8` where h is a multiple of 8, and
then `8 * (h // 8)` is h without further rules. Every term by itself is an integer for all values
of the symbols. A constant is always a plain int, never a Dim.

Division assumes divisors other than 0; evaluation reports one that is 0.
"""

from __future__ import annotations

import functools
import math
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from operator import index
from typing import Any, ClassVar, SupportsIndex, Union

from tcp_eqsat.errors import ArgumentError, LimitError, ShapeMismatch
from tcp_eqsat.lang import intervals
from tcp_eqsat.lang.intervals import Interval, Number

LARGEST = 2**31 - 1
"""The upper end of a symbol's range where none is given."""
MAX_TERMS = 1 << 14
"""Products with more terms than this raise LimitError."""
MAX_DEPTH = 32
"""Floors, minima and maxima nested deeper than this raise LimitError."""
_CACHE = 1 << 14
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")

_table: weakref.WeakValueDictionary[tuple[Any, ...], Any] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def _interned(key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """The one object of `key`. All atoms and dims are built through here."""
    found = _table.get(key)
    if found is None:
        with _lock:
            found = _table.get(key)
            if found is None:
                found = _table[key] = make()
    return found


class _Immutable:
    """Objects compared by identity, whose fields are set once, by their constructor."""

    __slots__ = ("__weakref__",)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; can't set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; can't delete {name}")

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


class Atom(_Immutable):
    """What a polynomial can't take apart. `key` orders atoms, the same way in every process."""

    __slots__ = ("depth", "interval", "key", "symbols", "text")
    key: tuple[Any, ...]
    text: str
    symbols: frozenset[Symbol]
    depth: int
    interval: Interval
    multiple: ClassVar[int] = 1
    """Every value of the atom is a multiple of this."""

    def value(self, bindings: Mapping[str, int]) -> int:
        """The value under `bindings`, which bind every symbol."""
        raise NotImplementedError

    def substitute(self, mapping: Mapping[str, Size]) -> Size:
        raise NotImplementedError

    def _describe(self, rank: int, text: str, operands: tuple[Size, ...], within: Interval) -> None:
        dims = [operand for operand in operands if isinstance(operand, Dim)]
        symbols = frozenset().union(*(dim.symbols for dim in dims))
        depth = 1 + max((dim.depth for dim in dims), default=0)
        if depth > MAX_DEPTH:
            raise LimitError(f"sizes nest at most {MAX_DEPTH} divisions, minima and maxima")
        facts = tuple(symbol.key for symbol in sorted(symbols, key=_key_of))
        self._set(
            key=(rank, text, facts), text=text, symbols=symbols, depth=depth, interval=within
        )

    def __str__(self) -> str:
        return self.text


class Symbol(Atom):
    """A size known at run time, an integer in `lower..upper` and a multiple of `divisor`.

    Raises ArgumentError for a malformed name or divisor, ShapeMismatch for an empty range.
    """

    __slots__ = ("divisor", "lower", "name", "upper")
    __match_args__ = ("name", "lower", "upper", "divisor")
    name: str
    lower: int
    upper: int
    divisor: int

    def __new__(
        cls, name: str, lower: int = 0, upper: int = LARGEST, divisor: int = 1
    ) -> Symbol:
        key = (cls, name, lower, upper, divisor)
        return _interned(key, lambda: cls._make(name, index(lower), index(upper), index(divisor)))

    @classmethod
    def _make(cls, name: str, lower: int, upper: int, divisor: int) -> Symbol:
        if not _NAME.match(name) or name in ("min", "max"):
            raise ArgumentError(f"a symbol's name is an identifier other than min, max; got {name!r}")
        if divisor < 1:
            raise ArgumentError(f"the divisor of {name} must be at least 1, got {divisor}")
        low, high = -(-lower // divisor) * divisor, upper // divisor * divisor
        if low > high:
            raise ShapeMismatch(
                f"no value is left for {name}: a multiple of {divisor} in [{lower}, {upper}]"
            )
        self = object.__new__(cls)
        self._set(name=name, lower=lower, upper=upper, divisor=divisor)
        self._set(key=(0, name, lower, upper, divisor), text=name, depth=0)
        self._set(symbols=frozenset((self,)), interval=(low, high))
        return self

    @property
    def multiple(self) -> int:  # type: ignore[override]
        return self.divisor

    def admits(self, value: int) -> bool:
        """Whether `value` is in the range and a multiple of the divisor."""
        return self.lower <= value <= self.upper and value % self.divisor == 0

    def requirement(self) -> str:
        """The range and divisor in words, for messages: 'b in [1, 512], b % 8 == 0'."""
        within = f"{self.name} in [{self.lower}, {self.upper}]"
        return within if self.divisor == 1 else f"{within}, {self.name} % {self.divisor} == 0"

    def value(self, bindings: Mapping[str, int]) -> int:
        return bindings[self.name]

    def substitute(self, mapping: Mapping[str, Size]) -> Size:
        found = mapping.get(self.name)
        return _of_atom(self) if found is None else found

    def __reduce__(self) -> Any:
        return Symbol, (self.name, self.lower, self.upper, self.divisor)

    def __repr__(self) -> str:
        return f"Symbol({self.name!r}, {self.lower}, {self.upper}, {self.divisor})"


class Floor(Atom):
    """floor(dividend / divisor)."""

    __slots__ = ("dividend", "divisor")
    __match_args__ = ("dividend", "divisor")
    dividend: Size
    divisor: Size

    def __new__(cls, dividend: Size, divisor: Size) -> Floor:
        return _interned((cls, dividend, divisor), lambda: cls._make(dividend, divisor))

    @classmethod
    def _make(cls, dividend: Size, divisor: Size) -> Floor:
        self = object.__new__(cls)
        self._set(dividend=dividend, divisor=divisor)
        text = f"{_factor_text(dividend, products=True)}//{_factor_text(divisor)}"
        within = intervals.floor_divide(bounds_of(dividend), bounds_of(divisor))
        self._describe(1, text, (dividend, divisor), within)
        return self

    def value(self, bindings: Mapping[str, int]) -> int:
        divisor = value_of(self.divisor, bindings)
        if divisor == 0:
            raise ShapeMismatch(f"{self.text} divides by {self.divisor}, which is 0 here")
        return value_of(self.dividend, bindings) // divisor

    def substitute(self, mapping: Mapping[str, Size]) -> Size:
        return floor_divide(substitute_in(self.dividend, mapping),
                            substitute_in(self.divisor, mapping))

    def __reduce__(self) -> Any:
        return Floor, (self.dividend, self.divisor)


class _Extremum(Atom):
    """What Minimum and Maximum share."""

    __slots__ = ("operands",)
    __match_args__ = ("operands",)
    operands: tuple[Size, ...]
    choose: ClassVar[Callable[..., int]]
    rank: ClassVar[int]

    def __new__(cls, operands: tuple[Size, ...]) -> Any:
        return _interned((cls, operands), lambda: cls._make(operands))

    @classmethod
    def _make(cls, operands: tuple[Size, ...]) -> Any:
        self = object.__new__(cls)
        self._set(operands=operands)
        ranges = [bounds_of(operand) for operand in operands]
        within = cls.choose(low for low, _ in ranges), cls.choose(high for _, high in ranges)
        text = f"{cls.choose.__name__}({', '.join(map(str, operands))})"
        self._describe(cls.rank, text, operands, within)
        return self

    def value(self, bindings: Mapping[str, int]) -> int:
        return type(self).choose(value_of(operand, bindings) for operand in self.operands)

    def substitute(self, mapping: Mapping[str, Size]) -> Size:
        return extremum(type(self), [substitute_in(each, mapping) for each in self.operands])

    def __reduce__(self) -> Any:
        return type(self), (self.operands,)


class Minimum(_Extremum):
    """The smallest of at least two operands."""

    __slots__ = ()
    choose = staticmethod(min)
    rank = 2


class Maximum(_Extremum):
    """The largest of at least two operands."""

    __slots__ = ()
    choose = staticmethod(max)
    rank = 3


Monomial = tuple[tuple[Atom, int], ...]
"""Atoms with their exponents (>= 1), ordered by `Atom.key`; `()` is the constant 1."""
Terms = Mapping[Monomial, Number]


class Dim(_Immutable):
    """A size that is not constant. Immutable, interned, made by operations only."""

    __slots__ = ("_bounds", "_parts", "_terms", "_text", "depth", "polynomial", "symbols")
    __array_ufunc__ = None
    polynomial: dict[Monomial, Number]
    """Coefficients by monomial, leading one first. Not to be changed."""
    symbols: frozenset[Symbol]
    depth: int

    @property
    def terms(self) -> tuple[tuple[int, Monomial], ...]:
        """(coefficient, atoms with exponents) of each term, leading term first, constant last.

        Coefficients are integers: the `h / 8` of an h divisible by 8 shows as `Floor(h, 8)`.
        """
        if self._terms is None:
            self._set(_terms=tuple(map(_integral_term, self.polynomial.items())))
        return self._terms

    def bounds(self) -> tuple[int, int]:
        """(lower, upper): every value is between them, ends included."""
        if self._bounds is None:
            self._set(_bounds=_bounds(self.polynomial))
        return self._bounds

    def value(self, bindings: Mapping[str, int]) -> int:
        """The value, of any sign, where `bindings` bind every symbol within its range."""
        total = 0
        for coefficient, monomial in self.terms:
            for atom, exponent in monomial:
                factor = atom.value(bindings)
                coefficient *= factor if exponent == 1 else factor**exponent
            total += coefficient
        return total

    def evaluate(self, bindings: Mapping[str, int]) -> int:
        """The size under `bindings`; see `evaluate` of this package's `dims`."""
        for symbol in self.symbols:
            bound = bindings.get(symbol.name)
            if bound is None or not symbol.admits(bound):
                raise ShapeMismatch(_unbound(self, bindings))
        result = self.value(bindings)
        if not 0 <= result <= INT64_MAX:
            fault = "it is negative" if result < 0 else "overflow of 64 bits"
            raise ShapeMismatch(
                f"size {self} must be in [0, 2**63), got {result} ({fault}) "
                f"with {_shown(self, bindings)}"
            )
        return result

    def substitute(self, mapping: Mapping[str, Size]) -> Size:
        """The size with symbols replaced by name, all at once."""
        if not any(symbol.name in mapping for symbol in self.symbols):
            return self
        total: Size = 0
        for coefficient, monomial in self.terms:
            term: Size = coefficient
            for atom, exponent in monomial:
                term = term * atom.substitute(mapping) ** exponent
            total = total + term
        return total

    def __add__(self, other: Size) -> Size:
        return add(self, other if type(other) in _SIZES else _size(other))

    __radd__ = __add__

    def __neg__(self) -> Size:
        return multiply(self, -1)

    def __pos__(self) -> Size:
        return self

    def __sub__(self, other: Size) -> Size:
        return subtract(self, other if type(other) in _SIZES else _size(other))

    def __rsub__(self, other: Size) -> Size:
        return subtract(_size(other), self)

    def __mul__(self, other: Size) -> Size:
        return multiply(self, other if type(other) in _SIZES else _size(other))

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Size:
        return power(self, index(exponent))

    def __floordiv__(self, other: Size) -> Size:
        return floor_divide(self, other if type(other) in _SIZES else _size(other))

    def __rfloordiv__(self, other: Size) -> Size:
        return floor_divide(_size(other), self)

    def __mod__(self, other: Size) -> Size:
        return remainder(self, other if type(other) in _SIZES else _size(other))

    def __rmod__(self, other: Size) -> Size:
        return remainder(_size(other), self)

    def __bool__(self) -> bool:
        raise TypeError(f"whether {self} is 0 is not known; ask equal() or less_equal()")

    def __str__(self) -> str:
        if self._text is None:
            self._set(_text=_sum_text(self.terms))
        return self._text

    def __repr__(self) -> str:
        return f"Dim({self})"

    def __reduce__(self) -> Any:
        return _rebuild, (tuple(self.polynomial.items()),)


INT64_MAX = 2**63 - 1
Size = Union[int, Dim]
_SIZES = frozenset((int, Dim))


def _size(value: Dim | SupportsIndex) -> Size:
    """`value` as a size; NumPy integers become plain ints. Raises TypeError."""
    return value if type(value) is Dim else index(value)  # type: ignore[return-value, arg-type]


def _key_of(atom: Atom) -> tuple[Any, ...]:
    return atom.key


# Building ---------------------------------------------------------------------------------------


@functools.lru_cache(_CACHE)
def _order(monomial: Monomial) -> tuple[Any, ...]:
    """Graded lexicographic order, leading monomial first; compatible with multiplication."""
    degree = sum(exponent for _, exponent in monomial)
    return -degree, tuple((atom.key, -exponent) for atom, exponent in monomial)


def _build(terms: Terms) -> Size:
    """The size with these terms, each of which is an integer for all values of the symbols."""
    kept = [
        (monomial, _plain(coefficient)) for monomial, coefficient in terms.items() if coefficient
    ]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]  # type: ignore[return-value]
    return _interned((Dim, frozenset(kept)), lambda: _make_dim(kept))


def _make_dim(kept: list[tuple[Monomial, Number]]) -> Dim:
    kept.sort(key=lambda term: _order(term[0]))
    atoms = [atom for monomial, _ in kept for atom, _ in monomial]
    self = object.__new__(Dim)
    self._set(polynomial=dict(kept), _terms=None, _bounds=None, _text=None)
    self._set(symbols=frozenset().union(*(atom.symbols for atom in atoms)))
    self._set(depth=max(atom.depth for atom in atoms))
    return self


def _rebuild(items: tuple[tuple[Monomial, Number], ...]) -> Size:
    return _build({tuple(sorted(m, key=lambda f: f[0].key)): c for m, c in items})


def _plain(value: Number) -> Number:
    return value.numerator if value.denominator == 1 else value


def symbol_dim(atom: Symbol) -> Dim:
    """The symbol as a size."""
    return _of_atom(atom)


def _of_atom(atom: Atom) -> Dim:
    return _build({((atom, 1),): 1})  # type: ignore[return-value]


def polynomial_of(size: Size) -> Terms:
    """Coefficients by monomial."""
    if isinstance(size, Dim):
        return size.polynomial
    return {(): size} if size else {}


def _integral_term(term: tuple[Monomial, Number]) -> tuple[int, Monomial]:
    monomial, coefficient = term
    if isinstance(coefficient, int):
        return coefficient, monomial
    whole = _build({monomial: 1})
    return coefficient.numerator, ((Floor(whole, coefficient.denominator), 1),)


def bounds_of(size: Size) -> tuple[int, int]:
    return size.bounds() if isinstance(size, Dim) else (size, size)


def value_of(size: Size, bindings: Mapping[str, int]) -> int:
    return size.value(bindings) if isinstance(size, Dim) else size


def substitute_in(size: Size, mapping: Mapping[str, Size]) -> Size:
    return size.substitute(mapping) if isinstance(size, Dim) else size


# Arithmetic -------------------------------------------------------------------------------------


@functools.lru_cache(_CACHE)
def add(x: Size, y: Size) -> Size:
    return _build(_combined(polynomial_of(x), 1, polynomial_of(y)))


@functools.lru_cache(_CACHE)
def subtract(x: Size, y: Size) -> Size:
    return _build(_combined(polynomial_of(x), -1, polynomial_of(y)))


def _combined(terms: Terms, factor: Number, others: Terms) -> dict[Monomial, Number]:
    """`terms + factor * others`."""
    result = dict(terms)
    for monomial, coefficient in others.items():
        result[monomial] = result.get(monomial, 0) + factor * coefficient
    return result


@functools.lru_cache(_CACHE)
def multiply(x: Size, y: Size) -> Size:
    return _build(_product(polynomial_of(x), polynomial_of(y)))


def _product(xs: Terms, ys: Terms) -> dict[Monomial, Number]:
    if len(xs) * len(ys) > MAX_TERMS:
        raise LimitError(f"a size has at most {MAX_TERMS} terms, a product needs {len(xs)} x {len(ys)}")
    result: dict[Monomial, Number] = {}
    for m, a in xs.items():
        for n, b in ys.items():
            monomial = _monomial_product(m, n)
            result[monomial] = result.get(monomial, 0) + a * b
    return result


@functools.lru_cache(_CACHE)
def _monomial_product(m: Monomial, n: Monomial) -> Monomial:
    if not m or not n:
        return m or n
    exponents = dict(m)
    for atom, exponent in n:
        exponents[atom] = exponents.get(atom, 0) + exponent
    return tuple(sorted(exponents.items(), key=lambda factor: factor[0].key))


def _monomial_quotient(m: Monomial, n: Monomial) -> Monomial | None:
    """`m / n` if it is a monomial."""
    exponents = dict(m)
    for atom, exponent in n:
        left = exponents.get(atom, 0) - exponent
        if left < 0:
            return None
        exponents[atom] = left
    return tuple((atom, exponent) for atom, exponent in exponents.items() if exponent)


def power(x: Size, exponent: int) -> Size:
    """`x ** exponent`; raises ArgumentError for a negative exponent."""
    if exponent < 0:
        raise ArgumentError(f"a size has no negative powers, got exponent {exponent}")
    result: Size = 1
    for _ in range(exponent):
        result = result * x
    return result


def remainder(x: Size, y: Size) -> Size:
    """`x - y * (x // y)`, of the sign of y."""
    return x - y * floor_divide(x, y)


@functools.lru_cache(_CACHE)
def _multiple(monomial: Monomial) -> int:
    """Every value of the monomial is a multiple of this."""
    return math.prod(atom.multiple**exponent for atom, exponent in monomial)


def content(terms: Terms) -> int:
    """The largest integer that provably divides every value; 0 for the size 0."""
    return math.gcd(*(int(c * _multiple(m)) for m, c in terms.items()))


@functools.lru_cache(_CACHE)
def exact_divide(x: Size, y: Size) -> Size | None:
    """The size q with `q * y == x`, or None where there is none or it can't be proved."""
    dividend, divisor = polynomial_of(x), polynomial_of(y)
    if not divisor:
        return None
    lead, scale = next(iter(divisor.items()))
    rest, quotient = dict(dividend), {}
    while rest:
        monomial = min(rest, key=_order)
        factor = _monomial_quotient(monomial, lead)
        if factor is None:
            return None
        ratio = _plain(Fraction(rest[monomial]) / scale)
        if (ratio * _multiple(factor)).denominator != 1:
            return None
        quotient[factor] = ratio
        rest = {
            m: c
            for m, c in _combined(rest, -1, _product({factor: ratio}, divisor)).items()
            if c
        }
    return _build(quotient)


@functools.lru_cache(_CACHE)
def floor_divide(x: Size, y: Size) -> Size:
    """`floor(x / y)`; raises ShapeMismatch for y = 0."""
    if isinstance(y, int):
        if y == 0:
            raise ShapeMismatch(f"division of {x} by 0")
        if isinstance(x, int):
            return x // y
        return _floor_by_constant(x, y) if y > 0 else _floor_by_constant(-x, -y)
    if x == 0:
        return 0
    if next(iter(y.polynomial.values())) < 0:
        return floor_divide(-x, -y)
    exact = exact_divide(x, y)
    return _floor_by_dim(x, y) if exact is None else exact


def _floor_by_constant(x: Size, divisor: int) -> Size:
    """Whole multiples go out term by term, then common factors, then what the range decides."""
    quotient, rest = _split(polynomial_of(x), divisor, ())
    scale = math.lcm(*(c.denominator for c in rest.values()))
    numerators = {m: int(c * scale) for m, c in rest.items()}
    constant = numerators.pop((), 0)
    divisor *= scale
    common = math.gcd(divisor, *(c * _multiple(m) for m, c in numerators.items()))
    """The variable part is a multiple of `common`, so the constant matters only up to that."""
    shared = math.gcd(common, *numerators.values())
    constant = constant // common * common
    dividend = _build({**{m: c // shared for m, c in numerators.items()}, (): constant // shared})
    return add(_build(quotient), _floor_atom(dividend, divisor // shared))


def _split(terms: Terms, divisor: Number, base: Monomial) -> tuple[dict, dict[Monomial, Number]]:
    """`terms` as `divisor * base * quotient + rest`, with the smallest coefficients >= 0 left."""
    quotient: dict[Monomial, Number] = {}
    rest: dict[Monomial, Number] = {}
    for monomial, coefficient in terms.items():
        factor = _monomial_quotient(monomial, base)
        if factor is None:
            rest[monomial] = coefficient
            continue
        unit = _multiple(factor)
        whole = Fraction(coefficient * unit // divisor, unit)
        quotient[factor] = _plain(whole)
        left = _plain(coefficient - whole * divisor)
        if left:
            rest[monomial] = left
    return quotient, rest


def _floor_by_dim(x: Size, y: Dim) -> Size:
    quotient: Terms = {}
    rest: Terms = polynomial_of(x)
    if len(y.polynomial) == 1:
        ((base, coefficient),) = y.polynomial.items()
        quotient, rest = _split(rest, coefficient, base)
    scale = math.lcm(*(c.denominator for c in (*rest.values(), *y.polynomial.values())))
    above = {m: int(c * scale) for m, c in rest.items()}
    below = {m: int(c * scale) for m, c in y.polynomial.items()}
    shared = math.gcd(*above.values(), *below.values())
    common = functools.reduce(_common_factor, (*above, *below))
    dividend, divisor = (
        _build({_monomial_quotient(m, common): c // shared for m, c in each.items()})  # type: ignore[misc]
        for each in (above, below)
    )
    last = _floor_atom(dividend, divisor) if type(divisor) is Dim else floor_divide(dividend, divisor)
    return add(_build(quotient), last)


def _common_factor(m: Monomial, n: Monomial) -> Monomial:
    others = dict(n)
    return tuple((atom, min(e, others[atom])) for atom, e in m if atom in others)


def _floor_atom(x: Size, y: Size) -> Size:
    """floor(x / y) of what can't be split further, y > 0 unless it is symbolic."""
    if isinstance(x, int) and isinstance(y, int):
        return x // y
    low, high = bounds_of(x)
    if isinstance(y, int):
        if low // y == high // y:
            return low // y
    elif low >= 0 and bounds_of(y - x)[0] >= 1:
        return 0
    nested = [
        (m, m[0][0])
        for m, c in polynomial_of(x).items()
        if c == 1 and len(m) == 1 and m[0][1] == 1 and isinstance(m[0][0], Floor)
    ]
    if len(nested) == 1 and bounds_of(y)[0] >= 0:
        monomial, inner = nested[0]
        others = _build({m: c for m, c in polynomial_of(x).items() if m != monomial})
        return floor_divide(inner.dividend + others * inner.divisor, y * inner.divisor)
    return _of_atom(Floor(x, y))


# Minima and maxima ------------------------------------------------------------------------------


def extremum(kind: type[_Extremum], sizes: Iterable[Size]) -> Size:
    """The minimum or maximum of sizes: flat, without repeats, without what can't be chosen."""
    operands: list[Size] = []
    for size in sizes:
        parts = size.polynomial if isinstance(size, Dim) else {}
        ((monomial, coefficient),) = parts.items() if len(parts) == 1 else [((), 0)]
        if coefficient == 1 and len(monomial) == 1 and type(monomial[0][0]) is kind \
                and monomial[0][1] == 1:
            operands.extend(monomial[0][0].operands)
        else:
            operands.append(size)
    return _extremum(kind, tuple(dict.fromkeys(operands)))


@functools.lru_cache(_CACHE)
def _extremum(kind: type[_Extremum], operands: tuple[Size, ...]) -> Size:
    smallest = kind is Minimum
    kept: list[Size] = []
    for operand in sorted(operands, key=_operand_order):
        if any(_beats(other, operand, smallest) for other in kept):
            continue
        kept = [other for other in kept if not _beats(operand, other, smallest)] + [operand]
    if len(kept) == 1:
        return kept[0]
    shift = _shared_part([polynomial_of(operand) for operand in kept])
    if shift:
        common = _build(shift)
        return add(common, extremum(kind, [operand - common for operand in kept]))
    coefficients = [c for each in kept for c in polynomial_of(each).values()]
    factor = math.gcd(*coefficients) if all(isinstance(c, int) for c in coefficients) else 1
    if factor > 1:
        return multiply(factor, extremum(kind, [floor_divide(each, factor) for each in kept]))
    return _of_atom(kind(tuple(kept)))


def _operand_order(operand: Size) -> tuple[Any, ...]:
    """Sums in the order of their text, constants last."""
    facts = tuple(sorted(symbol.key for symbol in symbols_in(operand)))
    return isinstance(operand, int), str(operand), facts


def symbols_in(size: Size) -> frozenset[Symbol]:
    return size.symbols if isinstance(size, Dim) else frozenset()


def _beats(x: Size, y: Size, smallest: bool) -> bool:
    """Whether y need not be looked at beside x."""
    low, high = bounds_of(y - x)
    return low >= 0 if smallest else high <= 0


def _shared_part(polynomials: list[Terms]) -> dict[Monomial, Number]:
    """The part of each term that all have: the smallest coefficient where the signs agree."""
    shared: dict[Monomial, Number] = {}
    for monomial in polynomials[0]:
        coefficients = [each.get(monomial, 0) for each in polynomials]
        if all(c > 0 for c in coefficients):
            shared[monomial] = min(coefficients)
        elif all(c < 0 for c in coefficients):
            shared[monomial] = max(coefficients)
    return shared


# Ranges -----------------------------------------------------------------------------------------


def _bounds(terms: Terms) -> tuple[int, int]:
    return intervals.integral(_range(terms))


def _range(terms: Terms) -> Interval:
    """An interval around every value: term by term, then by whatever ties the terms together."""
    result = _termwise(terms, {})
    if len(terms) == 1 or result[0] == result[1]:
        return result
    for tighten in (_range_without_floors, _range_from_ends, _range_by_operands):
        result = intervals.intersect(result, tighten(terms))
    return result


_EVERYTHING: Interval = (-math.inf, math.inf)  # type: ignore[assignment]


def _termwise(terms: Terms, ranges: Mapping[Atom, Interval]) -> Interval:
    low: Number = 0
    high: Number = 0
    for monomial, coefficient in terms.items():
        within: Interval = (1, 1)
        for atom, exponent in monomial:
            interval = ranges.get(atom, atom.interval)
            if exponent > 1:
                interval = intervals.power(interval, exponent)
            within = intervals.multiply(within, interval)
        within = intervals.scale(coefficient, within)
        low += within[0]
        high += within[1]
    return low, high


def _range_without_floors(terms: Terms) -> Interval:
    """floor(x / d) is x / d - e with e in [0, (d - 1) / d]: what cancels against x cancels."""
    exact: dict[Monomial, Number] = {}
    slack: Interval = (0, 0)
    for monomial, coefficient in terms.items():
        for place, (atom, exponent) in enumerate(monomial):
            if exponent == 1 and isinstance(atom, Floor) and isinstance(atom.divisor, int):
                cofactor = {monomial[:place] + monomial[place + 1 :]: coefficient}
                each = Fraction(1, atom.divisor)
                exact = _combined(exact, each, _product(cofactor, polynomial_of(atom.dividend)))
                lost = intervals.multiply(_termwise(cofactor, {}), (each - 1, 0))
                slack = intervals.add(slack, lost)
                break
        else:
            exact[monomial] = exact.get(monomial, 0) + coefficient
    if slack == (0, 0):
        return _EVERYTHING
    return intervals.add(_range({m: c for m, c in exact.items() if c}), slack)


def _range_from_ends(terms: Terms) -> Interval:
    """Symbols measured from an end of their range: `b*s - b` is `b*(s - 1)`, so >= 0 for s >= 1."""
    signs = {coefficient > 0 for monomial, coefficient in terms.items() if monomial}
    factors = [atom for monomial in terms for atom, _ in monomial if isinstance(atom, Symbol)]
    symbols = list(dict.fromkeys(factors))
    result = _EVERYTHING
    if len(signs) < 2 or len(symbols) == len(factors) or len(symbols) > MAX_SHIFTED:
        return result
    for from_above in ((), *((symbol,) for symbol in symbols), tuple(symbols)):
        result = intervals.intersect(result, _range_measured(terms, symbols, from_above))
    return result


MAX_SHIFTED = 6
"""Sizes over more symbols than this are bounded term by term only."""


def _range_measured(
    terms: Terms, symbols: Iterable[Symbol], from_above: tuple[Symbol, ...]
) -> Interval:
    distances: dict[Atom, Interval] = {}
    measured: dict[Atom, Terms] = {}
    for symbol in symbols:
        low, high = symbol.interval
        distances[symbol] = (0, high - low)
        above = symbol in from_above
        measured[symbol] = {(): high if above else low, ((symbol, 1),): -1 if above else 1}
    total: dict[Monomial, Number] = {}
    for monomial, coefficient in terms.items():
        product: Terms = {(): coefficient}
        for atom, exponent in monomial:
            for _ in range(exponent):
                product = _product(product, measured.get(atom) or {((atom, 1),): 1})
        total = _combined(total, 1, product)
    return _termwise(total, distances)


def _range_by_operands(terms: Terms) -> Interval:
    """A minimum or maximum is one of its operands, and no operand is beyond it."""
    chosen = [m[0][0] for m in terms if len(m) == 1 and m[0][1] == 1
              and isinstance(m[0][0], _Extremum)]
    if not 1 <= len(chosen) <= MAX_CHOSEN:
        return _EVERYTHING
    atom = chosen[0]
    coefficient = terms[((atom, 1),)]
    others = {m: c for m, c in terms.items() if m != ((atom, 1),)}
    ranges = [
        _range(_combined(others, coefficient, polynomial_of(operand))) for operand in atom.operands
    ]
    lows, highs = zip(*ranges, strict=True)
    if (coefficient > 0) == isinstance(atom, Minimum):
        return min(lows), min(highs)
    return max(lows), max(highs)


MAX_CHOSEN = 3
"""Sizes with more minima and maxima than this are bounded without looking into them."""


# Text -------------------------------------------------------------------------------------------


def _sum_text(terms: tuple[tuple[int, Monomial], ...]) -> str:
    """Positive terms first, so that `s - b` doesn't read `-b + s`."""
    ordered = sorted(terms, key=lambda term: term[0] < 0)
    (coefficient, monomial), *others = ordered
    sign = "-" if coefficient < 0 else ""
    pieces = [sign + _term_text(abs(coefficient), monomial, alone=not sign)]
    for coefficient, monomial in others:
        sign = " - " if coefficient < 0 else " + "
        pieces.append(sign + _term_text(abs(coefficient), monomial, alone=True))
    return "".join(pieces)


def _term_text(coefficient: int, monomial: Monomial, *, alone: bool) -> str:
    if not monomial:
        return str(coefficient)
    if alone and coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
        return monomial[0][0].text
    factors = [] if coefficient == 1 else [str(coefficient)]
    for atom, exponent in monomial:
        text = f"({atom.text})" if isinstance(atom, Floor) else atom.text
        factors.append(text if exponent == 1 else f"{text}**{exponent}")
    return "*".join(factors)


def _factor_text(size: Size, *, products: bool = False) -> str:
    """The text of an operand of `//`: in brackets unless it binds tighter."""
    if isinstance(size, int):
        return str(size) if size >= 0 else f"({size})"
    ((coefficient, monomial), *others) = size.terms
    whole = not others and coefficient > 0
    if whole and (products or (coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1
                               and not isinstance(monomial[0][0], Floor))):
        return str(size)
    return f"({size})"


def _shown(size: Dim, bindings: Mapping[str, int]) -> str:
    names = sorted({symbol.name for symbol in size.symbols} & bindings.keys())
    return ", ".join(f"{name} = {bindings[name]}" for name in names) or "nothing bound"


def _unbound(size: Dim, bindings: Mapping[str, int]) -> str:
    """Why `size` has no value: a symbol that is not bound, or bound outside its range."""
    found = _shown(size, bindings)
    for symbol in sorted(size.symbols, key=_key_of):
        bound = bindings.get(symbol.name)
        if bound is None:
            return f"size {size} requires a value of {symbol.name}; found {found}"
        if not symbol.admits(bound):
            return f"size {size} requires {symbol.requirement()}; found {found}"
    raise AssertionError("every symbol is bound within its range")
