"""The text of sizes, which `size_text` reads back."""

from __future__ import annotations

from tcp_eqsat.lang.monomials import Monomial

IntegerTerms = tuple[tuple[int, Monomial], ...]
"""Coefficients and monomials, leading term first; not empty."""


def sum_text(terms: IntegerTerms) -> str:
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
        text = f"({atom.text})" if atom.loose else atom.text
        factors.append(text if exponent == 1 else f"{text}**{exponent}")
    return "*".join(factors)


def operand_text(terms: IntegerTerms, *, leading: bool) -> str:
    """The text of an operand of `//`, in brackets if needed; the left operand if `leading`."""
    text = sum_text(terms)
    ((coefficient, monomial), *others) = terms
    if others or coefficient < 0:
        return f"({text})"
    single = not monomial or (
        coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1 and not monomial[0][0].loose
    )
    return text if leading or single else f"({text})"
