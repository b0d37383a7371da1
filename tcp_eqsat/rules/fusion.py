"""Rules that change what a chain of operations computes, so that less of it is left: normalisations, activations."""

from __future__ import annotations

from tcp_eqsat.lang.tiers import REASSOCIATION
from tcp_eqsat.rules.facts import is_float, nonzero
from tcp_eqsat.rules.functions import exp, log, log1p, logistic, rsqrt, sqrt, tanh
from tcp_eqsat.rules.maps import compose, kept, take
from tcp_eqsat.rules.pattern import contract, int_variables, labels_variables, reduce, shape_variables, variables, view
from tcp_eqsat.rules.rule import Phase, RuleSet, rule

SIMPLIFY = Phase.SIMPLIFY

x, y, g = variables("x y g")
lhs, rhs, m = labels_variables("lhs rhs m")
e, s = shape_variables("e s")
(k,) = int_variables("k")

normalisation = RuleSet((
    rule("divide_by_broadcast", x / view(g, m, s), x * view(1 / g, m, s), when=is_float(x), needs=REASSOCIATION,
         doc="One quotient for each row instead of one for each element: softmax, normalisations."),
    rule("divide_by_broadcast_root", x / view(sqrt(g), m, s), x * view(rsqrt(g), m, s), needs=REASSOCIATION,
         doc="One fast function for each row instead of a quotient for each element."),
    rule("normalise_after_sum", reduce("add", x / view(g, m, s), lhs, e, k),
         reduce("add", x, lhs, e, k) / view(g, compose(lhs, m), take(e, k)),
         when=kept(compose(lhs, m), k) & nonzero(g) & is_float(x), needs=REASSOCIATION,
         doc="One quotient for each sum instead of one for each term."),
    rule("normalise_after_contract", contract(x / view(g, m, s), y, lhs, rhs, e, k),
         contract(x, y, lhs, rhs, e, k) / view(g, compose(lhs, m), take(e, k)),
         when=kept(compose(lhs, m), k) & nonzero(g) & is_float(x), needs=REASSOCIATION,
         doc="Attention divides by the sum of the weights after it has multiplied by the values."),
))

activations = RuleSet((
    rule("logistic_hidden_in_tanh", 0.5 * tanh(0.5 * x) + 0.5, logistic(x), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="The form in which some exporters write a sigmoid."),
    rule("logistic_hidden_in_tanh_product", 0.5 * (tanh(0.5 * x) + 1), logistic(x), needs=REASSOCIATION,
         phase=SIMPLIFY, doc="The same with the factor outside."),
    rule("logistic_hidden_in_exponential", 1 / (exp(-x) + 1), logistic(x), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="The textbook form, which overflows in between."),
    rule("logistic_hidden_in_quotient", exp(x) / (exp(x) + 1), logistic(x), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="The other textbook form; infinity / infinity disappears."),
    rule("logistic_hidden_in_shifted_tanh", 0.5 * (tanh(x) + 1), logistic(x + x), needs=REASSOCIATION,
         doc="Inside the tanh form of gelu."),
    rule("logarithm_of_logistic", log(logistic(x)), -log1p(exp(-x)), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="Does not lose its digits where the logistic function is near 1."),
    rule("tanh_as_logistic", 2 * logistic(x + x) - 1, tanh(x), needs=REASSOCIATION, phase=SIMPLIFY,
         doc="One function instead of a function and a scale."),
    rule("logistic_of_negation", logistic(-x), 1 - logistic(x), needs=REASSOCIATION, bidirectional=True,
         doc="Lets both halves of a gate share one function."),
))

FUSION = normalisation + activations
