"""Rewrite rules: how they are written, what they may claim, how they are checked, and the ones that ship.

    from tcp_eqsat.rules import REASSOCIATION, default, rule, variables
    from tcp_eqsat.rules.check import check
    from tcp_eqsat.rules.functions import exp

    x, y = variables("x y")
    mine = rule("join_exponentials", exp(x) * exp(y), exp(x + y), needs=REASSOCIATION, doc="One function, not two.")
    print(check(mine))
    rules = default + mine
"""

from __future__ import annotations

from tcp_eqsat.lang.tiers import APPROXIMATION, FINITE_ONLY, REASSOCIATION
from tcp_eqsat.rules.condition import ordered_originals
from tcp_eqsat.rules.files import load
from tcp_eqsat.rules.library import THEMES, default, everything, extra
from tcp_eqsat.rules.pattern import (
    concatenate,
    constant_variables,
    contract,
    full_like,
    int_variables,
    iota,
    labels_variables,
    monoid_variables,
    ones_like,
    pad,
    reduce,
    reshape,
    scalar_operation,
    shape_variables,
    size_variables,
    slice_,
    strides_variables,
    type_variables,
    variables,
    view,
    zeros_like,
)
from tcp_eqsat.rules.rule import Phase, Rule, RuleSet, rule

__all__ = [
    "APPROXIMATION", "FINITE_ONLY", "REASSOCIATION", "THEMES", "Phase", "Rule", "RuleSet",
    "concatenate", "constant_variables", "contract", "default", "everything", "extra", "full_like",
    "int_variables", "iota", "labels_variables", "load", "monoid_variables", "ones_like",
    "ordered_originals", "pad", "reduce", "reshape", "rule", "scalar_operation", "shape_variables",
    "size_variables", "slice_", "strides_variables", "type_variables", "variables", "view",
    "zeros_like",
]
