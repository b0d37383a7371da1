"""Symbolic sizes against integer arithmetic, and the cases that shapes rely on."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from size_samples import RANGES, SYMBOLS, bindings, build, compute, trees

from tcp_eqsat.errors import (
    ArgumentError,
    LimitError,
    Location,
    ParseError,
    ShapeMismatch,
    TcpError,
    UnknownName,
)
from tcp_eqsat.lang.dims import (
    INT64_MAX,
    Dim,
    Floor,
    Guard,
    Symbol,
    bounds,
    divides,
    equal,
    evaluate,
    exact_divide,
    format_size,
    less_equal,
    maximum,
    minimum,
    parse_size,
    product,
    substitute,
    symbol,
    symbols_of,
    value,
)

b, h, p, s, t = map(symbol, "bhpst")
h8 = symbol("h8", 0, 4096, 8)
NAMED = {"b": b, "h": h, "p": p, "s": s, "t": t, "h8": h8}


def read(text):
    return parse_size(text, NAMED)


def sized(tree):
    """The size of a random tree; trees that divide by 0 or grow too long don't count."""
    try:
        return build(tree)
    except (ShapeMismatch, LimitError, ZeroDivisionError):
        assume(False)


def number(tree, bound):
    try:
        return compute(tree, bound)
    except ZeroDivisionError:
        assume(False)


# Properties -------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(trees(), bindings())
def test_value_is_that_of_integers(tree, bound):
    expected = number(tree, bound)
    size = sized(tree)
    assert value(size, bound) == expected
    low, high = bounds(size)
    assert low <= expected <= high


@given(trees(leaves=3), trees(leaves=3), trees(leaves=3))
def test_equal_polynomials_are_one_object(x, y, z):
    x, y, z = sized(x), sized(y), sized(z)
    assert x + y is y + x or type(x + y) is int
    assert (x + y) + z == x + (y + z)
    assert x * y == y * x
    assert (x * y) * z == x * (y * z)
    assert x * (y + z) == x * y + x * z
    assert x - x == 0
    assert -1 * -x == x
    assert (x + y) - y == x
    assert minimum(x, y, z) == minimum(z, minimum(y, x))
    assert maximum(x, y, z) == maximum(z, maximum(y, x))


@given(trees(leaves=4), st.integers(1, 12))
def test_floor_and_remainder(tree, c):
    x = sized(tree)
    assert c * (x // c) + x % c == x
    assert (x * c) // c == x
    assert (x + c) // c == x // c + 1
    assert x % 1 == 0
    assert x // -c == -x // c


@settings(max_examples=200)
@given(trees())
def test_text_is_read_back(tree):
    size = sized(tree)
    assert parse_size(format_size(size), SYMBOLS) is size or type(size) is int
    assert parse_size(format_size(size), SYMBOLS.__getitem__) == size


@given(trees())
def test_terms_are_integers_and_sum_up(tree):
    size = sized(tree)
    assume(isinstance(size, Dim))
    total = 0
    for coefficient, monomial in size.terms:
        assert type(coefficient) is int
        assert coefficient != 0
        term = coefficient
        for atom, exponent in monomial:
            text = atom.text if isinstance(atom, Symbol) else f"({atom.text})"
            term = term * parse_size(text, SYMBOLS) ** exponent
        total = total + term
    assert total is size


@given(trees(leaves=4), trees(leaves=4), bindings())
def test_what_is_proved_holds(x, y, bound):
    left, right = number(x, bound), number(y, bound)
    x, y = sized(x), sized(y)
    proved = less_equal(x, y)
    assert proved is None or proved == (left <= right)
    if equal(x, y):
        assert left == right
    if divides(x, y) and left != 0:
        assert right % left == 0


@given(trees(leaves=3), trees(leaves=3), trees(leaves=3))
def test_exact_division(x, y, z):
    x, y, z = sized(x), sized(y), sized(z)
    assume(y != 0)
    assert exact_divide(x * y, y) == x
    quotient = exact_divide(z, y)
    assert quotient is None or quotient * y == z


@given(
    trees(leaves=4), st.dictionaries(st.sampled_from(sorted(RANGES)), trees(leaves=3)), bindings()
)
def test_substitution_is_evaluation(tree, mapping, bound):
    inner = {name: number(each, bound) for name, each in mapping.items()}
    assume(all(Symbol(name, *RANGES[name]).admits(inner[name]) for name in inner))
    expected = number(tree, bound | inner)
    replaced = {name: sized(each) for name, each in mapping.items()}
    try:
        result = substitute(sized(tree), replaced)
    except (ShapeMismatch, LimitError):
        assume(False)
    assert value(result, bound) == expected


@given(trees())
def test_copies_are_the_same_object(tree):
    size = sized(tree)
    assert copy.deepcopy(size) == size
    assert pickle.loads(pickle.dumps(size)) == size


# What shapes rely on ----------------------------------------------------------------------------


def test_constants_are_ints():
    for size in (b - b, b // b, (b + 3) - b, 2 * (h8 // 2) - h8 + 4, (b * s) // (s * b), 0 * b):
        assert type(size) is int


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b", "b"),
        ("b*2 + 1", "2*b + 1"),
        ("s*b", "b*s"),
        ("-b + s", "s - b"),
        ("-b - 1", "-b - 1"),
        ("b*b", "b**2"),
        ("h//2", "h//2"),
        ("-(h//2)", "-(h//2)"),
        ("-h//2", "h//2 - h"),
        ("h%2", "h - 2*(h//2)"),
        ("h//2//3", "h//6"),
        ("((h + s)//2 + b)//3", "(2*b + h + s)//6"),
        ("h//s//p", "h//(p*s)"),
        ("h%2//4", "0"),
        ("(h + 1)//2 * b", "b*((h + 1)//2)"),
        ("(2*h + 5)//2", "h + 2"),
        ("(4*h + 2)//8", "h//2"),
        ("(6*h + 4)//9", "(2*h + 1)//3"),
        ("(b*16 + 3)//16", "b"),
        ("b*s//(2*s)", "b//2"),
        ("(b*s + p)//s", "b + p//s"),
        ("p//(s + 1)", "p//(s + 1)"),
        ("768*b//12", "64*b"),
        ("h8//8*8", "h8"),
        ("h8//16", "h8//16"),
        ("h8//8*3", "3*(h8//8)"),
        ("b*h8//8", "b*h8//8"),
        ("h8%4", "0"),
        ("h//2**31", "0"),
        ("min(b, s, b, 5)", "min(b, s, 5)"),
        ("min(b, b + 1)", "b"),
        ("min(2*b, 4*s)", "2*min(b, 2*s)"),
        ("min(b, min(s, 3)) + 1", "min(b, s, 3) + 1"),
        ("min(b + 1, s + 1)", "min(b, s) + 1"),
        ("max(b - 1, 0)", "max(b - 1, 0)"),
        ("max(b, -1)", "b"),
        ("min(max(s - p, 0), 2**31)", "max(s - p, 0)"),
        ("min(h8, 64)//8", "min(h8, 64)//8"),
        ("min(h8, 64)//8*8", "min(h8, 64)"),
    ],
)
def test_canonical_form(text, expected):
    assert format_size(read(text)) == expected
    assert read(expected) == read(text)


def test_ranges_follow_what_cancels():
    one = symbol("one", 1, 512)
    assert bounds(h % 2) == (0, 1)
    assert bounds((h + 3) % 8) == (0, 7)
    assert bounds(b - b // 2)[0] == 0
    assert less_equal(h // 2, h)
    assert less_equal(one, one * symbol("two", 1, 4))
    assert less_equal(s, one * s)
    assert less_equal(b, b * s) is None
    assert less_equal(one + 1, 1) is False
    assert less_equal(minimum(b, s), b)
    assert less_equal(b, maximum(b, s) + 1)
    assert less_equal(p, 16 * p - p * symbol("few", 0, 15))


def test_proofs_by_divisors():
    assert divides(8, h8)
    assert divides(4, h8 * b)
    assert divides(64, h8 * h8)
    assert not divides(16, h8)
    assert not divides(3, h8)
    assert divides(8, minimum(h8, 64))
    assert divides(s, b * s)
    assert not divides(s, b)
    assert divides(5, 0)
    assert not divides(0, 5)
    assert divides(0, 0)


def test_exact_division_cases():
    assert exact_divide(b * s, s) is b
    assert exact_divide(768 * b, 12) is 64 * b
    assert exact_divide(b * s + s, b + 1) is s
    assert exact_divide(b * b - s * s, b - s) is b + s
    assert exact_divide(b, 2) is None
    assert exact_divide(h8, 8) is h8 // 8
    assert exact_divide(b * s, 2 * s) is None
    assert exact_divide(b, 0) is None
    assert exact_divide(0, b) == 0
    assert exact_divide(7, 2) is None
    assert exact_divide(6, 2) == 3


def test_products():
    assert product([]) == 1
    assert product([2, b, 3, s]) is 6 * b * s
    assert product([2**40, 2**40, 0]) == 0
    assert product([2**40, b]) is 2**40 * b
    with pytest.raises(ShapeMismatch, match="overflow"):
        product([2**40, 2**40])


def test_facts_are_part_of_a_symbol():
    assert symbol("b") is b
    assert symbol("b", 0, 512) is not b
    assert symbols_of(b * s, 3, h // p) == tuple(Symbol(name) for name in "bhps")
    assert (b * s).symbols == {Symbol("b"), Symbol("s")}
    assert Symbol("b", 1, 9, 2).requirement() == "b in [1, 9], b % 2 == 0"
    assert [n for n in range(12) if Symbol("b", 1, 9, 2).admits(n)] == [2, 4, 6, 8]
    assert bounds(symbol("b", 1, 9, 2)) == (2, 8)


def test_numpy_integers_are_ints():
    assert b + np.int64(2) is b + 2
    assert np.int64(2) + b is b + 2
    assert np.int32(2) * b is 2 * b
    assert np.int64(7) - b is 7 - b
    assert np.int64(7) // b is 7 // b
    assert evaluate(b * s, {"b": 3, "s": 4}) == 12


def test_sizes_have_no_order_truth_or_number():
    for use in (bool, int, float, lambda x: x < 1, lambda x: x >= x, lambda x: min(x, 1)):
        with pytest.raises(TypeError):
            use(b)
    for operand in (1.5, "1", None):
        with pytest.raises(TypeError):
            b + operand
        with pytest.raises(TypeError):
            operand * b
    assert b != 1
    assert (b == "b") is False


def test_sizes_are_immutable():
    with pytest.raises(AttributeError, match="immutable"):
        b.depth = 3
    with pytest.raises(AttributeError, match="immutable"):
        Symbol("b").upper = 3
    with pytest.raises(AttributeError, match="immutable"):
        del Symbol("b").upper


def test_guard():
    guard = Guard(2 * (h // 2), h)
    assert guard.check({"h": 8})
    assert not guard.check({"h": 7})
    assert Guard(s - p, b).check({"s": 1, "p": 3, "b": -2})
    assert str(guard) == "2*(h//2) == h"
    with pytest.raises(ShapeMismatch, match="requires a value of h"):
        guard.check({})


def test_order_is_the_same_in_every_process():
    script = (
        "from tcp_eqsat.lang.dims import *\n"
        "x, y, z = (symbol(n) for n in 'xyz')\n"
        "size = (x + y * z + 3) * (x - z) // 7 + minimum(z, y, x // 2) * maximum(x, 3)\n"
        "print(size, symbols_of(size), [(c, [str(a) for a, _ in m]) for c, m in size.terms])\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


# Faults -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "bound", "message"),
    [
        (b * s, {"b": 3}, "b\\*s requires a value of s; found b = 3"),
        (b * s, {}, "requires a value of b; found nothing bound"),
        (s - p, {"s": 2, "p": 5}, "s - p must be in .*got -3 .*negative.*p = 5, s = 2"),
        (b * s * t, {"b": 2**30, "s": 2**30, "t": 8}, "overflow"),
        (symbol("w", 1, 8), {"w": 9}, "requires w in \\[1, 8\\]; found w = 9"),
        (h8, {"h8": 12}, "h8 % 8 == 0; found h8 = 12"),
        (b // s, {"b": 1, "s": 0}, "divides by s, which is 0"),
        (-1, {}, "got -1"),
        (INT64_MAX + 1, {}, "got 9223372036854775808"),
    ],
)
def test_sizes_that_have_no_value(size, bound, message):
    with pytest.raises(ShapeMismatch, match=message):
        evaluate(size, bound)


def test_malformed_symbols():
    for name in ("", "2d", "a-b", "min", "max", "a b", "?"):
        with pytest.raises(ArgumentError):
            symbol(name)
    with pytest.raises(ArgumentError, match="divisor"):
        symbol("b", divisor=0)
    with pytest.raises(ShapeMismatch, match="no value is left for b"):
        symbol("b", 5, 4)
    with pytest.raises(ShapeMismatch, match="a multiple of 8 in \\[1, 7\\]"):
        symbol("b", 1, 7, 8)


def test_division_by_zero():
    for use in (
        lambda: b // 0,
        lambda: b % 0,
        lambda: 7 // (b - b + s - s + 0 * t + b * 0 + b) // 0,
    ):
        with pytest.raises(ShapeMismatch, match="by 0"):
            use()


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "expected a number, a name or '\\(', got the end"),
        ("b +", 4, "got the end"),
        ("b s", 3, "expected an operator or the end, got 's'"),
        ("(b", 3, "expected '\\)'"),
        ("b)", 2, "got '\\)'"),
        ("b & s", 3, "has no '&'"),
        ("b // 0", 3, "division by 0"),
        ("b % (s - s)", 3, "division by 0"),
        ("b / 2", 3, "has no '/'"),
        ("min b", 5, "expected '\\('"),
        ("min()", 5, "expected a number"),
        ("min(b,)", 7, "expected a number"),
        ("2b", 2, "got 'b'"),
        ("b**s", 4, "expected a number"),
        ("b**65", 2, "exponents are at most 64"),
        ("9223372036854775808", 1, "a number below 2\\*\\*63"),
        ("1" * 5000, 1, "a number below 2\\*\\*63"),
        ("(" * 5000, 52, "at most 50 nested brackets"),
        ("b + é", 5, "has no 'é'"),
    ],
)
def test_malformed_text(text, column, message):
    with pytest.raises(ParseError, match=message) as caught:
        read(text)
    assert caught.value.where.column == column


def test_text_places_its_faults():
    with pytest.raises(UnknownName, match=r"names 'q'; known are b, h, h8, p, s, t") as caught:
        parse_size("b + q", NAMED, Location("f.tcp", 7, 11))
    assert str(caught.value).startswith("f.tcp:7:15: ")


@pytest.mark.parametrize(
    "text",
    [
        "*".join(["(b + h + p + s + t + 1)"] * 40),
        "(b + h + p + s + t)**64",
        "(" * 40 + "b" + "//s + 1)//p*2" * 40,
    ],
)
def test_texts_that_explode_are_refused(text):
    with pytest.raises(LimitError):
        read(text)


@settings(max_examples=300)
@given(st.text("bhs019+-*/%(),min ", max_size=24))
def test_any_text_is_a_size_or_a_placed_error(text):
    try:
        size = read(text)
    except TcpError as error:
        assert error.where is not None
    else:
        assert read(format_size(size)) == size


def test_nesting_is_limited():
    size = b
    with pytest.raises(LimitError, match="nest at most"):
        for _ in range(100):
            size = (2 * (size // s) + 1) // t


def test_atoms_show_themselves():
    ((_, ((atom, _),)),) = (h // 2).terms
    assert isinstance(atom, Floor)
    assert (atom.dividend, atom.divisor) == (h, 2)
    assert repr(atom) == "Floor(h//2)"
    assert repr(b + 1) == "Dim(b + 1)"
