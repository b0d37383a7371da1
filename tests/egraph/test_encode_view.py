"""Encoding and reading back: types, attributes, constants, numbering."""

import random
from dataclasses import dataclass

import numpy as np
import pytest
from egraph_programs import BINDINGS, PROGRAMS, arrays, disagreements, evaluate_classes, identical, program

from tcp_eqsat.egraph import ENode, StopReason, program_view, saturate
from tcp_eqsat.egraph.columns import Vocabulary
from tcp_eqsat.egraph.engine import Engine
from tcp_eqsat.lang.budget import Budget
from tcp_eqsat.lang.dims import maximum, minimum, symbol
from tcp_eqsat.lang.op import OPS, define_op
from tcp_eqsat.lang.ops import builders
from tcp_eqsat.lang.program import Function, Node, Region, TensorData
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import NOT_DIFFERENTIABLE, ScalarFunction, apply, literal, parameter, scalar_op_named
from tcp_eqsat.lang.scalars.conversion import conversion
from tcp_eqsat.lang.tiers import EXACT
from tcp_eqsat.lang.types import F32, F64, I32, TensorType

BUDGET = Budget(seconds=60)


def read_back(function):
    """The view of a function without any rule."""
    found = saturate(function, (), EXACT, BUDGET, strict=True)
    assert found.report.stop_reason is StopReason.SATURATED
    return found.view


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_value_comes_back_with_its_type_and_value(name):
    function = program(name)
    view = read_back(function)
    for node in function.nodes():
        assert view.types[view.original[node]] == node.type
    arguments = arrays(function, 1, nasty=True)
    values = evaluate_classes(view, arguments)
    for root, expected in zip(view.roots, evaluate(function, arguments), strict=True):
        assert identical(values[root], expected)
    assert not disagreements(view, arguments, identical)


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbering_is_the_same_again_and_acyclic(name):
    first, second = read_back(program(name)), read_back(program(name))
    assert first.classes == second.classes and first.roots == second.roots
    for number, members in enumerate(first.classes):
        assert any(all(x < number for x in node.operands) for node in members)
        assert not any(number in node.operands for node in members)


def test_symbolic_sizes_come_back_as_the_same_objects():
    b, h = symbol("b", 1, 512), symbol("h", 0, 4096, 8)
    for size in (b, 3, b * h + 2 * b + 7, h // 8, (b + 5) // 3, minimum(b, h), maximum(b * b, h - 1, 4), b + 1,
                 minimum(b, 2**63 + b)):
        x = builders.parameter("x", 0, TensorType(F32, (size, 2)))
        function = Function("f", (x,), (builders.transpose(x, (1, 0)),))
        view = read_back(function)
        assert view.types[view.roots[0]].shape == (2, size)
        (node,) = view.classes[view.roots[0]]
        assert node.attributes == function.results[0].attributes


def test_labels_with_absent_axes_come_back():
    x = builders.parameter("x", 0, TensorType(F32, (4, 1, 3)))
    y = builders.view(x, (2, -1, 0), (3, 5, 4))
    total = builders.reduce(scalar_op_named("maximum"), x, builders.ReduceAttributes(
        scalar_op_named("maximum"), (2, -1, 0), (3, 6, 4), 2))
    view = read_back(Function("f", (x,), (y, total)))
    assert [view.classes[n][0].attributes for n in view.roots] == [y.attributes, total.attributes]


def test_constants_keep_their_bits():
    values = [0.0, -0.0, np.nan, np.inf, 1e-310, 0.1]
    scalars = [builders.constant(np.array(v)) for v in values]
    table = builders.constant(np.array(values))
    view = read_back(Function("f", (), (*scalars, table)))
    assert len(set(view.roots)) == len(values) + 1
    for root, constant in zip(view.roots, (*scalars, table), strict=True):
        assert view.classes[root] == (ENode(constant.op, constant.attributes, ()),)


def test_a_splat_constant_is_a_view_of_a_scalar():
    function = Function("f", (), (builders.constant(np.full((2, 3), 0.25, np.float32)),))
    view = read_back(function)
    ((node,),) = [view.classes[root] for root in view.roots]
    assert node.op.name == "view" and node.attributes.labels == ()
    (scalar,) = view.classes[node.operands[0]]
    assert scalar.attributes.data == TensorData(np.array(0.25, np.float32))


def test_maps_are_taken_apart_and_folded():
    x, y = parameter(0, F64), parameter(1, F64)
    body = apply("add", apply("multiply", x, y), apply("multiply", literal(3, F64), literal(0.5, F64)))
    a, b = (builders.parameter(n, i, TensorType(F64, (2,))) for i, n in enumerate("ab"))
    result = builders.map_function(ScalarFunction((F64, F64), body), a, b)
    function = Function("f", (a, b), (result,))
    view = read_back(function)
    nodes = [node for members in view.classes for node in members]
    assert all(x.attributes.function.single_op for x in nodes if x.op.name == "map")
    constants = {float(x.attributes.data.array) for x in nodes if x.op.name == "constant"}
    assert constants == {3.0, 0.5, 1.5}
    assert view.original[result] == view.roots[0]


def test_folding_follows_the_reference():
    one, zero = (builders.scalar_constant(v, I32) for v in (1, 0))
    divided = builders.map_scalar(scalar_op_named("divide"), one, zero)
    nan = builders.map_scalar(scalar_op_named("log"), builders.splat(-1.0, F32, (3,)))
    wrapped = builders.map_scalar(conversion(F32), builders.splat(2**31 - 1, I32, (3,)))
    function = Function("f", (), (divided, nan, wrapped))
    view = read_back(function)
    for root, expected in zip(view.roots, evaluate(function, []), strict=True):
        scalars = [n for n in view.classes[root] if n.op.name in ("constant", "view")]
        assert scalars
        value = evaluate_classes(view, [])[root]
        assert identical(value, expected)
    assert not disagreements(view, [], identical)


def test_composites_are_expanded_and_keep_their_class():
    inner = builders.parameter("x", 0, TensorType(F32, (4,)))
    region = Region((inner,), (builders.map_scalar(scalar_op_named("exp"), inner), inner))
    x = builders.parameter("x", 0, TensorType(F32, (4,)))
    both = builders.composite("pair", region, x)
    first, second = builders.project(both, 0), builders.project(both, 1)
    view = read_back(Function("f", (x,), (first, second)))
    assert view.roots == (view.original[first], view.original[x])
    assert view.classes[view.roots[0]][0].attributes.function.single_op is scalar_op_named("exp")
    assert both not in view.original


def test_an_operation_without_columns_is_opaque():
    @dataclass(frozen=True)
    class Anything:
        payload: object

    reverse = define_op(
        "reverse_for_test", operands="x y", attributes=Anything, infer=lambda types, attributes: types[0],
        reference=lambda attributes, result, x, y: x[::-1] + y, pointful=lambda *a: None,
        derivative=NOT_DIFFERENTIABLE, doc="Reverse of one, plus another.")
    try:
        x, y = (builders.parameter(n, i, TensorType(F32, (4,))) for i, n in enumerate("xy"))
        node = Node.make(reverse, (x, y), Anything("a"))
        other = Node.make(reverse, (x, y), Anything("b"))
        view = read_back(Function("f", (x, y), (node, other)))
        assert [view.classes[n] for n in view.roots] == [
            (ENode(reverse, node.attributes, (0, 1)),), (ENode(reverse, other.attributes, (0, 1)),)]
        assert view.types[view.roots[0]] == node.type
    finally:
        del OPS["reverse_for_test"]


def test_integers_beyond_64_bits_are_kept():
    x = builders.parameter("x", 0, TensorType(F32, (7,)))
    first = builders.slice_(x, (2,), (7,), (2**64,))
    view = read_back(Function("f", (x,), (first,)))
    assert view.classes[view.roots[0]] == (ENode(first.op, first.attributes, (0,)),)
    assert view.types[view.roots[0]].shape == (1,)


def test_program_view_is_the_program():
    function = program("attention")
    view = program_view(function)
    assert all(len(members) == 1 for members in view.classes)
    arguments = arrays(function, 2)
    values = evaluate_classes(view, arguments)
    for root, expected in zip(view.roots, evaluate(function, arguments), strict=True):
        assert identical(values[root], expected)
    assert BINDINGS.keys() >= {x.name for x in function.symbols}


def test_names_in_a_command_stand_for_what_they_were_given():
    """egglog 13 took one of its own variables, made from `$v1`, for `$v11`."""
    engine, vocabulary, chance = Engine(), Vocabulary(), random.Random(1)
    engine.run(["(sort Numbers (Vec i64))"])
    names = [vocabulary.name(f"(vec-of {n})") for n in range(40)]
    engine.run(vocabulary.definitions())
    for width in range(2, 200):
        line = [chance.choice([1, 11, *range(0, 40, 7)]) for _ in range(width % 24 + 2)]
        engine.run([f"(relation line{width} ({'Numbers ' * len(line)}))",
                    f"(line{width} {' '.join(names[n] for n in line)})"])
        ((found, _),) = engine.freeze().rows(f"line{width}")
        assert [engine.integer(x) for column in found for x in engine.items(column)] == line
