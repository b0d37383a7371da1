"""What egglog derives for every value: dtype, shape, and the bits of a value that is the same at every index.

Rules of ruleset `analyse` run to a fixed point after every round. Scalar operations on known constants are computed
by their NumPy references, in deferred tables. A value that is known is the view of a scalar and nothing else: how else
it could be computed is of no use, and would let rules build products with 0 for ever.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping

import numpy as np

from tcp_eqsat.egraph.columns import codec_of
from tcp_eqsat.egraph.deferred import DeferredTable
from tcp_eqsat.egraph.engine import quoted
from tcp_eqsat.egraph.schema import MAPS, constructors
from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.ops.movement import view_op
from tcp_eqsat.lang.ops.source import constant_op, parameter_op
from tcp_eqsat.lang.scalar import SCALAR_OPS, Number, encode_number, evaluate_op, scalar_op_named
from tcp_eqsat.lang.types import BOOL, DType, dtype_named

ANALYSE = "analyse"
"""The ruleset of all analyses."""

_TYPES = (
    "(= ?e (Scalar ?d ?b)) => (set (dtype ?e) ?d) (set (shape ?e) (vec-empty)) (set (splat ?e) ?b)",
    "(= ?e (Parameter ?n ?i ?d ?s)) => (set (dtype ?e) ?d) (set (shape ?e) ?s)",
    "(= ?e (Iota ?d ?s ?a)) => (set (dtype ?e) ?d) (set (shape ?e) ?s)",
    "(= ?e (View ?x ?l ?s)) (= ?d (dtype ?x)) => (set (dtype ?e) ?d) (set (shape ?e) ?s)",
    "(= ?e (Reshape ?x ?s)) (= ?d (dtype ?x)) => (set (dtype ?e) ?d) (set (shape ?e) ?s)",
    "(= ?e (Reduce ?x ?f ?l ?n ?r)) (= ?d (dtype ?x)) (= ?v (vec-range ?r)) "
    '(= ?s (unstable-vec-map (unstable-fn "vec-get" ?n) ?v)) => (set (dtype ?e) ?d) (set (shape ?e) ?s)',
    "(= ?e (Contract ?x ?y ?l ?m ?n ?r)) (= ?d (dtype ?x)) (= ?v (vec-range ?r)) "
    '(= ?s (unstable-vec-map (unstable-fn "vec-get" ?n) ?v)) => (set (dtype ?e) ?d) (set (shape ?e) ?s)',
)
_TYPE = ("(= ?d (dtype ?e)) (= ?s (shape ?e)) => (set (type ?e) (TypeOf ?d ?s))",)
_SPLATS = (
    "(= ?e (View ?x ?l ?s)) (= ?b (splat ?x)) => (set (splat ?e) ?b)",
    "(= ?e (Reshape ?x ?s)) (= ?b (splat ?x)) => (set (splat ?e) ?b)",
    "(= ?e (Slice ?x ?i ?j ?k)) (= ?b (splat ?x)) => (set (splat ?e) ?b)",
    "(= ?b (splat ?e)) (= ?d (dtype ?e)) (= ?s (shape ?e)) (= ?n (vec-length ?s)) (> ?n 0) "
    "=> (union ?e (View (Scalar ?d ?b) (vec-of 0) ?s))",
    "(= ?b (splat ?e)) (= ?d (dtype ?e)) (= ?s (shape ?e)) (= 0 (vec-length ?s)) => (union ?e (Scalar ?d ?b))",
)


def _forget_rules() -> list[str]:
    """Known values lose every e-node but views, scalars and constants of the program."""
    rules = []
    for constructor in constructors().values():
        if constructor.op not in (view_op, constant_op, parameter_op):
            names = [f"?c{n}" for n in range(len(constructor.columns))]
            term = f"({constructor.name} {' '.join(names)})"
            rules.append(f"(= ?e {term}) (= ?b (splat ?e)) => (subsume {term})")
    return rules


def _map_rules(arity: int) -> list[str]:
    operands = [f"?x{i}" for i in range(arity)]
    dtypes = [f"?d{i}" for i in range(arity)]
    bits = [f"?b{i}" for i in range(arity)]
    term = f"(= ?e (Map{arity} {' '.join(operands)} ?f))"
    typed = " ".join(f"(= {d} (dtype {x}))" for x, d in zip(operands, dtypes, strict=True))
    known = " ".join(f"(= {b} (splat {x}))" for x, b in zip(operands, bits, strict=True))
    arguments = " ".join(("?f", *dtypes, *bits))
    return [
        f"{term} {typed} (= ?s (shape ?x0)) (= ?r (result_dtype{arity} ?f {' '.join(dtypes)})) "
        "=> (set (dtype ?e) ?r) (set (shape ?e) ?s)",
        f"{term} {typed} {known} => (want_fold{arity} {arguments})",
        f"{term} {typed} {known} (= ?k (want_fold{arity} {arguments})) (have_fold{arity} ?k ?r) "
        "=> (set (splat ?e) ?r)",
    ]


def _fold(name: str, *columns: str) -> tuple[str] | None:
    """The bits of a scalar operation on constants: (name, dtypes..., bits...) -> bits."""
    op = scalar_op_named(name)
    dtypes = [dtype_named(x) for x in columns[:op.arity]]
    values = [
        np.frombuffer(bytes.fromhex(bits), dtype.numpy)[0]
        for bits, dtype in zip(columns[op.arity:], dtypes, strict=True)]
    result = op.result_dtype(*dtypes)
    return (encode_number(evaluate_op(op, result, *values).item(), result).hex(),)


FOLDS = tuple(
    DeferredTable(f"fold{arity}", (codec_of(str),) * (1 + 2 * arity), (codec_of(str),), _fold) for arity in MAPS)


def declarations(*, strict: bool = False) -> list[str]:
    """Tables and rules of the analyses. `strict` makes two different types of one value an error of egglog."""
    merge = ":no-merge" if strict else ":merge old"
    tables = [
        f"(ruleset {ANALYSE})",
        f"(function dtype (T) String {merge})", f"(function shape (T) Dims {merge})",
        "(function type (T) Type :merge old)", "(function splat (T) String :merge old)", "(sort Key)",
        *(f"(function result_dtype{n} ({' '.join(['String'] * (n + 1))}) String :merge old)" for n in MAPS),
        "(function literal (String String) String :merge old)",
        "(function origin (T) i64 :merge (min old new))",
        "(function count (Tensors) i64 :merge old)", "(function item (Tensors i64) T :merge old)",
        *(line for table in FOLDS for line in table.declarations),
    ]
    rules = [*_TYPES, *_TYPE, *_SPLATS, *_forget_rules(), *(rule for arity in MAPS for rule in _map_rules(arity))]
    return tables + [_rule(text) for text in rules]


def _rule(text: str) -> str:
    body, head = text.split(" => ")
    return f"(rule ({body}) ({head}) :ruleset {ANALYSE})"


def result_dtypes(dtypes: Iterable[DType]) -> list[str]:
    """Facts: the dtype of every scalar operation on operands of these dtypes and bool."""
    return list(_result_dtypes(tuple(sorted({*dtypes, BOOL}, key=str))))


@functools.lru_cache(maxsize=64)
def _result_dtypes(dtypes: tuple[DType, ...]) -> tuple[str, ...]:
    lines = []
    for op in SCALAR_OPS.values():
        for operands in itertools.product(dtypes, repeat=op.arity):
            try:
                result = op.result_dtype(*operands)
            except TypeMismatch:
                continue
            columns = " ".join(f'"{x}"' for x in (op.name, *operands))
            lines.append(f'(set (result_dtype{op.arity} {columns}) "{result}")')
    return tuple(lines)


def literals(numbers: Mapping[str, Number], dtypes: Iterable[DType]) -> list[str]:
    """Facts: the bits of the numbers that rules mention, in every dtype of the program that can hold them."""
    lines = []
    for key, value in numbers.items():
        for dtype in [BOOL] if isinstance(value, bool) else sorted({*dtypes, BOOL}, key=str):
            try:
                bits = encode_number(value, dtype)
            except TypeMismatch:
                continue
            lines.append(f'(set (literal {quoted(key)} "{dtype}") "{bits.hex()}")')
    return lines


def origins(numbers: Iterable[int]) -> list[str]:
    """Facts: which values are the program's parameters and constants, in order."""
    return [f"(set (origin (original {number})) {place})" for place, number in enumerate(numbers)]


def items(count: int) -> list[str]:
    """Rules that spread vectors of up to `count` operands into a table.

    Patterns join with the table: egglog evaluates `vec-get` only when a join is done, so that patterns which use it
    would enumerate all combinations of values first.
    """
    rules = []
    for constructor in constructors().values():
        if constructor.operands is None:
            columns = " ".join(f"?c{n}" for n in range(len(constructor.sorts)))
            term = f"(= ?e ({constructor.name} ?v {columns})) (= ?n (vec-length ?v)) (<= ?n {count})"
            rules.append(f"{term} => (set (count ?v) ?n)")
            rules += [f"{term} (= ?x (vec-get ?v {n})) => (set (item ?v {n}) ?x)" for n in range(count)]
    return [_rule(rule) for rule in rules]
