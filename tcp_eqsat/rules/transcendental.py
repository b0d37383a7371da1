"""Identities of exponentials, logarithms, roots, powers and the functions made of them.

Scalar functions round in their own way, so nearly all of these need reassociation. Odd and even functions are so
exactly.
"""

from __future__ import annotations

from tcp_eqsat.lang.tiers import FINITE_ONLY, REASSOCIATION
from tcp_eqsat.rules.facts import is_float, nonnegative, not_negative_zero
from tcp_eqsat.rules.functions import (
    abs,
    cos,
    erf,
    exp,
    exp2,
    expm1,
    log,
    log1p,
    log2,
    pow,
    rsqrt,
    sin,
    sqrt,
    square,
    tanh,
)
from tcp_eqsat.rules.pattern import variables
from tcp_eqsat.rules.rule import Phase, RuleSet, rule

SIMPLIFY = Phase.SIMPLIFY

x, y = variables("x y")

parity = RuleSet((
    rule("tanh_of_negation", tanh(-x), -tanh(x), bidirectional=True, doc="Odd, exactly."),
    rule("erf_of_negation", erf(-x), -erf(x), bidirectional=True, doc="Odd, exactly."),
    rule("sin_of_negation", sin(-x), -sin(x), bidirectional=True, doc="Odd, exactly."),
    rule("cos_of_negation", cos(-x), cos(x), phase=SIMPLIFY, doc="Even, exactly."),
    rule("square_of_negation", square(-x), square(x), phase=SIMPLIFY, doc="Even, exactly."),
    rule("square_of_absolute", square(abs(x)), square(x), phase=SIMPLIFY, doc="Even, exactly."),
    rule("cos_of_absolute", cos(abs(x)), cos(x), phase=SIMPLIFY, doc="Even, exactly."),
))

exponentials = RuleSet((
    rule("multiply_exponentials", exp(x) * exp(y), exp(x + y), needs=REASSOCIATION,
         doc="One exponential instead of two. Not the other way: a factor may overflow where the product does not."),
    rule("divide_exponentials", exp(x) / exp(y), exp(x - y), needs=REASSOCIATION,
         doc="One exponential instead of two and a quotient. Not the other way: the shift of a softmax guards it."),
    rule("reciprocal_of_exponential", 1 / exp(x), exp(-x), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="A sign instead of a quotient."),
    rule("square_of_exponential", square(exp(x)), exp(x + x), needs=REASSOCIATION,
         doc="Lets the doubling join other factors."),
    rule("logarithm_of_exponential", log(exp(x)), x, needs=REASSOCIATION, phase=SIMPLIFY,
         doc="Also undoes the overflow in between."),
    rule("exponential_of_logarithm", exp(log(x)), x, when=nonnegative(x), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="Below zero the logarithm is NaN."),
    rule("exp2_of_log2", exp2(log2(x)), x, when=nonnegative(x), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="Below zero the logarithm is NaN."),
    rule("log2_of_exp2", log2(exp2(x)), x, needs=REASSOCIATION, phase=SIMPLIFY,
         doc="Also undoes the overflow in between."),
    rule("expm1_hidden", exp(x) - 1, expm1(x), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="More accurate near 0 and one operation less."),
    rule("log1p_hidden", log(x + 1), log1p(x), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="More accurate near 0 and one operation less."),
    rule("logarithm_of_product", log(x * y), log(x) + log(y), when=nonnegative(x) & nonnegative(y), needs=REASSOCIATION,
         doc="Log-probabilities are added instead of multiplied."),
    rule("logarithm_of_quotient", log(x / y), log(x) - log(y),
         when=nonnegative(y) & not_negative_zero(y), needs=REASSOCIATION,
         doc="With log(exp(x)) = x it turns log(softmax) into a subtraction."),
    rule("logarithm_of_square_root", log(sqrt(x)), 0.5 * log(x), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="A product instead of a root."),
))

roots = RuleSet((
    rule("root_of_square", sqrt(square(x)), abs(x), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="Also undoes the overflow in between."),
    rule("square_of_root", square(sqrt(x)), x, when=nonnegative(x), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="Below zero the root is NaN."),
    rule("reciprocal_of_root", 1 / sqrt(x), rsqrt(x), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="One operation instead of two slow ones."),
    rule("divide_by_root", x / sqrt(y), x * rsqrt(y), needs=REASSOCIATION,
         doc="A product with one fast function; normalisations are written so."),
    rule("root_of_reciprocal", sqrt(1 / x), rsqrt(x), needs=REASSOCIATION | FINITE_ONLY, phase=SIMPLIFY,
         doc="One operation instead of two slow ones."),
    rule("reciprocal_of_rsqrt", 1 / rsqrt(x), sqrt(x), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="One operation instead of two."),
))

powers = RuleSet((
    rule("power_zero", pow(x, 0), 1, phase=SIMPLIFY, doc="1 for every x, NaN included."),
    rule("one_to_a_power", pow(1, x), 1, phase=SIMPLIFY, doc="1 for every x, NaN included."),
    rule("power_one", pow(x, 1), x, needs=REASSOCIATION, phase=SIMPLIFY, doc="No function call."),
    rule("power_two", pow(x, 2), square(x), needs=REASSOCIATION, phase=SIMPLIFY, doc="A product instead of pow."),
    rule("power_three", pow(x, 3), square(x) * x, needs=REASSOCIATION, phase=SIMPLIFY,
         doc="Products instead of pow; tanh forms of gelu are written so."),
    rule("power_minus_one", pow(x, -1), 1 / x, when=is_float(x), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="A quotient instead of pow. Of integers pow(0, -1) is 0 and 1 / 0 is not."),
    rule("power_half", pow(x, 0.5), sqrt(x), needs=REASSOCIATION | FINITE_ONLY, phase=SIMPLIFY,
         doc="At -infinity the power is +infinity, the root NaN."),
    rule("power_minus_half", pow(x, -0.5), rsqrt(x), needs=REASSOCIATION | FINITE_ONLY, phase=SIMPLIFY,
         doc="At -infinity the power is 0, the root NaN."),
))

TRANSCENDENTAL = parity + exponentials + roots + powers
