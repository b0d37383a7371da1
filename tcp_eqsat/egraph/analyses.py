"""What egglog derives for every value: dtype, shape, and the bits of a value that is the same at every index.

Rules of ruleset `analyse` run to a fixed point after every round. Scalar operations on known constants are computed
by their NumPy references, in deferred tables. A value that is known is the view of a scalar and nothing else: how else
it could be computed is of no use, and would let rules build products with 0 for ever.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from tcp_eqsat.egraph.columns import codec_of
from tcp_eqsat.egraph.deferred import DeferredTable
from tcp_eqsat.egraph.engine import quoted
from tcp_eqsat.egraph.match import dtype_table
from tcp_eqsat.egraph.schema import MAPS, SCALAR, Constructor
from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.ops.movement import view_op
from tcp_eqsat.lang.ops.source import constant_op, parameter_op
from tcp_eqsat.lang.scalar import SCALAR_OPS, Number, encode_number, evaluate_op, scalar_op_named
from tcp_eqsat.lang.types import BOOL, DType, TensorType, dtype_named
from tcp_eqsat.rules.attribute import AttributeFunction

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
_TYPE = "(= ?d (dtype ?e)) (= ?s (shape ?e)) => (set (type ?e) (TypeOf ?d ?s))"
_SPLATS = (
    "(= ?e (View ?x ?l ?s)) (= ?b (splat ?x)) => (set (splat ?e) ?b)",
    "(= ?e (Reshape ?x ?s)) (= ?b (splat ?x)) => (set (splat ?e) ?b)",
    "(= ?e (Slice ?x ?i ?j ?k)) (= ?b (splat ?x)) => (set (splat ?e) ?b)",
    "(= ?b (splat ?e)) (= ?d (dtype ?e)) (= ?s (shape ?e)) (= ?n (vec-length ?s)) (> ?n 0) "
    "=> (union ?e (View (Scalar ?d ?b) (vec-of 0) ?s))",
    "(= ?b (splat ?e)) (= ?d (dtype ?e)) (= ?s (shape ?e)) (= 0 (vec-length ?s)) => (union ?e (Scalar ?d ?b))",
)


def _forget_rule(constructor: Constructor) -> list[str]:
    """Known values lose every e-node but views, scalars and constants of the program."""
    if constructor.op in (view_op, constant_op, parameter_op):
        return []
    term = f"({constructor.name} {' '.join(f'?c{n}' for n in range(len(constructor.columns)))})"
    return [f"(= ?e {term}) (= ?b (splat ?e)) => (subsume {term})"]


def _map_rules(arity: int) -> list[str]:
    operands = [f"?x{i}" for i in range(arity)]
    dtypes = [f"?d{i}" for i in range(arity)]
    bits = [f"?b{i}" for i in range(arity)]
    term = f"(= ?e ({MAPS[arity].name} {' '.join(operands)} ?f))"
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


FOLDS = {
    arity: DeferredTable(f"fold{arity}", (codec_of(str),) * (1 + 2 * arity), (codec_of(str),), _fold)
    for arity in MAPS}
"""By number of operands."""


def tables(*, strict: bool = False) -> list[str]:
    """Tables of the analyses. `strict` makes two different types of one value an error of egglog."""
    merge = ":no-merge" if strict else ":merge old"
    return [
        f"(ruleset {ANALYSE})",
        f"(function dtype (T) String {merge})", f"(function shape (T) Dims {merge})",
        "(function type (T) Type :merge old)", "(function splat (T) String :merge old)", "(sort Key)",
        "(function literal (String String) String :merge old)",
        "(function origin (T) i64 :merge (min old new))",
        "(function count (Tensors) i64 :merge old)", "(function item (Tensors i64) T :merge old)",
        _rule(_TYPE),
    ]


def rules(present: Mapping[str, Constructor]) -> list[str]:
    """Tables and rules about these constructors, by name. No value is known where there is no scalar."""
    lines = [_rule(text) for text in _TYPES if _mentions(text) <= present.keys()]
    known = SCALAR.name in present
    if known:
        texts = [text for text in _SPLATS if _mentions(text) <= present.keys()]
        texts += [text for each in present.values() for text in _forget_rule(each)]
        lines += map(_rule, texts)
    for arity, table in FOLDS.items():
        if MAPS[arity].name in present:
            typing, *folding = map(_rule, _map_rules(arity))
            columns = " ".join(["String"] * (arity + 1))
            lines += (f"(function result_dtype{arity} ({columns}) String :merge old)", typing)
            lines += (*table.declarations, *folding) if known else ()
    return lines


@functools.cache
def _mentions(text: str) -> frozenset[str]:
    """The constructors of tensors in a rule."""
    return frozenset(re.findall(r"\(([A-Z]\w*) ", text))


def _rule(text: str) -> str:
    body, head = text.split(" => ")
    return f"(rule ({body}) ({head}) :ruleset {ANALYSE})"


def possible_dtypes(names: Iterable[str], dtypes: Iterable[DType]) -> tuple[DType, ...]:
    """All dtypes that scalar operations called `names` can make of these, and these."""
    found, before = frozenset(dtypes), -1
    while len(found) > before:
        before = len(found)
        ordered = tuple(sorted(found, key=str))
        found = found.union(*(_signatures(name, ordered).values() for name in SCALAR_OPS.keys() & names))
    return tuple(sorted(found, key=str))


@functools.lru_cache(maxsize=1 << 12)
def _signatures(name: str, dtypes: tuple[DType, ...]) -> Mapping[tuple[DType, ...], DType]:
    """The result's dtype of a scalar operation for every choice of operands from these dtypes that it takes."""
    op, found = SCALAR_OPS[name], {}
    for operands in itertools.product(dtypes, repeat=op.arity):
        with contextlib.suppress(TypeMismatch):
            found[operands] = op.result_dtype(*operands)
    return found


def result_dtypes(names: Iterable[str], dtypes: tuple[DType, ...]) -> list[str]:
    """Facts: the dtypes of the scalar operations called `names` on operands of these dtypes."""
    lines = []
    for name in sorted(SCALAR_OPS.keys() & names):
        for operands, result in _signatures(name, dtypes).items():
            columns = " ".join(f'"{x}"' for x in (name, *operands))
            lines.append(f'(set (result_dtype{len(operands)} {columns}) "{result}")')
    return lines


def literals(numbers: Mapping[str, Number], dtypes: Collection[DType]) -> list[str]:
    """Facts: the bits of the numbers that rules mention, in each of these dtypes that can hold them."""
    lines = []
    for key, value in numbers.items():
        for dtype in dtypes:
            if isinstance(value, bool) and dtype != BOOL:
                continue
            try:
                bits = encode_number(value, dtype)
            except TypeMismatch:
                continue
            lines.append(f'(set (literal {quoted(key)} "{dtype}") "{bits.hex()}")')
    return lines


def passed_tests(tests: Iterable[AttributeFunction], dtypes: Collection[DType]) -> list[str]:
    """Tables and facts: which of these dtypes pass tests that conditions make."""
    lines = []
    for test in tests:
        lines.append(f"(relation {dtype_table(test)} (String))")
        lines += [f'({dtype_table(test)} "{dtype}")' for dtype in dtypes if passes(test, dtype)]
    return lines


def passes(test: AttributeFunction, dtype: DType) -> bool:
    """Whether a test that asks about nothing but a dtype is true of one."""
    return test.meaning(TensorType(dtype, ())) is True


def origins(numbers: Iterable[int]) -> list[str]:
    """Facts: which values are the program's parameters and constants, in order."""
    return [f"(set (origin (original {number})) {place})" for place, number in enumerate(numbers)]


def items(count: int, present: Mapping[str, Constructor]) -> list[str]:
    """Rules that spread the first `count` operands of vectors into a table.

    Patterns join with the table: egglog evaluates `vec-get` only when a join is done, so that patterns which use it
    would enumerate all combinations of values first.
    """
    rules = []
    for constructor in present.values():
        if count and constructor.operands is None:
            columns = " ".join(f"?c{n}" for n in range(len(constructor.sorts)))
            term = f"(= ?e ({constructor.name} ?v {columns}))"
            rules.append(f"{term} (= ?n (vec-length ?v)) => (set (count ?v) ?n)")
            rules += [f"{term} (= ?x (vec-get ?v {n})) => (set (item ?v {n}) ?x)" for n in range(count)]
    return [_rule(rule) for rule in rules]
