"""The regularised incomplete gamma functions. f32 is computed in f64.

P(a, x) = D * (1 + x / (a + 1) + x**2 / ((a + 1) (a + 2)) + ...) with D = x**a exp(-x) / gamma(a + 1), and
Q(a, x) = 1 - P = a D times a continued fraction. Both are slow near x = a for large a, where Temme's uniform expansion
(SIAM J. Math. Anal. 10, 1979; DLMF 8.12) is good: Q = erfc(eta * sqrt(a / 2)) / 2 + S.
"""

from __future__ import annotations

import math

from tcp_eqsat.codegen.vector_math.arithmetic import (
    MathBuilder,
    V,
    VectorFunction,
    first_that_holds,
    number,
    outlined,
    polynomial,
    through_double,
)
from tcp_eqsat.codegen.vector_math.error_function import erfc
from tcp_eqsat.codegen.vector_math.exponential import exp
from tcp_eqsat.codegen.vector_math.gamma import LARGE, STIRLING, digamma, lgamma
from tcp_eqsat.codegen.vector_math.logarithm import curvature, log
from tcp_eqsat.codegen.vector_math.power import pow

# Taylor coefficients in eta of Temme's functions c0, c1, ..., by his recurrence (benchmarks/expansions.py)
TEMME = (
    (
        -0.3333333333333333,
        0.08333333333333333,
        -0.014814814814814815,
        0.0011574074074074073,
        0.0003527336860670194,
        -0.0001787551440329218,
        3.919263178522438e-05,
        -2.185448510679992e-06,
        -1.85406221071516e-06,
        8.296711340953087e-07,
        -1.7665952736826078e-07,
        6.707853543401498e-09,
        1.0261809784240309e-08,
        -4.382036018453353e-09,
        9.14769958223679e-10,
        -2.5514193994946248e-11,
        -5.830772132550426e-11,
        2.4361948020667415e-11,
    ),
    (
        -0.001851851851851852,
        -0.003472222222222222,
        0.0026455026455026454,
        -0.0009902263374485596,
        0.00020576131687242798,
        -4.018775720164609e-07,
        -1.8098550334489977e-05,
        7.64916091608111e-06,
        -1.6120900894563446e-06,
        4.647127802807434e-09,
        1.378633446915721e-07,
        -5.752545603517705e-08,
        1.1951628599778148e-08,
        -1.7543241719747647e-11,
        -1.0091543710600413e-09,
        4.162792991842583e-10,
    ),
    (
        0.004133597883597883,
        -0.0026813271604938273,
        0.0007716049382716049,
        2.0093878600823047e-06,
        -0.0001073665322636516,
        5.2923448829120125e-05,
        -1.2760635188618728e-05,
        3.423578734096138e-08,
        1.3721957309062934e-06,
        -6.298992138380055e-07,
        1.4280614206064242e-07,
        -2.0477098421990866e-10,
        -1.409252991086752e-08,
        6.228974084922022e-09,
    ),
    (
        0.0006494341563786008,
        0.00022947209362139917,
        -0.0004691894943952557,
        0.00026772063206283885,
        -7.561801671883977e-05,
        -2.396505113867297e-07,
        1.1082654115347302e-05,
        -5.6749528269915965e-06,
        1.4230900732435883e-06,
        -2.7861080291528143e-11,
        -1.6958404091930278e-07,
        8.099464905388083e-08,
    ),
    (
        -0.0008618882909167117,
        0.0007840392217200666,
        -0.0002990724803031902,
        -1.4638452578843418e-06,
        6.641498215465122e-05,
        -3.968365047179435e-05,
        1.1375726970678419e-05,
        2.507497226237533e-10,
        -1.6954149536558305e-06,
        8.907507532205309e-07,
    ),
    (
        -0.00033679855336635813,
        -6.972813758365857e-05,
        0.0002772753244959392,
        -0.00019932570516188847,
        6.797780477937208e-05,
        1.419062920643967e-07,
        -1.3594048189768693e-05,
        8.018470256334202e-06,
    ),
    (
        0.0005313079364639922,
        -0.0005921664373536939,
        0.0002708782096718045,
        7.902353232660328e-07,
        -8.153969367561969e-05,
        5.61168275310625e-05,
    ),
    (
        0.00034436760689237765,
        5.171790908260592e-05,
        -0.00033493161081142234,
        0.0002812695154763237,
    ),
    (
        -0.0006526239185953094,
        0.0008394987206720873,
        -0.000438297098541721,
    ),
    (
        -0.0005967612901927463,
        -7.204895416020011e-05,
    ),
)
TEMME_FROM = 20.0
TEMME_WIDTH = 0.3
ITERATIONS = 1000
GRADIENT_ITERATIONS = 10_000
PRECISION = 2.0**-54


def _excess(b: MathBuilder[V], a: V, x: V) -> tuple[V, V]:
    """mu = (x - a) / a, and mu - log(1 + mu)."""
    mu = b.divide(b.subtract(x, a), a)
    near = b.compare("less", b.absolute(mu), number(b, a, 0.28))
    half_square, rest = curvature(b, b.select(near, mu, number(b, a, 0.0)))
    far = b.subtract(mu, log(b, b.divide(x, a)))
    return mu, b.select(near, b.subtract(half_square, rest), far)


@outlined
def _density(b: MathBuilder[V], a: V, x: V) -> V:
    """D = x**a exp(-x) / gamma(a + 1), for a > 0 and x > 0."""
    one = number(b, a, 1.0)
    root = exp(b, b.multiply(x, number(b, a, -0.5)))
    factorial = exp(b, lgamma(b, b.add(a, one)))
    small = b.divide(b.multiply(b.multiply(pow(b, x, a), root), root), factorial)
    vanishes = b.compare("greater", x, number(b, a, 1500.0))  # where x**a may be infinite
    small = b.select(vanishes, number(b, a, 0.0), small)
    _, excess = _excess(b, a, x)
    inverse = b.divide(one, a)
    series = b.multiply(inverse, polynomial(b, b.multiply(inverse, inverse), STIRLING))
    exponent = b.subtract(b.negate(b.multiply(a, excess)), series)
    large = b.divide(exp(b, exponent), b.sqrt(b.multiply(a, number(b, a, 2 * math.pi))))
    return b.select(b.compare("less", a, number(b, a, LARGE)), small, large)


def _series(b: MathBuilder[V], a: V, x: V) -> V:
    """P(a, x)."""
    one = number(b, a, 1.0)

    def step(n: V, term: V, total: V) -> tuple[V, V, V, V]:
        n = b.add(n, one)
        term = b.multiply(term, b.divide(x, n))
        total = b.add(total, term)
        return b.compare("greater", term, b.multiply(total, number(b, a, PRECISION))), n, term, total

    return b.multiply(b.iterate(ITERATIONS, step, a, one, one)[2], _density(b, a, x))


def _fraction(b: MathBuilder[V], a: V, x: V) -> V:
    """Q(a, x), by Lentz's method."""
    zero, one, two = (number(b, a, value) for value in (0.0, 1.0, 2.0))
    first = b.add(b.subtract(x, a), one)
    start = b.divide(one, first)

    def step(n: V, place: V, c: V, d: V, total: V) -> tuple[V, V, V, V, V, V]:
        n, place = b.add(n, one), b.add(place, two)
        numerator = b.multiply(n, b.subtract(a, n))
        d = b.divide(one, b.fma(numerator, d, place))
        c = b.add(place, b.divide(numerator, c))
        change = b.multiply(c, d)
        more = b.compare("greater", b.absolute(b.subtract(change, one)), number(b, a, 4 * PRECISION))
        return more, n, place, c, d, b.multiply(total, change)

    huge = number(b, a, 2.0**900)
    total = b.iterate(ITERATIONS, step, zero, first, huge, start, start)[4]
    return b.multiply(b.multiply(total, a), _density(b, a, x))


def _uniform(b: MathBuilder[V], a: V, x: V) -> V:
    """The smaller one of P and Q, which is P where x < a."""
    mu, excess = _excess(b, a, x)
    double = b.add(excess, excess)
    eta = b.copysign(b.sqrt(double), mu)
    inverse = b.divide(number(b, a, 1.0), a)
    total = polynomial(b, eta, TEMME[-1])
    for coefficients in reversed(TEMME[:-1]):
        total = b.fma(total, inverse, polynomial(b, eta, coefficients))
    exponent = b.multiply(a, excess)
    bell = b.divide(exp(b, b.negate(exponent)), b.sqrt(b.multiply(a, number(b, a, 2 * math.pi))))
    correction = b.multiply(bell, total)
    half_tail = b.multiply(erfc(b, b.sqrt(exponent)), number(b, a, 0.5))
    below = b.compare("less", mu, number(b, a, 0.0))
    return b.add(half_tail, b.select(below, b.negate(correction), correction))


def _either(b: MathBuilder[V], a: V, x: V, upper: bool) -> V:
    """Q if `upper`, else P."""
    zero, one, infinity = (number(b, a, value) for value in (0.0, 1.0, math.inf))

    def both(*conditions: V) -> V:
        first, *rest = conditions
        for each in rest:
            first = b.bitwise_and(first, each)
        return first

    def below(p: V, q: V) -> V:
        return b.compare("less", p, q)

    inside = both(below(zero, a), below(a, infinity), below(zero, x), below(x, infinity))
    width = b.multiply(a, number(b, a, TEMME_WIDTH))
    near = both(inside, b.compare("greater_equal", a, number(b, a, TEMME_FROM)),
                b.compare("less_equal", b.absolute(b.subtract(x, a)), width))
    elsewhere = both(inside, b.bitwise_not(near))
    lower = b.bitwise_or(b.compare("less_equal", x, one), b.compare("less_equal", x, a))
    by_series, by_fraction = both(elsewhere, lower), both(elsewhere, b.bitwise_not(lower))

    def where(condition: V, compute: VectorFunction, usual: tuple[float, float]) -> V:
        """`compute` in the lanes of the condition; the others compute with harmless operands."""

        def chosen() -> tuple[V]:
            safe = (b.select(condition, each, number(b, a, value)) for each, value in zip((a, x), usual, strict=True))
            return (compute(b, *safe),)

        return b.where_any(condition, chosen, (zero,))[0]

    tail = where(near, _uniform, (TEMME_FROM, TEMME_FROM))
    tail = b.add(tail, where(by_series, _series, (1.0, 0.5)))
    tail = b.add(tail, where(by_fraction, _fraction, (1.0, 20.0)))
    is_lower = b.bitwise_or(by_series, both(near, below(x, a)))
    other = b.bitwise_not(is_lower) if not upper else is_lower
    tail = b.minimum(tail, one)
    result = b.select(other, b.subtract(one, tail), tail)
    nothing, everything = (one, zero) if upper else (zero, one)
    ordered = both(b.compare("equal", a, a), b.compare("equal", x, x))
    wrong = b.bitwise_or(b.compare("less_equal", a, zero), below(x, zero))
    extreme = both(b.compare("equal", a, infinity), b.compare("equal", x, infinity))
    return first_that_holds(
        b,
        result,
        (b.bitwise_or(b.bitwise_or(b.bitwise_not(ordered), wrong), extreme), number(b, a, math.nan)),
        (b.bitwise_or(b.compare("equal", x, zero), b.compare("equal", a, infinity)), nothing),
        (b.compare("equal", x, infinity), everything),
    )


@outlined
def _igamma(b: MathBuilder[V], a: V, x: V) -> V:
    return _either(b, a, x, upper=False)


@outlined
def _igammac(b: MathBuilder[V], a: V, x: V) -> V:
    return _either(b, a, x, upper=True)


@outlined
def _igamma_grad_a(b: MathBuilder[V], a: V, x: V) -> V:
    zero, one = number(b, a, 0.0), number(b, a, 1.0)
    spread = b.fma(b.sqrt(a), number(b, a, 13.0), number(b, a, 60.0))
    positive = b.bitwise_and(b.compare("greater", a, zero), b.compare("less_equal", a, number(b, a, 1e5)))
    beyond = b.compare("greater", b.subtract(x, a), spread)
    inside = b.bitwise_and(b.compare("greater", x, zero), b.bitwise_not(beyond))
    usual = b.bitwise_and(positive, inside)
    order, at = b.select(usual, a, one), b.select(usual, x, one)
    slope = b.subtract(log(b, at), digamma(b, b.add(order, one)))

    def step(n: V, term: V, harmonic: V, total: V, more: V) -> tuple[V, V, V, V, V, V]:
        n = b.add(n, one)
        inverse = b.divide(one, n)
        term = b.multiply(term, b.multiply(at, inverse))
        harmonic = b.add(harmonic, inverse)
        change = b.multiply(term, b.subtract(slope, harmonic))
        total = b.add(total, change)
        size = b.maximum(b.absolute(total), one)
        falling = b.compare("greater", n, at)
        small = b.compare("less", b.absolute(change), b.multiply(size, number(b, a, PRECISION * 2.0**-10)))
        more = b.select(b.bitwise_and(falling, small), zero, one)
        return b.compare("not_equal", more, zero), n, term, harmonic, total, more

    found = b.iterate(GRADIENT_ITERATIONS, step, order, one, zero, slope, one)
    result = b.multiply(found[3], _density(b, order, at))
    result = b.select(b.compare("equal", found[4], zero), result, number(b, a, math.nan))
    ordered = b.compare("equal", x, x)
    edge = b.bitwise_or(b.compare("equal", x, zero), beyond)
    wrong = b.bitwise_or(b.bitwise_not(b.bitwise_and(positive, ordered)), b.compare("less", x, zero))
    return first_that_holds(b, result, (wrong, number(b, a, math.nan)), (edge, zero))


@through_double
def igamma(b: MathBuilder[V], a: V, x: V) -> V:
    """The lower regularised incomplete gamma function P(a, x)."""
    return _igamma(b, a, x)


@through_double
def igammac(b: MathBuilder[V], a: V, x: V) -> V:
    """The upper regularised incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    return _igammac(b, a, x)


@through_double
def igamma_grad_a(b: MathBuilder[V], a: V, x: V) -> V:
    """The derivative of P(a, x) in a, from the derivative of each term of its series; NaN for a beyond 100,000."""
    return _igamma_grad_a(b, a, x)


FUNCTIONS: dict[str, VectorFunction] = {"igamma": igamma, "igammac": igammac, "igamma_grad_a": igamma_grad_a}
