"""Linear algebra over traced tensors: `tcp.numpy.linalg`."""

from __future__ import annotations

from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.frontends.traced import Operand, Traced, broadcast_shapes, broadcast_to, lift, lift_together
from tcp_eqsat.frontends.traced import matmul as matmul
from tcp_eqsat.lang.ops import builders, linalg_builders
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import scalar_op_named as _op


def cholesky(x: Operand, upper: bool = False) -> Traced:
    """L with x = L L^H of symmetric (Hermitian) matrices, or U with x = U^H U; NaN where one is not positive
    definite. Only the triangle that is wanted is read."""
    return Traced(linalg_builders.cholesky(lift(x), lower=not upper))


def solve_triangular(a: Operand, b: Operand, *, lower: bool = True, transposed: bool = False,
                     conjugated: bool = False, unit_diagonal: bool = False, left: bool = True) -> Traced:
    """x with op(a) x = b (with x op(a) = b unless `left`); op transposes and conjugates. The axes before the last two
    are broadcast together; b of rank 1 is one right side."""
    matrix, right = lift_together([a, b])
    if len(matrix.shape) < 2 or not right.shape:
        raise TypeMismatch(f"solve_triangular requires matrices, got {matrix.type} and {right.type}")
    vector = len(right.shape) == 1
    if vector:
        right = builders.reshape(right, (*right.shape, 1) if left else (1, *right.shape))
    batch = broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
    found = linalg_builders.triangular_solve(
        _in_batch(matrix, batch), _in_batch(right, batch), left=left, lower=lower, unit_diagonal=unit_diagonal,
        transposed=transposed, conjugated=conjugated)
    if vector:
        found = builders.reshape(found, (*batch, found.shape[-2 if left else -1]))
    return Traced(found)


def _in_batch(x: Node, batch: tuple) -> Node:
    return broadcast_to(x, (*batch, *x.shape[-2:]))


def solve_positive_definite(a: Operand, b: Operand) -> Traced:
    """x with a x = b for symmetric (Hermitian) positive definite matrices, by Cholesky; NaN where one is not."""
    matrix, right = lift_together([a, b])
    factor = Traced(linalg_builders.cholesky(matrix))
    half = solve_triangular(factor, Traced(right))
    if half.ndim == 1 or len(right.shape) == 1:
        half = Traced(builders.reshape(half.node, (*half.shape, 1)))
        found = solve_triangular(factor, half, transposed=True, conjugated=True).node
        return Traced(builders.reshape(found, found.shape[:-1]))
    return solve_triangular(factor, half, transposed=True, conjugated=True)


def matrix_transpose(x: Operand) -> Traced:
    """The last two axes swapped."""
    node = lift(x)
    rank = len(node.shape)
    if rank < 2:
        raise TypeMismatch(f"matrix_transpose requires at least rank 2, got {node.type}")
    return Traced(builders.transpose(node, (*range(rank - 2), rank - 1, rank - 2)))


def outer(x: Operand, y: Operand) -> Traced:
    """result[i, j] = x[i] * y[j]."""
    left, right = lift_together([x, y])
    if len(left.shape) != 1 or len(right.shape) != 1:
        raise TypeMismatch(f"outer requires operands of rank 1, got {left.type} and {right.type}")
    return Traced(builders.dot_general(left, right, ((), ())))


def diagonal(x: Operand, offset: int = 0) -> Traced:
    """The elements [i, i + offset] of the last two axes, which must have sizes that are numbers."""
    node = lift(x)
    rank = len(node.shape)
    if rank < 2 or not all(isinstance(n, int) for n in node.shape[-2:]):
        raise TypeMismatch(f"diagonal requires matrices of known size, got {node.type}")
    rows, columns = (int(n) for n in node.shape[-2:] if isinstance(n, int))
    first, second = max(-offset, 0), max(offset, 0)
    count = max(min(rows - first, columns - second), 0)
    flat = builders.reshape(node, (*node.shape[:-2], rows * columns))
    start = first * columns + second if count else 0
    limit = start + (count - 1) * (columns + 1) + 1 if count else 0
    zeros = (0,) * (rank - 2)
    return Traced(builders.slice_(flat, (*zeros, start), (*flat.shape[:-1], limit), (*(1 for _ in zeros), columns + 1)))


def trace(x: Operand, offset: int = 0) -> Traced:
    """The sum of the diagonal of the last two axes."""
    node = diagonal(x, offset).node
    return Traced(builders.reduce_axes(_op("add"), node, (len(node.shape) - 1,)))
