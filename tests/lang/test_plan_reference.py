"""The NumPy reference of plans, on plans by hand: indices, choices, folds, memory under other shapes, bad plans."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tcp_eqsat.lang.ops  # noqa: F401  (fills the tables)
from tcp_eqsat.errors import ArgumentError, ShapeMismatch, VerificationError
from tcp_eqsat.lang.dims import Guard, symbol, symbols_of
from tcp_eqsat.lang.plan import Buffer, Definition, Kernel, Plan, Port, Role
from tcp_eqsat.lang.plan_reference import evaluate_definitions, evaluate_plan
from tcp_eqsat.lang.pointful import Apply, Choose, Fold, IndexRange, Literal, Operand, Position, axis_index
from tcp_eqsat.lang.scalar import literal, scalar_op_named
from tcp_eqsat.lang.types import F32, TensorType

B = symbol("b", 0, 100)
I, J = map(axis_index, range(2))  # noqa: E741  (the axes of an index space)
ADD, MULTIPLY = scalar_op_named("add"), scalar_op_named("multiply")


def plan_of(*definitions: Definition, x: TensorType, result: TensorType, buffer: TensorType | None = None) -> Plan:
    """One kernel that reads x and stores its last definition."""
    buffers = {"x": Buffer("x", x, Role.PARAMETER), "y": Buffer("y", buffer or definitions[-1].type, Role.RESULT)}
    kernel = Kernel("k0", definitions, ((definitions[-1].name, "y"),))
    return Plan("f", (Port("x", x, "x"),), (Port("y", result, "y"),), buffers, (kernel,), symbols_of(B))


def test_offsets_steps_and_reversed_axes() -> None:
    type_ = TensorType(F32, (3, B))
    turned = Definition("t", type_, Operand(0, (J, I.scaled(2) + 1), F32), ("x",))
    plan = plan_of(turned, x=TensorType(F32, (B, 7)), result=type_)
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    np.testing.assert_array_equal(evaluate_plan(plan, (x,))[0], x[:, 1::2].T)


def test_a_choice_reads_only_the_chosen_side() -> None:
    type_ = TensorType(F32, (B + 2,))
    padded = Definition("p", type_, Choose(
        (IndexRange(I, 1, B + 1),), Operand(0, (I + -1,), F32), Literal(literal(9, F32))), ("x",))
    plan = plan_of(padded, x=TensorType(F32, (B,)), result=type_)
    for b in (0, 1, 4):
        x = np.arange(b, dtype=np.float32)
        np.testing.assert_array_equal(evaluate_plan(plan, (x,))[0], np.pad(x, 1, constant_values=9))


def test_folds_sums_of_products_and_positions() -> None:
    x = TensorType(F32, (B, 4))
    column = TensorType(F32, (4,))
    product = Apply(MULTIPLY, (Operand(0, (J, I), F32), Operand(0, (J, I), F32)), F32)
    squares = Definition("s", column, Fold(ADD, (B,), 1, product, contraction=True), ("x",))
    shifted = Definition("y", column, Apply(ADD, (Operand(0, (I,), F32), Position(I, F32)), F32), ("s",))
    plan = plan_of(squares, shifted, x=x, result=column)
    for b in (0, 3):
        array = np.arange(4 * b, dtype=np.float32).reshape(b, 4)
        np.testing.assert_array_equal(evaluate_plan(plan, (array,))[0], (array * array).sum(0) + np.arange(4))


def test_a_sum_of_nothing_is_zero_even_of_infinities() -> None:
    total = Definition("s", TensorType(F32, (2,)), Fold(ADD, (B,), 1, Apply(
        MULTIPLY, (Operand(0, (J,), F32), Literal(literal(-np.inf, F32))), F32), contraction=True), ("x",))
    plan = plan_of(total, x=TensorType(F32, (B,)), result=TensorType(F32, (2,)))
    np.testing.assert_array_equal(evaluate_plan(plan, (np.zeros(0, np.float32),))[0], [0, 0])


def test_definitions_of_a_kernel_by_name() -> None:
    square = Definition("s", TensorType(F32, (3,)), Apply(
        MULTIPLY, (Operand(0, (I,), F32), Operand(0, (I,), F32)), F32), ("x",))
    kernel = Kernel("k0", (square,), (("s", "y"),))
    found = evaluate_definitions(kernel, {"x": np.array([1, 2, 3], np.float32)}, {})
    np.testing.assert_array_equal(found["s"], [1, 4, 9])


def test_results_and_aliases_are_memory_under_other_shapes() -> None:
    flat = TensorType(F32, (B * 2,))
    copy = Definition("c", flat, Operand(0, (I,), F32), ("flat",))
    plan = plan_of(copy, x=TensorType(F32, (B, 2)), result=TensorType(F32, (2, B)))
    plan.buffers["flat"] = Buffer("flat", flat, Role.PARAMETER, alias="x")
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(evaluate_plan(plan, (x,))[0], x.reshape(2, 3))


def test_reading_outside_memory_is_an_error() -> None:
    type_ = TensorType(F32, (B,))
    for index in (I + 1, I + -1):
        plan = plan_of(Definition("d", type_, Operand(0, (index,), F32), ("x",)), x=type_, result=type_)
        with pytest.raises(VerificationError, match="out of range"):
            evaluate_plan(plan, (np.zeros(3, np.float32),))
    longer = TensorType(F32, (B + 1,))
    plan = plan_of(Definition("d", longer, Operand(0, (I,), F32), ("x",)), x=type_, result=longer)
    with pytest.raises(VerificationError, match="read at 4 indices"):
        evaluate_plan(plan, (np.zeros(3, np.float32),))


def test_guards_and_the_number_of_arrays_are_checked() -> None:
    type_ = TensorType(F32, (B,))
    plan = plan_of(Definition("d", type_, Operand(0, (I,), F32), ("x",)), x=type_, result=type_)
    with pytest.raises(ArgumentError, match="requires 1 arrays, got 0"):
        evaluate_plan(plan, ())
    with pytest.raises(ShapeMismatch, match="requires b == 4"):
        evaluate_plan(replace(plan, guards=(Guard(B, 4),)), (np.zeros(3, np.float32),))
