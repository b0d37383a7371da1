"""Procedures: what is written runs as written."""

import numpy as np
import pytest

import tcp_eqsat.lang.ops  # noqa: F401  (fills the table of scalar operations)
from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.dims import symbol
from tcp_eqsat.lang.procedural import Procedure, Writer, run
from tcp_eqsat.lang.types import F32, I64, TensorType

N = symbol("n")


def running_maximum() -> Procedure:
    w = Writer([TensorType(F32, (N,))], [TensorType(F32, (N,))])
    best = w.variable(float("-inf"), F32)
    with w.loop(N) as i:
        best.set(w.apply("maximum", best.get(), w.load(w.operands[0], (i,))))
        w.store(w.results[0], (i,), best.get())
    return w.finish()


def collatz_lengths() -> Procedure:
    w = Writer([TensorType(I64, (3,))], [TensorType(I64, (3,))])
    with w.loop(3) as i:
        number, steps = w.variable(w.load(w.operands[0], (i,))), w.variable(0)
        with w.while_(lambda: number.get() > 1):
            odd = number.get() % 2 == 1
            w.choose(odd, lambda: number.set(number.get() * 3 + 1), lambda: number.set(number.get() / 2))
            steps.set(steps.get() + 1)
        w.store(w.results[0], (i,), steps.get())
    return w.finish()


def test_loops_and_variables():
    x = np.float32([1, -2, 3, 2, 5])
    (result,) = run(running_maximum(), [x], {"n": 5})
    assert result.tolist() == [1, 1, 3, 3, 5]


def test_a_loop_of_no_iterations():
    (result,) = run(running_maximum(), [np.zeros(0, np.float32)], {"n": 0})
    assert result.shape == (0,)


def test_while_and_choice():
    (result,) = run(collatz_lengths(), [np.int64([1, 7, 27])])
    assert result.tolist() == [0, 16, 111]


def test_scratch_and_index_errors():
    w = Writer([], [TensorType(I64, ())])
    scratch = w.scratch(I64, 2)
    w.store(scratch, (2,), 7)
    with pytest.raises(IndexError, match=r"s0\[2\]"):
        run(w.finish(), [])


def test_a_store_of_another_dtype_is_refused():
    w = Writer([], [TensorType(F32, ())])
    with pytest.raises(TypeMismatch, match="holds f32"):
        w.store(w.results[0], (), w.constant(1, I64))


def test_the_wrong_number_of_indices_is_refused():
    w = Writer([TensorType(F32, (2, 2))], [])
    with pytest.raises(TypeMismatch, match="requires 2 indices"):
        w.load(w.operands[0], (0,))
