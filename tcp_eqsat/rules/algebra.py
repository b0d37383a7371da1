"""Arithmetic: neutral elements, signs, order of operations, distribution, division."""

from __future__ import annotations

from tcp_eqsat.lang.tiers import FINITE_ONLY, REASSOCIATION
from tcp_eqsat.rules.facts import (
    finite,
    is_float,
    is_integer,
    is_signed,
    nonnegative,
    nonzero,
    not_negative_zero,
    positive,
)
from tcp_eqsat.rules.functions import abs, maximum, minimum, negative, square
from tcp_eqsat.rules.maps import has_exact_reciprocal
from tcp_eqsat.rules.pattern import constant_variables, variables
from tcp_eqsat.rules.rule import Phase, RuleSet, rule

SIMPLIFY = Phase.SIMPLIFY

x, y, z = variables("x y z")
c, d = constant_variables("c d")

neutral = RuleSet((
    rule("multiply_by_one", x * 1, x, phase=SIMPLIFY, doc="Exact for NaN, infinities and both zeros."),
    rule("divide_by_one", x / 1, x, phase=SIMPLIFY, doc="Exact, integers included."),
    rule("subtract_zero", x - 0, x, phase=SIMPLIFY, doc="-0 - 0 is -0, so this is exact where x + 0 is not."),
    rule("add_negative_zero", x + -0.0, x, phase=SIMPLIFY,
         doc="-0 is the neutral element of a floating-point sum; for integers it is 0."),
    rule("add_zero_where_never_negative_zero", x + 0, x, when=not_negative_zero(x), phase=SIMPLIFY,
         doc="-0 + 0 is +0, so x must be known never to be -0."),
    rule("add_zero", x + 0, x, needs=REASSOCIATION, phase=SIMPLIFY,
         doc="The same where the sign of zero is free."),
    rule("multiply_by_zero_where_finite", x * 0, 0, when=finite(x) & nonnegative(x) & not_negative_zero(x),
         phase=SIMPLIFY, doc="NaN and infinity times 0 are NaN, a negative number times 0 is -0: none may occur."),
    rule("multiply_by_zero_of_integers", x * 0, 0, when=is_integer(x), phase=SIMPLIFY,
         doc="Integers have no exceptions."),
    rule("multiply_by_zero", x * 0, 0, needs=REASSOCIATION | FINITE_ONLY, phase=SIMPLIFY,
         doc="The same where values are finite and the sign of zero is free."),
    rule("subtract_self_where_finite", x - x, 0, when=finite(x), phase=SIMPLIFY,
         doc="+0 for every finite x; infinity minus infinity is NaN."),
    rule("subtract_self", x - x, 0, needs=FINITE_ONLY, phase=SIMPLIFY, doc="The same where values are finite."),
    rule("divide_self_where_finite", x / x, 1, when=finite(x) & nonzero(x), phase=SIMPLIFY,
         doc="1 for every finite x but zero."),
    rule("divide_self", x / x, 1, when=is_float(x), needs=FINITE_ONLY, phase=SIMPLIFY,
         doc="Where results are finite, x is neither zero nor infinite."),
))

signs = RuleSet((
    rule("negate_negation", negative(negative(x)), x, phase=SIMPLIFY,
         doc="Negation flips the sign bit; integers wrap."),
    rule("multiply_by_minus_one", x * -1, -x, phase=SIMPLIFY, doc="A sign flip is cheaper than a product."),
    rule("add_negation", x + -y, x - y, phase=SIMPLIFY, doc="IEEE 754 defines the difference so."),
    rule("subtract_as_add_negation", x - y, x + -y, doc="Lets rules about sums meet differences."),
    rule("negate_difference", -(x - y), y - x, needs=REASSOCIATION, phase=SIMPLIFY,
         doc="Only the sign of zero differs: -(1 - 1) is -0."),
    rule("multiply_negations", -x * -y, x * y, phase=SIMPLIFY, doc="The signs of a product cancel."),
    rule("divide_negations", -x / -y, x / y, when=is_float(x), phase=SIMPLIFY,
         doc="The signs of a quotient cancel; integer division overflows at the least value."),
    rule("negation_out_of_product", -x * y, -(x * y), bidirectional=True,
         doc="Moves a sign to where it cancels or is folded into a constant."),
    rule("negation_out_of_quotient", -x / y, -(x / y), when=is_float(x), bidirectional=True,
         doc="Moves a sign to where it cancels."),
    rule("absolute_of_absolute", abs(abs(x)), abs(x), phase=SIMPLIFY, doc="Idempotent."),
    rule("absolute_of_negation", abs(-x), abs(x), when=is_signed(x), phase=SIMPLIFY,
         doc="The sign does not matter; unsigned integers have none."),
    rule("absolute_where_nonnegative", abs(x), x, when=nonnegative(x) & not_negative_zero(x), phase=SIMPLIFY,
         doc="Nothing to do where x is never below zero and never -0."),
    rule("absolute_of_product", abs(x * y), abs(x) * abs(y), when=is_float(x),
         doc="Rounding is symmetric in the sign."),
    rule("absolute_of_square", abs(square(x)), square(x), when=is_float(x), phase=SIMPLIFY,
         doc="A square is never below zero; integers wrap."),
    rule("negate_maximum", -maximum(x, y), minimum(-x, -y), when=is_float(x), bidirectional=True,
         doc="Negation reverses the order, zeros of both signs included."),
))

order = RuleSet((
    rule("commute_add", x + y, y + x, doc="Lets other rules meet their operands in any order."),
    rule("commute_multiply", x * y, y * x, doc="Lets other rules meet their operands in any order."),
    rule("commute_maximum", maximum(x, y), maximum(y, x), doc="NaN and signed zeros included."),
    rule("commute_minimum", minimum(x, y), minimum(y, x), doc="NaN and signed zeros included."),
    rule("associate_maximum", maximum(maximum(x, y), z), maximum(x, maximum(y, z)), bidirectional=True,
         doc="Nothing is rounded, so every order is exact."),
    rule("associate_minimum", minimum(minimum(x, y), z), minimum(x, minimum(y, z)), bidirectional=True,
         doc="Nothing is rounded, so every order is exact."),
    rule("maximum_of_self", maximum(x, x), x, phase=SIMPLIFY, doc="Idempotent."),
    rule("minimum_of_self", minimum(x, x), x, phase=SIMPLIFY, doc="Idempotent."),
    rule("associate_add", (x + y) + z, x + (y + z), needs=REASSOCIATION, bidirectional=True,
         doc="Every bracketing of a sum."),
    rule("associate_multiply", (x * y) * z, x * (y * z), needs=REASSOCIATION, bidirectional=True,
         doc="Every bracketing of a product."),
    rule("gather_added_constants", (x + c) + d, x + (c + d), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="Constants fold before the program runs."),
    rule("gather_constant_factors", (x * c) * d, x * (c * d), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="Constants fold before the program runs."),
    rule("associate_add_of_integers", (x + y) + z, x + (y + z), when=is_integer(x), bidirectional=True,
         doc="Integers wrap, so every bracketing is exact."),
    rule("associate_multiply_of_integers", (x * y) * z, x * (y * z), when=is_integer(x), bidirectional=True,
         doc="Integers wrap, so every bracketing is exact."),
))

distribution = RuleSet((
    rule("double", x + x, 2 * x, bidirectional=True, doc="Doubling is exact, overflow included."),
    rule("square_as_product", square(x), x * x, bidirectional=True, doc="The definition of square."),
    rule("factor_out_of_sum", x * y + x * z, x * (y + z), needs=REASSOCIATION, doc="One product less."),
    rule("factor_out_of_difference", x * y - x * z, x * (y - z), needs=REASSOCIATION, doc="One product less."),
    rule("distribute_multiply_over_add", x * (y + z), x * y + x * z, needs=REASSOCIATION,
         doc="Exposes sums to contractions; what cancels in y + z is rounded first."),
    rule("distribute_multiply_over_subtract", x * (y - z), x * y - x * z, needs=REASSOCIATION,
         doc="Exposes differences; what cancels in y - z is rounded first, as in the one-pass variance."),
    rule("gather_multiples", x * c + x * d, x * (c + d), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="One product with a folded constant."),
    rule("scale_out_of_maximum", maximum(x * z, y * z), maximum(x, y) * z,
         when=positive(z) & finite(z) & is_float(z), bidirectional=True,
         doc="Rounding keeps the order, so a positive factor moves out of a maximum exactly."),
    rule("relu_of_scaled", maximum(x * c, 0), maximum(x, 0) * c, when=positive(c) & finite(c) & is_float(x),
         bidirectional=True, doc="A positive scale moves across a rectifier, to meet the next weights."),
))

division = RuleSet((
    rule("divide_by_power_of_two", x / c, x * (1 / c), when=has_exact_reciprocal(c), phase=SIMPLIFY,
         doc="The reciprocal is exact, so the product rounds as the quotient does."),
    rule("divide_by_constant", x / c, x * (1 / c), when=nonzero(c) & finite(c) & is_float(x), needs=REASSOCIATION,
         phase=SIMPLIFY, doc="The reciprocal folds; a product is much cheaper than a quotient."),
    rule("divide_as_multiply_by_reciprocal", x / y, x * (1 / y), when=is_float(x), needs=REASSOCIATION,
         doc="Lets a reciprocal be computed once and used many times."),
    rule("divide_quotient", (x / y) / z, x / (y * z), when=is_float(x), needs=REASSOCIATION, bidirectional=True,
         doc="One quotient instead of two."),
    rule("divide_by_quotient", x / (y / z), (x * z) / y, when=is_float(x), needs=REASSOCIATION,
         doc="One quotient instead of two."),
    rule("multiply_quotient", x * (y / z), (x * y) / z, when=is_float(x), needs=REASSOCIATION, bidirectional=True,
         doc="Moves a division to where it is done once."),
    rule("add_quotients", x / z + y / z, (x + y) / z, when=is_float(x), needs=REASSOCIATION | FINITE_ONLY,
         bidirectional=True, doc="One quotient instead of two; opposite infinities are left out."),
))

ALGEBRA = neutral + signs + order + distribution + division
