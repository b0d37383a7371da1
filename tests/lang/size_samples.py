"""Random sizes: trees that are built as sizes and evaluated as plain integers."""

import builtins
import operator

from hypothesis import strategies as st

from tcp_eqsat.lang.dims import Symbol, maximum, minimum, symbol

RANGES = {
    "a": (0, 20, 1),
    "b": (1, 9, 1),
    "c": (2, 5, 1),
    "h": (0, 48, 4),
    "k": (-6, 10, 1),
    "v": (8, 64, 8),
}
SYMBOLS = {name: symbol(name, *facts) for name, facts in RANGES.items()}

OPERATIONS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}


def trees(names=tuple(RANGES), operations=(*OPERATIONS, "min", "max"), leaves=6, largest=9):
    """Nested (operation, left, right) over names and integers."""
    leaf = st.one_of(st.sampled_from(names), st.integers(-largest, largest))
    extend = lambda children: st.tuples(st.sampled_from(operations), children, children)  # noqa: E731
    return st.recursive(leaf, extend, max_leaves=leaves)


def build(tree, symbols=SYMBOLS):
    """The tree as a size. Raises ShapeMismatch where it divides by a constant 0."""
    return _fold(tree, symbols, {"min": minimum, "max": maximum})


def compute(tree, bindings):
    """The tree's value by integer arithmetic. Raises ZeroDivisionError."""
    return _fold(tree, bindings, {"min": builtins.min, "max": builtins.max})


def _fold(tree, leaves, choices):
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return leaves[tree]
    operation, left, right = tree
    function = choices.get(operation) or OPERATIONS[operation]
    return function(_fold(left, leaves, choices), _fold(right, leaves, choices))


def values_of(fact: Symbol) -> range:
    first = -(-fact.lower // fact.divisor) * fact.divisor
    return range(first, fact.upper + 1, fact.divisor)


def bindings(ranges=RANGES):
    """Values of all symbols within their facts."""
    return st.fixed_dictionaries(
        {name: st.sampled_from(values_of(Symbol(name, *facts))) for name, facts in ranges.items()}
    )
