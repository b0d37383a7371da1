"""Error functions and what belongs to the gamma and Bessel functions."""

from __future__ import annotations

import math

from tcp_eqsat.lang.scalar import ScalarExpr, apply, literal
from tcp_eqsat.lang.scalars import special_references as references
from tcp_eqsat.lang.scalars.functions import elementwise, float_function

erf = float_function(
    "erf", elementwise(math.erf),
    lambda g, x: (g * apply("exp", -(x * x)) * (2 / math.sqrt(math.pi)),),
    "Error function; odd, -1 and 1 at the infinities.")
erfc = float_function(
    "erfc", elementwise(math.erfc),
    lambda g, x: (g * apply("exp", -(x * x)) * (-2 / math.sqrt(math.pi)),),
    "1 - erf(x), accurate in its tail; 2 at -inf, 0 at inf.")
erf_inv = float_function(
    "erf_inv", references.erf_inv,
    lambda g, x: (g * apply("exp", apply("square", apply("erf_inv", x))) * (math.sqrt(math.pi) / 2),),
    "The number whose erf is x; odd, infinite at 1 and -1, NaN beyond.")


# The gamma function and its derivatives

lgamma = float_function(
    "lgamma", references.lgamma, lambda g, x: (g * apply("digamma", x),),
    "log |gamma(x)|; infinite at 0, the negative integers and the infinities.")
digamma = float_function(
    "digamma", references.digamma, lambda g, x: (g * apply("polygamma", literal(1, x.dtype), x),),
    "The derivative of lgamma; NaN at 0 and the negative integers.")


def _derivative_of_zeta(g: ScalarExpr, s: ScalarExpr, q: ScalarExpr) -> tuple[ScalarExpr | None, ...]:
    return None, -(g * s * apply("zeta", s + 1, q))


zeta = float_function(
    "zeta", references.zeta, _derivative_of_zeta,
    "Hurwitz's zeta function, the sum of (q + k)**-s over k >= 0. Infinite for s = 1 and for q an integer below 1; NaN "
    "for s < 1, and where q < 0 and s is no integer. Its cotangent in s is none: s counts as constant.", "s q")


def _derivative_of_polygamma(g: ScalarExpr, n: ScalarExpr, x: ScalarExpr) -> tuple[ScalarExpr | None, ...]:
    return None, g * apply("polygamma", n + 1, x)


polygamma = float_function(
    "polygamma", references.polygamma, _derivative_of_polygamma,
    "The derivative of digamma of order n, which is constant; NaN where n is no integer from 0.", "n x")


# Modified Bessel functions


def _derivative_of_i1e(g: ScalarExpr, x: ScalarExpr) -> tuple[ScalarExpr]:
    """i0e(x) - i1e(x) * (sign(x) + 1 / x), with its limit 1/2 at 0."""
    zero, one = literal(0, x.dtype), literal(1, x.dtype)
    at_zero = apply("equal", x, zero)
    safe = apply("where", at_zero, one, x)
    slope = apply("bessel_i0e", x) - apply("bessel_i1e", x) * (apply("sign", x) + 1 / safe)
    return (g * apply("where", at_zero, literal(0.5, x.dtype), slope),)


bessel_i0e = float_function(
    "bessel_i0e", references.bessel_i0e,
    lambda g, x: (g * (apply("bessel_i1e", x) - apply("sign", x) * apply("bessel_i0e", x)),),
    "exp(-|x|) times the modified Bessel function of order 0; even.")
bessel_i1e = float_function(
    "bessel_i1e", references.bessel_i1e, _derivative_of_i1e,
    "exp(-|x|) times the modified Bessel function of order 1; odd.")


# Incomplete gamma functions


def _gamma_density(a: ScalarExpr, x: ScalarExpr) -> ScalarExpr:
    """x**(a - 1) * exp(-x) / gamma(a)."""
    return apply("exp", (a - 1) * apply("log", x) - x - apply("lgamma", a))


igamma = float_function(
    "igamma", references.igamma,
    lambda g, a, x: (g * apply("igamma_grad_a", a, x), g * _gamma_density(a, x)),
    "The lower regularised incomplete gamma function P(a, x); 0 at x = 0, NaN for a <= 0 and for x < 0.", "a x")
igammac = float_function(
    "igammac", references.igammac,
    lambda g, a, x: (-(g * apply("igamma_grad_a", a, x)), -(g * _gamma_density(a, x))),
    "The upper regularised incomplete gamma function 1 - P(a, x); 1 at x = 0, NaN for a <= 0 and for x < 0.", "a x")
igamma_grad_a = float_function(
    "igamma_grad_a", references.igamma_grad_a,
    lambda g, a, x: (None, g * _gamma_density(a, x) * (apply("log", x) - apply("digamma", a))),
    "The derivative of igamma in a; NaN for a <= 0, for x < 0 and for a beyond 100,000. Its own cotangent in a is "
    "none.", "a x")
