"""The loop IR: its text and its verifier."""

from __future__ import annotations

import pytest

from tcp_eqsat.codegen.loops import (
    Access,
    Accumulator,
    Apply,
    Array,
    Constant,
    Each,
    Fold,
    For,
    How,
    If,
    IndexValue,
    Let,
    Load,
    Nest,
    Read,
    Statement,
    Store,
    Update,
    format_nest,
    verify_nest,
    walk_statements,
)
from tcp_eqsat.errors import VerificationError
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.pointful import ZERO, IndexRange, axis_index
from tcp_eqsat.lang.scalar import literal
from tcp_eqsat.lang.scalars.arithmetic import add, maximum
from tcp_eqsat.lang.scalars.exponential import exp
from tcp_eqsat.lang.types import F32, I64

B = symbol("b")
I, J, PLACE = axis_index(0), axis_index(1), axis_index(2)  # noqa: E741
X = Array("x", F32, B * 8, Access.READ)
Y = Array("y", F32, B * 8, Access.WRITE)
ROW = Array("row", F32, 32, Access.SCRATCH)
ELEMENT = Load("x", I.scaled(8) + J, F32)


def nest(*body: Statement) -> Nest:
    return Nest("k", (X, Y, ROW), body, "an example")


def example() -> Nest:
    sum_ = Read("sum1", F32)
    total = Fold((Accumulator("sum1", add, F32),), (
        For(1, 8, (Update("sum1", Apply(exp, (ELEMENT,), F32), fused=True),), How(unroll=4)),))
    store = For(1, 8, (
        Let("t1", Apply(add, (ELEMENT, sum_), F32)),
        Store("row", J + PLACE.scaled(8), Read("t1", F32)),
        Store("y", I.scaled(8) + J, Apply(maximum, (Read("t1", F32), Constant(literal(0.1, F32))), F32)),
    ), How(lanes=8))
    guarded = If((IndexRange(I, 1, B),), (Store("y", I.scaled(8), Constant(literal(1, F32))),))
    return nest(For(0, B, (total, store, Each(0, (guarded,))), How(copies=4, position=2, parallel=True)))


def test_text_of_a_nest() -> None:
    assert format_nest(example()) == """\
nest k(x: f32[8*b]) -> (y: f32[8*b]) scratch (row: f32[32])  # an example
  parallel for i < b copies 4:
    fold sum1 by add:
      for j < 8 unroll 4:
        sum1 <- exp(x[8*i + j])  (fused)
    for j < 8 vector 8:
      t1 = (x[8*i + j] + sum1)
      row[j + 8*i'] = t1
      y[8*i + j] = maximum(t1, 0.100000001)
    each i:
      if 1 <= i < b:
        y[8*i] = 1"""


def test_the_example_is_valid() -> None:
    verify_nest(example())
    assert sum(isinstance(s, Store) for s in walk_statements(example().body)) == 3


BROKEN = {
    "index 1 is used outside its loop": (For(0, B, (Store("y", I + J, ELEMENT),)),),
    "index 0 is bound twice": (For(0, B, (For(0, 8, ()),)),),
    "a vector loop stands in a vector loop": (For(0, B, (For(1, 8, (), How(lanes=4)),), How(lanes=4)),),
    "lanes, copies and unroll must be at least 1": (For(0, B, (), How(copies=0)),),
    "sum1 is updated outside its fold": (For(0, B, (Update("sum1", Constant(literal(0, F32))),)),),
    "t1 is defined twice": (Let("t1", Constant(literal(0, F32))), Let("t1", Constant(literal(1, F32)))),
    "t1 of f32 is read before it is defined": (Store("y", ZERO, Read("t1", F32)),),
    "x is not an array to write": (Store("x", ZERO, Constant(literal(0, F32))),),
    "y holds f32, not i64": (For(0, B, (Store("y", I, IndexValue(I, I64)),)),),
    "y is not an array of f32 to read": (For(0, B, (Store("y", I, Load("y", I, F32)),)),),
    "z is not an array of f32 to read": (For(0, B, (Store("y", I, Load("z", I, F32)),)),),
    "an accumulator of sum1 is declared twice": (
        Fold((Accumulator("sum1", add, F32),), ()), Fold((Accumulator("sum1", add, F32),), ())),
}


@pytest.mark.parametrize("fact", BROKEN)
def test_broken_nests_are_refused(fact: str) -> None:
    with pytest.raises(VerificationError, match=fact):
        verify_nest(nest(*BROKEN[fact]))


def test_names_end_with_the_body_that_defines_them() -> None:
    inner = For(0, B, (Let("t1", Constant(literal(0, F32))),))
    with pytest.raises(VerificationError, match="t1"):
        verify_nest(nest(inner, Store("y", ZERO, Read("t1", F32))))
