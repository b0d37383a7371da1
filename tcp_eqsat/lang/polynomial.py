"""Symbolic sizes as canonical polynomials.

A `Dim` is a sum of products of *atoms*: symbols, `floor(x / y)`, minima and maxima. Equal
polynomials are one object, so `==` and `hash` cost what they cost for any object, and every
operation is memoised. Inside, coefficients may be fractions: `h // 8` is `h / 8` where h is a
multiple of 8, and then `8 * (h // 8)` is h without further rules. Every term by itself is an
integer for all values of the symbols. A constant is always a plain int, never a Dim.

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
from typing import Any, ClassVar, SupportsIndex

from tcp_eqsat.errors import ArgumentError, LimitError, ShapeMismatch
from tcp_eqsat.lang import intervals
from tcp_eqsat.lang.intervals import Interval, Number
from tcp_eqsat.lang.monomials import (
    CACHE,
    Atom,
    Immutable,
    Monomial,
    Terms,
    combine,
    common_factor,
    content,
    monomial_quotient,
    multiple_of,
    multiply_terms,
    order,
)
from tcp_eqsat.lang.ranges import range_of
from tcp_eqsat.lang.size_format import IntegerTerms, operand_text, sum_text

INT64_MAX = 2**63 - 1
"""The largest value of a size."""
LARGEST = 2**31 - 1
"""The upper end of a symbol's range where none is given."""
MAX_OPERANDS = 16
"""Sums of minima are taken apart into at most this many operands of another minimum."""
MAX_DEPTH = 32
"""Floors, minima and maxima nested deeper than this raise LimitError."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")

_table: weakref.WeakValueDictionary[tuple[Any, ...], Any] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def _interned(key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """The one object of `key`. All atoms and dims are built through here."""
    found = _table.get(key)
    if found is None:
        made = make()
        with _lock:
            found = _table.setdefault(key, made)
    return found


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

    def __new__(cls, name: str, lower: int = 0, upper: int = LARGEST, divisor: int = 1) -> Symbol:
        key = (cls, name, lower, upper, divisor)
        return _interned(key, lambda: cls._make(name, index(lower), index(upper), index(divisor)))

    @classmethod
    def _make(cls, name: str, lower: int, upper: int, divisor: int) -> Symbol:
        if not _NAME.match(name) or name in ("min", "max"):
            raise ArgumentError(f"a symbol is an identifier other than min and max, got {name!r}")
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
        self._set(symbols=frozenset((self,)), interval=(low, high), multiple=divisor)
        return self

    def admits(self, value: int) -> bool:
        """Whether `value` is in the range and a multiple of the divisor."""
        return self.lower <= value <= self.upper and value % self.divisor == 0

    def requirement(self) -> str:
        """The range and divisor in words, for messages: 'b in [1, 512], b % 8 == 0'."""
        within = f"{self.name} in [{self.lower}, {self.upper}]"
        return within if self.divisor == 1 else f"{within}, {self.name} % {self.divisor} == 0"

    def value(self, bindings: Mapping[str, int]) -> int:
        return index(bindings[self.name])

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
    loose = True
    dividend: Size
    divisor: Size

    def __new__(cls, dividend: Size, divisor: Size) -> Floor:
        return _interned((cls, dividend, divisor), lambda: cls._make(dividend, divisor))

    @classmethod
    def _make(cls, dividend: Size, divisor: Size) -> Floor:
        self = object.__new__(cls)
        self._set(dividend=dividend, divisor=divisor)
        above = operand_text(_integral_terms(dividend), leading=True)
        text = f"{above}//{operand_text(_integral_terms(divisor), leading=False)}"
        within = _floor_range(dividend, divisor)
        _describe(self, 1, text, (dividend, divisor), within, multiple=1)
        return self

    @property
    def estimate(self) -> tuple[Terms, Interval] | None:
        if not isinstance(self.divisor, int):
            return None
        share = Fraction(1, self.divisor)
        return combine({}, share, polynomial_of(self.dividend)), (share - 1, 0)

    def value(self, bindings: Mapping[str, int]) -> int:
        divisor = value_of(self.divisor, bindings)
        if divisor == 0:
            raise ShapeMismatch(f"{self.text} divides by {self.divisor}, which is 0 here")
        return value_of(self.dividend, bindings) // divisor

    def substitute(self, mapping: Mapping[str, Size]) -> Size:
        return floor_divide(
            substitute_in(self.dividend, mapping), substitute_in(self.divisor, mapping)
        )

    def __reduce__(self) -> Any:
        return Floor, (self.dividend, self.divisor)


class _Extremum(Atom):
    """What Minimum and Maximum share."""

    __slots__ = ("operands",)
    __match_args__ = ("operands",)
    operands: tuple[Size, ...]
    """In a fixed order, constants last."""
    choose: ClassVar[Callable[..., int]]
    rank: ClassVar[int]

    def __new__(cls, operands: tuple[Size, ...]) -> Any:
        return _interned((cls, operands), lambda: cls._make(operands))

    @classmethod
    def _make(cls, operands: tuple[Size, ...]) -> Any:
        self = object.__new__(cls)
        self._set(operands=operands)
        ranges = [bounds(operand) for operand in operands]
        within = cls.choose(low for low, _ in ranges), cls.choose(high for _, high in ranges)
        text = f"{cls.choose.__name__}({', '.join(map(str, operands))})"
        multiple = math.gcd(*(content(polynomial_of(operand)) for operand in operands))
        _describe(self, cls.rank, text, operands, within, multiple)
        return self

    @property
    def alternatives(self) -> tuple[Terms, ...]:
        return tuple(map(polynomial_of, self.operands))

    def value(self, bindings: Mapping[str, int]) -> int:
        return self.choose(value_of(operand, bindings) for operand in self.operands)

    def substitute(self, mapping: Mapping[str, Size]) -> Size:
        return _choose(self.smallest, [substitute_in(each, mapping) for each in self.operands])

    def __reduce__(self) -> Any:
        return type(self), (self.operands,)


class Minimum(_Extremum):
    """The smallest of at least two operands."""

    __slots__ = ()
    smallest = True
    choose = staticmethod(min)
    rank = 2


class Maximum(_Extremum):
    """The largest of at least two operands."""

    __slots__ = ()
    choose = staticmethod(max)
    rank = 3


class Dim(Immutable):
    """A size that is not constant. Immutable, interned, made by operations only."""

    __slots__ = ("_bounds", "_terms", "_text", "depth", "polynomial", "symbols")
    _bounds: tuple[int, int] | None
    _terms: IntegerTerms | None
    _text: str | None
    __array_ufunc__ = None
    polynomial: dict[Monomial, Number]
    """Coefficients by monomial, leading one first. Not to be changed."""
    symbols: frozenset[Symbol]
    depth: int

    @property
    def terms(self) -> IntegerTerms:
        """(coefficient, atoms with exponents) of each term, leading term first, constant last.

        Coefficients are integers: the `h / 8` of an h divisible by 8 shows as `Floor(h, 8)`.
        """
        terms = self._terms
        if terms is None:
            terms = tuple(map(_integral_term, self.polynomial.items()))
            self._set(_terms=terms)
        return terms

    def bounds(self) -> tuple[int, int]:
        """(lower, upper): every value is between them, ends included."""
        found = self._bounds
        if found is None:
            found = intervals.integral(range_of(self.polynomial))
            self._set(_bounds=found)
        return found

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
        """The value, in [0, 2**63); raises ShapeMismatch, see `dims.evaluate`."""
        for symbol in self.symbols:
            bound = bindings.get(symbol.name)
            if bound is None or not symbol.admits(bound):
                raise ShapeMismatch(_unbound(self, bindings))
        result = self.value(bindings)
        if not 0 <= result <= INT64_MAX:
            fault = "it is negative" if result < 0 else "overflow of 64 bits"
            found = f"{result} ({fault}) with {_shown(self, bindings)}"
            raise ShapeMismatch(f"size {self} must be in [0, 2**63), got {found}")
        return result

    def substitute(self, mapping: Mapping[str, Size]) -> Size:
        """The size with symbols replaced by name, all at once."""
        if not any(symbol.name in mapping for symbol in self.symbols):
            return self
        total: Size = 0
        for coefficient, monomial in self.terms:
            term: Size = coefficient
            for atom, exponent in monomial:
                factor = atom.substitute(mapping)
                term = term * (factor if exponent == 1 else factor**exponent)
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
        text = self._text
        if text is None:
            text = sum_text(self.terms)
            self._set(_text=text)
        return text

    def __repr__(self) -> str:
        return f"Dim({self})"

    def __reduce__(self) -> Any:
        return _rebuild, (tuple(self.polynomial.items()),)


Size = int | Dim
_SIZES = frozenset((int, Dim))


def _size(value: Dim | SupportsIndex) -> Size:
    """`value` as a size; NumPy integers become plain ints. Raises TypeError."""
    return value if type(value) is Dim else index(value)  # type: ignore[arg-type]


def _key_of(atom: Atom) -> tuple[Any, ...]:
    return atom.key


def _describe(
    atom: Atom,
    rank: int,
    text: str,
    operands: tuple[Size, ...],
    within: Interval,
    multiple: int,
) -> None:
    """Sets what every atom over operands has; raises LimitError if it nests too deep."""
    dims = [operand for operand in operands if isinstance(operand, Dim)]
    symbols = frozenset().union(*(dim.symbols for dim in dims))
    depth = 1 + max((dim.depth for dim in dims), default=0)
    if depth > MAX_DEPTH:
        raise LimitError(f"sizes nest at most {MAX_DEPTH} divisions, minima and maxima")
    facts = tuple(symbol.key for symbol in sorted(symbols, key=_key_of))
    atom._set(key=(rank, text, facts), text=text, symbols=symbols, depth=depth)
    atom._set(interval=within, multiple=multiple)


def size_of_terms(terms: Terms) -> Size:
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
    kept.sort(key=lambda term: order(term[0]))
    atoms = [atom for monomial, _ in kept for atom, _ in monomial]
    self = object.__new__(Dim)
    self._set(polynomial=dict(kept), _terms=None, _bounds=None, _text=None)
    self._set(symbols=frozenset().union(*(atom.symbols for atom in atoms)))
    self._set(depth=max(atom.depth for atom in atoms))
    return self


def _rebuild(items: tuple[tuple[Monomial, Number], ...]) -> Size:
    return size_of_terms({tuple(sorted(m, key=lambda f: f[0].key)): c for m, c in items})


def _plain(value: Number) -> Number:
    return value.numerator if value.denominator == 1 else value


def _ratio(x: Number, y: Number) -> Number:
    return x if y == 1 else _plain(Fraction(x) / y)


def symbol_dim(atom: Symbol) -> Dim:
    """The symbol as a size."""
    return _of_atom(atom)


def _of_atom(atom: Atom) -> Dim:
    return size_of_terms({((atom, 1),): 1})  # type: ignore[return-value]


def polynomial_of(size: Size) -> Terms:
    """Coefficients by monomial."""
    if isinstance(size, Dim):
        return size.polynomial
    return {(): size} if size else {}


def _integral_term(term: tuple[Monomial, Number]) -> tuple[int, Monomial]:
    monomial, coefficient = term
    if isinstance(coefficient, int):
        return coefficient, monomial
    whole = size_of_terms({monomial: 1})
    return coefficient.numerator, ((Floor(whole, coefficient.denominator), 1),)


def _integral_terms(size: Size) -> IntegerTerms:
    return size.terms if isinstance(size, Dim) else ((size, ()),)


def bounds(size: Size) -> tuple[int, int]:
    """(lower, upper): every value of the size is between them, ends included."""
    return size.bounds() if isinstance(size, Dim) else (size, size)


def value_of(size: Size, bindings: Mapping[str, int]) -> int:
    return size.value(bindings) if isinstance(size, Dim) else size


def substitute_in(size: Size, mapping: Mapping[str, Size]) -> Size:
    return size.substitute(mapping) if isinstance(size, Dim) else size


@functools.lru_cache(CACHE)
def add(x: Size, y: Size) -> Size:
    return size_of_terms(combine(polynomial_of(x), 1, polynomial_of(y)))


@functools.lru_cache(CACHE)
def subtract(x: Size, y: Size) -> Size:
    return size_of_terms(combine(polynomial_of(x), -1, polynomial_of(y)))


@functools.lru_cache(CACHE)
def multiply(x: Size, y: Size) -> Size:
    return size_of_terms(multiply_terms(polynomial_of(x), polynomial_of(y)))


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


@functools.lru_cache(CACHE)
def exact_divide(x: Size, y: Size) -> Size | None:
    """The size q with `q * y == x`, or None where there is none or it can't be proved."""
    dividend, divisor = polynomial_of(x), polynomial_of(y)
    if not divisor:
        return None
    lead, scale = next(iter(divisor.items()))
    rest, quotient = dict(dividend), {}
    while rest:
        monomial = min(rest, key=order)
        factor = monomial_quotient(monomial, lead)
        if factor is None:
            return None
        ratio = _ratio(rest[monomial], scale)
        if (ratio * multiple_of(factor)).denominator != 1:
            return None
        quotient[factor] = ratio
        rest = {
            m: c
            for m, c in combine(rest, -1, multiply_terms({factor: ratio}, divisor)).items()
            if c
        }
    return size_of_terms(quotient)


@functools.lru_cache(CACHE)
def floor_divide(x: Size, y: Size) -> Size:
    """`floor(x / y)`; raises ShapeMismatch for y = 0."""
    if isinstance(y, int):
        if y == 0:
            raise ShapeMismatch(f"division of {x} by 0")
        if isinstance(x, int):
            return x // y
        if y < 0:
            return floor_divide(-x, -y)
        low, high = (end // y for end in x.bounds())
        return low if low == high else _floor_by_constant(x, y)
    if x == 0:
        return 0
    if next(iter(y.polynomial.values())) < 0:
        return floor_divide(-x, -y)
    exact = exact_divide(x, y)
    return _floor_by_dim(x, y) if exact is None else exact


def _floor_by_constant(x: Size, divisor: int) -> Size:
    """Whole multiples go out term by term, then common factors, then what the range decides."""
    quotient, rest = _split(polynomial_of(x), divisor, ())
    constant = rest.pop((), 0)
    common = math.gcd(divisor, content(rest))
    dividend = size_of_terms({m: _ratio(c, common) for m, c in rest.items()})
    return add(
        size_of_terms(quotient), _floor_atom(dividend + constant // common, divisor // common)
    )


def _split(terms: Terms, divisor: Number, base: Monomial) -> tuple[dict, dict[Monomial, Number]]:
    """`terms` as `divisor * base * quotient + rest`, with the smallest coefficients >= 0 left."""
    quotient: dict[Monomial, Number] = {}
    rest: dict[Monomial, Number] = {}
    for monomial, coefficient in terms.items():
        factor = monomial_quotient(monomial, base)
        if factor is None:
            rest[monomial] = coefficient
            continue
        unit = multiple_of(factor)
        whole, left = divmod(coefficient * unit, divisor)
        quotient[factor] = _ratio(whole, unit)
        if left:
            rest[monomial] = _ratio(left, unit)
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
    common = functools.reduce(common_factor, (*above, *below))
    dividend, divisor = (
        size_of_terms({monomial_quotient(m, common): c // shared for m, c in each.items()})  # type: ignore[misc]
        for each in (above, below)
    )
    divide = _floor_atom if type(divisor) is Dim else floor_divide
    return add(size_of_terms(quotient), divide(dividend, divisor))


def _floor_range(x: Size, y: Size) -> Interval:
    return intervals.floor_divide(bounds(x), bounds(y), content(polynomial_of(y)))


def _floor_atom(x: Size, y: Size) -> Size:
    """floor(x / y) of what can't be split further, y > 0 unless it is symbolic."""
    if isinstance(x, int) and isinstance(y, int):
        return x // y
    low, high = _floor_range(x, y)
    if low == high:
        return int(low)
    if bounds(x)[0] >= 0 and bounds(y - x)[0] >= 1:
        return 0
    nested = [
        (m, m[0][0])
        for m, c in polynomial_of(x).items()
        if c == 1 and len(m) == 1 and m[0][1] == 1 and isinstance(m[0][0], Floor)
    ]
    if len(nested) == 1 and bounds(y)[0] >= 0:
        monomial, inner = nested[0]
        others = size_of_terms({m: c for m, c in polynomial_of(x).items() if m != monomial})
        return floor_divide(inner.dividend + others * inner.divisor, y * inner.divisor)
    scale = math.lcm(*(c.denominator for c in polynomial_of(x).values()))
    return _of_atom(Floor(x * scale, y * scale))


def minimum(*sizes: Size) -> Size:
    """The smallest of at least one size."""
    return _choose(True, sizes)


def maximum(*sizes: Size) -> Size:
    """The largest of at least one size."""
    return _choose(False, sizes)


def _choose(smallest: bool, sizes: Iterable[Size]) -> Size:
    """The minimum or maximum: flat, without repeats, without what can't be chosen."""
    operands = dict.fromkeys(each for size in sizes for each in _alternatives(smallest, size))
    return _choose_of(smallest, tuple(operands))


@functools.lru_cache(CACHE)
def _alternatives(smallest: bool, size: Size) -> tuple[Size, ...]:
    """Sizes whose minimum is `size`: a sum distributes over it, a negated maximum is one."""
    terms = polynomial_of(size)
    for monomial, coefficient in terms.items():
        if len(monomial) != 1 or monomial[0][1] != 1 or not isinstance(monomial[0][0], _Extremum):
            continue
        atom = monomial[0][0]
        if (atom.smallest == smallest) == (coefficient > 0):
            others = {m: c for m, c in terms.items() if m != monomial}
            found = tuple(
                each
                for operand in atom.operands
                for each in _alternatives(
                    smallest, size_of_terms(combine(others, coefficient, polynomial_of(operand)))
                )
            )
            return found if len(found) <= MAX_OPERANDS else (size,)
    return (size,)


def lone_atom(size: Size) -> Atom | None:
    """The atom that `size` is, if it is one."""
    if isinstance(size, Dim) and len(size.polynomial) == 1:
        ((monomial, coefficient),) = size.polynomial.items()
        if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
            return monomial[0][0]
    return None


@functools.lru_cache(CACHE)
def _choose_of(smallest: bool, operands: tuple[Size, ...]) -> Size:
    kind = Minimum if smallest else Maximum
    kept: list[Size] = []
    for operand in sorted(operands, key=_operand_order):
        if any(_beats(other, operand, smallest) for other in kept):
            continue
        kept = [other for other in kept if not _beats(operand, other, smallest)] + [operand]
    if len(kept) == 1:
        return kept[0]
    shift = _shared_part([polynomial_of(operand) for operand in kept])
    if shift:
        common = size_of_terms(shift)
        return add(common, _choose(smallest, [operand - common for operand in kept]))
    factor = _shared_factor([polynomial_of(operand) for operand in kept])
    reduced = [
        size_of_terms({m: c / factor for m, c in polynomial_of(operand).items()})
        for operand in kept
    ]
    reduced.sort(key=_operand_order)
    return size_of_terms({((kind(tuple(reduced)), 1),): factor})


def _shared_factor(polynomials: list[Terms]) -> Fraction:
    """The positive number that leaves integer coefficients without a common factor."""
    coefficients = [Fraction(c) for each in polynomials for c in each.values()]
    denominator = math.lcm(*(c.denominator for c in coefficients))
    return Fraction(math.gcd(*(int(c * denominator) for c in coefficients)), denominator)


def _operand_order(operand: Size) -> tuple[Any, ...]:
    """By leading terms, constants last."""
    terms = polynomial_of(operand).items()
    return isinstance(operand, int), tuple((order(m), c) for m, c in terms)


def symbols_in(size: Size) -> frozenset[Symbol]:
    return size.symbols if isinstance(size, Dim) else frozenset()


def _beats(x: Size, y: Size, smallest: bool) -> bool:
    """Whether y need not be looked at beside x."""
    low, high = bounds(y - x)
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
