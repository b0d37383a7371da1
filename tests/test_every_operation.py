"""Every tensor operation, compiled, against the reference: dtypes x ranks x sizes x special values; what is refused.

Each operation is compiled for every dtype that it takes; its rank turns with the operation and the dtype, so that all
ranks are met with either. `--every-rank` takes all of them with each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
from operation_forms import ANY, EVERY_DTYPE, FORMS, SHAPES, SIZES, Operands

import tcp_eqsat as tcp
from tcp_eqsat.compare import compare
from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.narrow import widened
from tcp_eqsat.lang.op import OPS
from tcp_eqsat.lang.plan import Control, Kernel, Plan, Routine
from tcp_eqsat.lang.program import Function, Node, walk
from tcp_eqsat.lang.reference import evaluate
from tcp_eqsat.lang.scalar import ScalarApply, ScalarFunction
from tcp_eqsat.lang.types import DType

QUICK = tcp.Budget(iterations=1, steps=1)
RANKS = range(len(SHAPES))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chosen_rank" in metafunc.fixturenames:
        ranks = list(RANKS) if metafunc.config.getoption("--every-rank") else [None]
        metafunc.parametrize("chosen_rank", ranks, ids=lambda rank: "turning" if rank is None else str(rank))


def test_every_operation_has_a_form() -> None:
    assert set(FORMS) == set(OPS)
    for name, (takes, form) in FORMS.items():
        assert takes and takes <= ANY
        for dtype in takes:
            made = [x for rank in RANKS for x in form(Operands.of(dtype, rank))]
            assert name in {node.op.name for node in walk(made)}, (name, dtype)


def applied(dtype: DType, chosen_rank: int | None) -> Iterator[tuple[str, int]]:
    """The operations that take a dtype, and a rank for each (the next one where a form has nothing to say at it)."""
    number = EVERY_DTYPE.index(dtype)
    for place, (name, (takes, _)) in enumerate(FORMS.items()):
        if dtype in takes:
            yield name, (place + number) % len(RANKS) if chosen_rank is None else chosen_rank


def program_of(dtype: DType, chosen_rank: int | None) -> tuple[Function, tuple[Operands, ...], list[str]]:
    """All operations on a dtype as one function, its operands by rank, and the operation that each result is of."""
    operands: list[Operands] = []
    for rank in RANKS if chosen_rank is None else (chosen_rank,):
        operands.append(Operands.of(dtype, rank, sum(len(o.parameters) for o in operands)))
    results: list[Node] = []
    names: list[str] = []
    for name, rank in applied(dtype, chosen_rank):
        made: list[Node] = []
        for turn in RANKS if chosen_rank is None else (0,):
            made = made or list(FORMS[name][1](operands[(rank + turn) % len(RANKS) if chosen_rank is None else 0]))
        results += made
        names += [name] * len(made)
    return Function("every", tuple(p for o in operands for p in o.parameters), tuple(results)), tuple(operands), names


def rounds(node: Node) -> bool:
    """Whether a result of floats may differ in its last places: a sum or product of several, a decomposition."""
    for each in walk((node,)):
        types = each.type.items if hasattr(each.type, "items") else (each.type,)
        if not any(t.dtype.is_float or t.dtype.is_complex for t in types):
            continue
        if each.op.name in ("contract", "overlap_add", "cholesky", "triangular_solve", "fft"):
            return True
        attributes = each.attributes
        if each.op.name == "reduce" and attributes.operation.name in ("add", "multiply"):
            return True
        if each.op.name in ("cumulative", "scatter", "reduce_general") and any(map(_adds, attributes.functions)):
            return True
        if each.op.name == "map" and each.operands[0].dtype.is_complex and _adds(attributes.function):
            return True
    return False


def _adds(function: ScalarFunction) -> bool:
    return any(isinstance(x, ScalarApply) and x.op.name in ("add", "multiply") for x in function.walk())


def same(x: np.ndarray, y: np.ndarray) -> bool:
    """Equal bits, but for NaNs."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind == "c":
        return same(x.real, y.real) and same(x.imag, y.imag)
    x, y = widened(x), widened(y)
    signs = np.signbit(x) == np.signbit(y) if x.dtype.kind == "f" else True
    return bool((((x == y) & signs) | ((x != x) & (y != y))).all())


def steps_of(plan: Plan) -> Iterator[object]:
    for step in plan.steps:
        yield step
        for body in step.bodies if isinstance(step, Control) else ():
            yield from steps_of(body)


def assert_is_native(compiled: tcp.Compiled) -> None:
    """Kernels, routines and control flow over them; the text calls intrinsics and what it defines, nothing else."""
    assert {type(step) for step in steps_of(compiled.optimized.plan)} <= {Kernel, Routine, Control}
    declared = set(re.findall(r'^declare [^@]*@"?([\w.$]+)', compiled.code.llvm, re.M))
    defined = set(re.findall(r'^define [^@]*@"?([\w.$]+)', compiled.code.llvm, re.M))
    assert not {name for name in declared - defined if not name.startswith("llvm.")}


@pytest.mark.parametrize("dtype", EVERY_DTYPE, ids=str)
def test_compiled_code_is_native_and_computes_the_reference(dtype: DType, chosen_rank: int | None) -> None:
    function, operands, names = program_of(dtype, chosen_rank)
    compiled = tcp.compile(function, budget=QUICK)
    assert_is_native(compiled)
    inexact = [rounds(x) for x in function.results]
    for number, sizes in enumerate(SIZES):
        for values in ("tame", "nasty"):
            arrays = [x for o in operands for x in o.arrays(sizes, values, number)]
            found = compiled(*arrays)
            for name, x, y, node, rough in zip(
                    names, found, evaluate(function, arrays), function.results, inexact, strict=True):
                if not rough:
                    assert same(x, y), (name, str(node.type), sizes, values)
                elif values == "tame" and np.isfinite(y).all():  # a product of many may overflow on the way
                    assert compare(x, y).agrees, (name, str(node.type), sizes)


@pytest.mark.parametrize("name", FORMS)
def test_other_dtypes_are_refused_with_requirement_and_fact(name: str) -> None:
    takes, form = FORMS[name]
    for dtype in EVERY_DTYPE:
        if dtype not in takes:
            with pytest.raises((TypeMismatch, ShapeMismatch), match=f"require.*{re.escape(str(dtype))}"):
                list(form(Operands.of(dtype, 2)))
