"""Arguments of public functions that can't be used: TcpError children that say what is required and what was given."""

from __future__ import annotations

import numpy as np
import pytest

import tcp_eqsat as tcp
from tcp_eqsat.errors import ArgumentError, ParseError, ShapeMismatch, TcpError, TypeMismatch, UnknownName

W = np.ones((4, 3), np.float32)
PROGRAM = tcp.trace(lambda x, w: x @ w + 1, tcp.spec("f32[b, 4]", b=(0, 64)), tcp.spec("f32[4, 3]"), name="dense")


@pytest.mark.parametrize("stage", [tcp.compile, tcp.optimize, tcp.reference, tcp.grad, tcp.vjp])
@pytest.mark.parametrize("given", [None, "tcp 1", {}])
def test_what_is_no_program(stage, given):
    with pytest.raises(ArgumentError, match=f"a Program is required, .*, got {type(given).__name__}"):
        stage(given)


@pytest.mark.parametrize("stage", [tcp.compile, tcp.optimize, tcp.reference])
def test_a_function_is_no_program(stage):
    with pytest.raises(ArgumentError, match=r"a Program is required, .*, got builtin_function_or_method"):
        stage(abs)


@pytest.mark.parametrize("stage", [tcp.compile, tcp.optimize])
@pytest.mark.parametrize(("options", "error", "message"), [
    ({"target": None}, ArgumentError, "target must be a str, got None"),
    ({"target": "gpu"}, UnknownName, "unknown target 'gpu'; known are cpu"),
    ({"numerics": None}, UnknownName, "unknown numerics None; known are exact, reassociate"),
    ({"numerics": 3}, UnknownName, "unknown numerics 3; known are exact"),
    ({"rules": "default"}, ArgumentError, "rules must be a RuleSet, got 'default'"),
    ({"rules": []}, ArgumentError, r"rules must be a RuleSet, got \[\]"),
    ({"budget": 3}, ArgumentError, "budget must be a Budget, got 3"),
    ({"constants": [W]}, ArgumentError, "constants must be a Mapping, got "),
    ({"constants": {"q": W}}, UnknownName, "dense has no parameter 'q'; its parameters are x, w"),
    ({"constants": {"w": None}}, TypeMismatch, r"argument 'w' must be f32\[4, 3\], got object"),
    ({"constants": {"w": W[:2]}}, ShapeMismatch, r"argument 'w' must be f32\[4, 3\], got f32\[2, 3\]"),
    ({"sizes": [3]}, ArgumentError, r"sizes must be a Mapping, got \[3\]"),
    ({"sizes": {"n": 3}}, ArgumentError, "dense has no size 'n'; it has b"),
    ({"sizes": {"b": "x"}}, ArgumentError, "a typical size of b must be an int of at least 0, got 'x'"),
    ({"sizes": {"b": -1}}, ArgumentError, "a typical size of b must be an int of at least 0, got -1"),
    ({"entry": "f"}, UnknownName, "no function 'f'; the program has dense"),
])
def test_options(stage, options, error, message):
    with pytest.raises(error, match=message):
        stage(PROGRAM, **options)


@pytest.mark.parametrize("limits", [{"seconds": 0}, {"nodes": "many"}, {"steps": None}, {"iterations": -1}])
def test_budgets(limits):
    (name, given), = limits.items()
    with pytest.raises(ArgumentError, match=f"budget {name} must be positive, got {given!r}"):
        tcp.Budget(**limits)


@pytest.mark.parametrize(("read", "given", "error", "message"), [
    (tcp.read, 3, ArgumentError, "a path is required, got int"),
    (tcp.read, None, ArgumentError, "a path is required, got NoneType"),
    (tcp.read, "a\0b", ArgumentError, "can't read 'a.x00b': embedded null byte"),
    (tcp.parse, None, ArgumentError, "a text is required, got NoneType"),
    (tcp.parse, b"tcp 1", ArgumentError, "a text is required, got bytes"),
    (tcp.parse, "", ParseError, "the text has no function"),
])
def test_reading(read, given, error, message):
    with pytest.raises(error, match=message):
        read(given)


def test_gradients_of_what_is_no_parameter():
    program = tcp.trace(lambda x: tcp.numpy.sum(x * x), tcp.spec("f32[n]"))
    for wrt in ("y", 3, ["x", None]):
        with pytest.raises(UnknownName, match=f"no parameter {'None' if isinstance(wrt, list) else repr(wrt)}"):
            tcp.grad(program, wrt)


# tcp.jit


@tcp.jit
def scaled(a, b):
    return tcp.numpy.exp(a) * b


ONES = np.ones(3, np.float32)


@pytest.mark.parametrize(("arguments", "keywords", "error", "message"), [
    ((ONES,), {}, ArgumentError, "scaled does not take 1 arguments: missing a required argument: 'b'"),
    ((ONES, ONES, ONES), {}, ArgumentError, "scaled does not take 3 arguments: too many positional arguments"),
    ((ONES,), {"q": ONES}, ArgumentError, "scaled: missing a required argument: 'b'"),
    ((ONES, ONES), {"q": ONES}, ArgumentError, "scaled: got an unexpected keyword argument 'q'"),
    ((ONES,), {"a": ONES}, ArgumentError, "scaled: multiple values for argument 'a'"),
    ((None, ONES), {}, TypeMismatch, "argument 'a' of scaled must be an array of our dtypes, got NoneType"),
    ((ONES, "text"), {}, TypeMismatch, "argument 'b' of scaled must be an array of our dtypes, got str"),
    ((ONES, [[1.0], [1.0, 2.0]]), {}, TypeMismatch, "argument 'b' of scaled must be an array of our dtypes, got list"),
    ((ONES, np.array([None])), {}, TypeMismatch, "argument 'b' of scaled must be an array of our dtypes, got object"),
    ((ONES, 1j), {}, TypeMismatch, "operands of dtypes f32, c128 don't mix"),
    ((ONES, ONES.astype("c8")), {}, TypeMismatch, "operands of dtypes f32, c64 don't mix"),
    ((ONES, ONES[:2]), {}, ShapeMismatch, r"don't broadcast.*; called with a: f32\[3\], b: f32\[2\]"),
    ((ONES.astype(np.int32), ONES), {}, TypeMismatch, "exp requires a floating-point dtype, got i32"),
])
def test_calls_of_jitted_functions(arguments, keywords, error, message):
    with pytest.raises(error, match=message):
        scaled(*arguments, **keywords)


def test_arguments_of_jitted_functions_by_name_and_as_lists():
    expected = np.exp(np.float32(1)) * np.arange(3, dtype=np.float32)
    b = np.arange(3, dtype=np.float32)
    for found in (scaled(ONES, b), scaled(b=b, a=ONES), scaled(ONES, b=b), scaled(ONES.astype(">f4"), b)):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert scaled([1.0, 1.0], 2.0).dtype == np.float64


def test_other_names_of_a_dtype_are_taken():
    assert tcp.jit(lambda x: x + 1)(np.zeros(2, np.longlong)).tolist() == [1, 1]


def test_byte_order_makes_no_variant():
    function = tcp.jit(lambda x: x + 1)
    for order in ("<f4", ">f4"):
        assert function(np.zeros(2, order)).tolist() == [1, 1]
    assert len(function.variants) == 1


def test_options_of_jit():
    with pytest.raises(ArgumentError, match=r"jit has no option 'speed'; it has .*numerics"):
        tcp.jit(lambda x: x, speed=3)
    with pytest.raises(ArgumentError, match="no parameter 'weights' to be static; its parameters are x"):
        tcp.jit(lambda x: x, static="weights")(ONES)
    assert tcp.jit(lambda x: x[0], static="x")(ONES) == 1
    assert tcp.jit(static=["x"])(lambda x: x[-1])(ONES) == 1


def test_every_refusal_is_a_tcp_error():
    for given in (3, None, "text"):
        with pytest.raises(TcpError):
            tcp.jit(given)(ONES)


# What people print


def test_what_is_printed():
    compiled = tcp.compile(PROGRAM)
    assert repr(compiled) == f"<compiled {PROGRAM}: 1 kernel>"
    assert str(PROGRAM) == "dense(x: f32[b, 4], w: f32[4, 3]) -> f32[b, 3]"
    signature, rewriting, kernels, seconds = str(compiled.report).split("\n")
    assert signature == str(PROGRAM)
    assert " e-nodes, saturated after " in rewriting and " -> 1 kernels; modelled cost " in kernels
    assert "saturate " in seconds and seconds.endswith(" ms")


def test_programs_are_written_and_read():
    for program in (PROGRAM, PROGRAM.main):
        assert tcp.parse(tcp.write(program)).main.results == PROGRAM.main.results


def test_the_reference_takes_arrays_by_name():
    call = tcp.reference(PROGRAM)
    x = np.ones((2, 4), np.float32)
    assert np.array_equal(call(x, W), call(w=W, x=x)) and np.array_equal(call(x, W), call(x, w=W))
    for arrays, named in (((x,), {"q": W}), ((x, W), {"x": x}), ((), {"x": x})):
        with pytest.raises(ArgumentError, match=r"dense requires .* by name, got [qx]"):
            call(*arrays, **named)
