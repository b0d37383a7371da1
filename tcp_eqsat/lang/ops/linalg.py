"""Decompositions and transforms: cholesky, triangular_solve, fft.

A complex tensor is one operand, or two: its real and its imaginary part. Then the result has two parts as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tcp_eqsat.errors import ShapeMismatch, TypeMismatch
from tcp_eqsat.lang.complex_functions import function_parts
from tcp_eqsat.lang.dims import Size, equal
from tcp_eqsat.lang.op import PROCEDURAL, Vjp, define_op, tensor_types
from tcp_eqsat.lang.ops.attributes import CholeskyAttributes, FftAttributes, TriangularSolveAttributes
from tcp_eqsat.lang.ops.builders import dot_general, iota, map_scalar, splat, transpose
from tcp_eqsat.lang.ops.linalg_builders import fft, triangular_solve
from tcp_eqsat.lang.procedural import Array, Procedure, Scalar, Writer
from tcp_eqsat.lang.program import Node
from tcp_eqsat.lang.scalar import function_of
from tcp_eqsat.lang.scalar import scalar_op_named as _op
from tcp_eqsat.lang.types import BOOL, F32, F64, I64, DType, TensorType, TupleType, Type

Parts = tuple[Scalar, ...]  # a number: itself, or real part and imaginary part


def _computed_type(name: str, parts: Sequence[TensorType], least_rank: int) -> TensorType:
    """The type of one operand in one or two parts; raises TypeMismatch."""
    x = parts[0]
    if len(parts) == 2 and (parts[1] != x or x.dtype.is_complex):
        raise TypeMismatch(f"{name} requires parts of one floating-point type, got {x} and {parts[1]}")
    real = x.dtype.part if x.dtype.is_complex else x.dtype
    if real not in (F32, F64):
        raise TypeMismatch(f"{name} requires dtype f32, f64, c64 or c128, got {x}")
    if x.rank < least_rank:
        raise TypeMismatch(f"{name} requires an operand of at least rank {least_rank}, got {x}")
    return x


def _result(x: TensorType, parts: int) -> Type:
    return x if parts == 1 else TupleType((x, x))


def _together(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """A tensor of its parts."""
    return arrays[0] if len(arrays) == 1 else arrays[0] + 1j * arrays[1]


def _apart(array: np.ndarray, result: Type) -> Any:
    if isinstance(result, TupleType):
        dtype = result.items[0].dtype.numpy
        return array.real.astype(dtype), array.imag.astype(dtype)
    return array.astype(result.dtype.numpy)


def _in_double(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


class _Numbers:
    """Arithmetic of real numbers, or of complex ones in two parts, in a procedure."""

    def __init__(self, w: Writer, dtype: DType, parts: int) -> None:
        self.w, self.dtype, self.parts = w, dtype, parts

    def load(self, arrays: Sequence[Array], at: Sequence[Scalar | int]) -> Parts:
        return tuple(self.w.load(x, at) for x in arrays)

    def store(self, arrays: Sequence[Array], at: Sequence[Scalar | int], value: Parts) -> None:
        for x, part in zip(arrays, value, strict=True):
            self.w.store(x, at, part)

    def apply(self, name: str, x: Parts, y: Parts) -> Parts:
        if self.parts == 1:
            return (self.w.apply(name, x[0], y[0]),)
        dtype = self.dtype.of_parts
        return self.w.functions(function_parts(function_of(_op(name), dtype, dtype)), *x, *y)

    def conjugate(self, x: Parts) -> Parts:
        return x if self.parts == 1 else (x[0], -x[1])

    def scaled(self, x: Parts, factor: Scalar) -> Parts:
        return tuple(part * factor for part in x)

    def scratch(self, *shape: Size) -> tuple[Array, ...]:
        return tuple(self.w.scratch(self.dtype, *shape) for _ in range(self.parts))


def _of_parts(derivative: Vjp) -> Vjp:
    """A derivative that takes one operand or two in parts as complex where there are real and imaginary parts.

    The cotangent of a complex value is the conjugate of the cotangents of its parts.
    """

    def of_any(node: Node, g: Any) -> tuple[Node | None, ...]:
        if not isinstance(node.type, TupleType):
            return derivative(node, g)
        half = len(node.operands) // 2
        pairs = [(node.operands[2 * n], node.operands[2 * n + 1]) for n in range(half)]
        whole = Node.make(node.op, tuple(map_scalar(_op("complex"), *pair) for pair in pairs), node.attributes)
        parts = derivative(whole, map_scalar(_op("complex"), g[0], map_scalar(_op("negative"), g[1])))
        found: list[Node | None] = []
        for each in parts:
            assert each is not None
            found += [map_scalar(_op("real"), each), map_scalar(_op("negative"), map_scalar(_op("imag"), each))]
        return tuple(found)

    return of_any


# Cholesky


def _square(name: str, x: TensorType) -> None:
    if not equal(x.shape[-1], x.shape[-2]):
        raise ShapeMismatch(f"{name} requires square matrices, got {x}")


def _infer_cholesky(operands: tuple[Type, ...], a: CholeskyAttributes) -> Type:
    types = tensor_types("cholesky", operands)
    if len(types) not in (1, 2):
        raise TypeMismatch(f"cholesky requires a matrix, or its two parts, got {len(types)} operands")
    x = _computed_type("cholesky", types, 2)
    _square("cholesky", x)
    return _result(x, len(types))


def _cholesky_reference(a: CholeskyAttributes, result: Type, *arrays: np.ndarray) -> Any:
    x = _in_double(_together(arrays))
    lower = np.tril(x if a.lower else x.swapaxes(-1, -2).conj())
    found = np.empty_like(lower)
    for at in np.ndindex(*x.shape[:-2]):
        try:
            found[at] = np.linalg.cholesky(lower[at])
        except np.linalg.LinAlgError:
            found[at] = np.nan
        if np.isnan(found[at]).any():
            found[at] = complex(np.nan, np.nan) if x.dtype.kind == "c" else np.nan
    return _apart(found if a.lower else found.swapaxes(-1, -2).conj(), result)


def _cholesky_procedure(a: CholeskyAttributes, operands: tuple[TensorType, ...], results: tuple[TensorType, ...]
                        ) -> Procedure:
    """Column by column; the rest of the matrix is updated by each, row by row."""
    w = Writer(operands, results)
    parts = len(operands)
    numbers = _Numbers(w, operands[0].dtype, parts)
    *outer, size, _ = operands[0].shape
    n = w.extent(size)
    work, column = numbers.scratch(size, size), numbers.scratch(size)
    with w.loops(outer) as batch:
        with w.loop(n) as i, w.loop(i + 1) as j:
            found = numbers.load(w.operands, (*batch, *((i, j) if a.lower else (j, i))))
            numbers.store(work, (i, j), found if a.lower else numbers.conjugate(found))
        definite = w.variable(True, BOOL)
        with w.loop(n) as k:
            pivot = w.load(work[0], (k, k))
            definite.set(definite.get() & (pivot > 0))
            root = w.apply("sqrt", pivot)
            inverse = w.constant(1, root.dtype) / root
            numbers.store(work, (k, k), (root, *(w.constant(0, root.dtype) for _ in range(parts - 1))))
            with w.loop(n - 1 - k) as below:
                i = below + k + 1
                scaled = numbers.scaled(numbers.load(work, (i, k)), inverse)
                numbers.store(work, (i, k), scaled)
                numbers.store(column, (i,), numbers.conjugate(scaled))
            with w.loop(n - 1 - k) as below:
                i = below + k + 1
                own = numbers.load(work, (i, k))
                with w.loop(below + 1) as right:
                    j = right + k + 1
                    product = numbers.apply("multiply", own, numbers.load(column, (j,)))
                    numbers.store(work, (i, j), numbers.apply("subtract", numbers.load(work, (i, j)), product))
        _store_triangle(w, numbers, a, batch, n, work, definite.get())
    return w.finish()


def _store_triangle(w: Writer, numbers: _Numbers, a: CholeskyAttributes, batch: Sequence[Scalar], n: Scalar,
                    work: Sequence[Array], definite: Scalar) -> None:
    zero, nan = w.constant(0, numbers.dtype), w.constant(float("nan"), numbers.dtype)
    with w.loops((n, n)) as (i, j):
        row, col = (i, j) if a.lower else (j, i)
        found = numbers.load(work, (row, w.apply("minimum", col, row)))
        found = found if a.lower else numbers.conjugate(found)
        inside = tuple(w.where(col <= row, part, zero) for part in found)
        numbers.store(w.results, (*batch, i, j), tuple(w.where(definite, part, nan) for part in inside))


def _adjoint(x: Node) -> Node:
    rank = len(x.shape)
    swapped = transpose(x, (*range(rank - 2), rank - 1, rank - 2))
    return map_scalar(_op("conj"), swapped) if x.dtype.is_complex else swapped


def _conjugate(x: Node) -> Node:
    return map_scalar(_op("conj"), x) if x.dtype.is_complex else x


def _matmul(x: Node, y: Node) -> Node:
    rank = len(x.shape)
    batch = tuple(range(rank - 2))
    return dot_general(x, y, ((rank - 1,), (rank - 2,)), (batch, batch))


def _masked(x: Node, weight: Callable[[Node, Node], tuple[Node, float, float]]) -> Node:
    """Elements weighted by where they are: one number where the comparison of row and column holds, else another."""
    rank = len(x.shape)
    row, col = (iota(I64, x.shape, axis) for axis in (rank - 2, rank - 1))
    where, inside, outside = weight(row, col)
    real = x.dtype.part if x.dtype.is_complex else x.dtype
    factor = map_scalar(_op("where"), where, splat(inside, real, x.shape), splat(outside, real, x.shape))
    if x.dtype.is_complex:
        factor = map_scalar(_op(f"astype_{x.dtype}"), factor)
    return map_scalar(_op("multiply"), x, factor)


def _half_lower(x: Node) -> Node:
    """The lower triangle with half of the diagonal."""
    below = _masked(x, lambda row, col: (map_scalar(_op("greater"), row, col), 1.0, 0.5))
    return _masked(below, lambda row, col: (map_scalar(_op("greater_equal"), row, col), 1.0, 0.0))


def _cholesky_derivative(node: Node, g: Any) -> tuple[Node | None, ...]:
    """S = L^-H phi(L^H g) L^-1, where phi halves the diagonal of the lower triangle; the elements that are read count
    for both triangles (Murray, Differentiation of the Cholesky decomposition, 2016)."""
    a: CholeskyAttributes = node.attributes
    factor = node if a.lower else _adjoint(node)
    g = _conjugate(g) if a.lower else _conjugate(_adjoint(g))
    phi = _half_lower(_matmul(_adjoint(factor), g))
    inner = triangular_solve(factor, phi, left=True, lower=True, transposed=True, conjugated=True)
    s = triangular_solve(factor, inner, left=False, lower=True)
    both = map_scalar(_op("add"), s, _adjoint(s))
    found = _half_lower(both)
    return (_conjugate(found if a.lower else _adjoint(found)),)


cholesky_op = define_op(
    "cholesky", operands="x*", attributes=CholeskyAttributes, infer=_infer_cholesky, reference=_cholesky_reference,
    pointful=PROCEDURAL, procedure=_cholesky_procedure, derivative=_of_parts(_cholesky_derivative),
    doc="The Cholesky factor of each symmetric (Hermitian) matrix, of which one triangle is read; the other triangle "
        "of the result is 0. All NaN where the matrix is not positive definite. A complex tensor may be given as two "
        "operands, its parts; the result then has two.",
)

# Triangular solve


def _halves(name: str, types: Sequence[TensorType]) -> tuple[Sequence[TensorType], Sequence[TensorType]]:
    if len(types) not in (2, 4):
        raise TypeMismatch(f"{name} requires two operands, or two parts of each, got {len(types)}")
    half = len(types) // 2
    return types[:half], types[half:]


def _infer_solve(operands: tuple[Type, ...], a: TriangularSolveAttributes) -> Type:
    left, right = _halves("triangular_solve", tensor_types("triangular_solve", operands))
    matrix = _computed_type("triangular_solve", left, 2)
    b = _computed_type("triangular_solve", right, 2)
    _square("triangular_solve", matrix)
    if b.dtype != matrix.dtype or b.rank != matrix.rank or not all(map(equal, b.shape[:-2], matrix.shape[:-2])):
        raise ShapeMismatch(f"triangular_solve requires operands of one dtype, rank and batch, got {matrix} and {b}")
    axis = -2 if a.left else -1
    if not equal(b.shape[axis], matrix.shape[-1]):
        raise ShapeMismatch(f"triangular_solve requires size {matrix.shape[-1]} along axis {b.rank + axis} of the "
                            f"right side, got {b}")
    return _result(b, len(left))


def _solve_reference(a: TriangularSolveAttributes, result: Type, *arrays: np.ndarray) -> Any:
    """Substitution in double precision, from rows; the right side is transposed for x op(a) = b."""
    half = len(arrays) // 2
    matrix, b = _in_double(_together(arrays[:half])), _in_double(_together(arrays[half:]))
    matrix = np.tril(matrix) if a.lower else np.triu(matrix)
    n = matrix.shape[-1]
    if a.unit_diagonal:
        matrix = np.where(np.eye(n, dtype=bool), 1, matrix)
    if a.conjugated:
        matrix = matrix.conj()
    if a.transposed is a.left:
        matrix = matrix.swapaxes(-1, -2)
    x = np.array(b if a.left else b.swapaxes(-1, -2))
    forward = a.lower is not (a.transposed is a.left)
    for i in range(n) if forward else reversed(range(n)):
        known = slice(0, i) if forward else slice(i + 1, n)
        total = np.einsum("...k,...kc->...c", matrix[..., i, known], x[..., known, :])
        x[..., i, :] = (x[..., i, :] - total) / matrix[..., i, i, None]
    return _apart(x if a.left else x.swapaxes(-1, -2), result)


def _solve_procedure(a: TriangularSolveAttributes, operands: tuple[TensorType, ...], results: tuple[TensorType, ...]
                     ) -> Procedure:
    """Unknowns in the order in which they become known. Each is subtracted from the others as soon as it is."""
    w = Writer(operands, results)
    parts = len(operands) // 2
    numbers = _Numbers(w, operands[0].dtype, parts)
    matrix, right, out = w.operands[:parts], w.operands[parts:], w.results
    *outer, rows, columns = right[0].type.shape
    n = w.extent(matrix[0].type.shape[-1])
    forward = (a.lower is not a.transposed) is a.left

    def element(batch: Sequence[Scalar], i: Scalar, j: Scalar) -> Parts:
        found = numbers.load(matrix, (*batch, *((j, i) if a.transposed else (i, j))))
        return numbers.conjugate(found) if a.conjugated else found

    def at(step: Scalar) -> Scalar:
        return step if forward else n - 1 - step

    with w.loops(outer) as batch:
        with w.loops((rows, columns)) as place:
            numbers.store(out, (*batch, *place), numbers.load(right, (*batch, *place)))
        if a.left:
            with w.loop(n) as step:
                i = at(step)
                with w.loop(step) as before:
                    k = at(before)
                    factor = element(batch, i, k)
                    with w.loop(columns) as c:
                        _subtract(numbers, out, (*batch, i, c), factor, numbers.load(out, (*batch, k, c)))
                if not a.unit_diagonal:
                    pivot = element(batch, i, i)
                    with w.loop(columns) as c:
                        _divide(numbers, out, (*batch, i, c), pivot)
        else:
            with w.loop(rows) as r, w.loop(n) as step:
                k = at(step)
                if not a.unit_diagonal:
                    _divide(numbers, out, (*batch, r, k), element(batch, k, k))
                known = numbers.load(out, (*batch, r, k))
                with w.loop(n - 1 - step) as after:
                    j = at(after + step + 1)
                    _subtract(numbers, out, (*batch, r, j), known, element(batch, k, j))
    return w.finish()


def _subtract(numbers: _Numbers, arrays: Sequence[Array], at: Sequence[Scalar | int], x: Parts, y: Parts) -> None:
    numbers.store(arrays, at, numbers.apply("subtract", numbers.load(arrays, at), numbers.apply("multiply", x, y)))


def _divide(numbers: _Numbers, arrays: Sequence[Array], at: Sequence[Scalar | int], by: Parts) -> None:
    numbers.store(arrays, at, numbers.apply("divide", numbers.load(arrays, at), by))


def _solve_derivative(node: Node, g: Node) -> tuple[Node | None, ...]:
    """The cotangent of b is solved for with the transpose; that of op(a) is - (that of b) x^T, in the triangle read."""
    a: TriangularSolveAttributes = node.attributes
    matrix, _ = node.operands
    of_b = triangular_solve(matrix, g, left=a.left, lower=a.lower, unit_diagonal=a.unit_diagonal,
                            transposed=not a.transposed, conjugated=a.conjugated)
    rank = len(matrix.shape)
    swap = (*range(rank - 2), rank - 1, rank - 2)
    product = _matmul(of_b, transpose(node, swap)) if a.left else _matmul(transpose(node, swap), of_b)
    of_matrix = map_scalar(_op("negative"), product)
    of_matrix = transpose(of_matrix, swap) if a.transposed else of_matrix
    of_matrix = _conjugate(of_matrix) if a.conjugated else of_matrix
    inside = ("greater" if a.unit_diagonal else "greater_equal") if a.lower else (
        "less" if a.unit_diagonal else "less_equal")
    return _masked(of_matrix, lambda row, col: (map_scalar(_op(inside), row, col), 1.0, 0.0)), of_b


triangular_solve_op = define_op(
    "triangular_solve", operands="a* b*", attributes=TriangularSolveAttributes, infer=_infer_solve,
    reference=_solve_reference, pointful=PROCEDURAL, procedure=_solve_procedure,
    derivative=_of_parts(_solve_derivative),
    doc="The solution of a system of equations for each triangular matrix, by substitution. Only its triangle is read, "
        "and with `unit_diagonal` not its diagonal. A 0 on the diagonal gives infinities or NaN. Complex tensors may "
        "be given in parts, as four operands; the result then has two.",
)

# Fourier transform


def _infer_fft(operands: tuple[Type, ...], a: FftAttributes) -> Type:
    types = tensor_types("fft", operands)
    if len(types) not in (1, 2):
        raise TypeMismatch(f"fft requires a complex operand, or its two parts, got {len(types)} operands")
    x = _computed_type("fft", types, 1)
    if len(types) == 1 and not x.dtype.is_complex:
        raise TypeMismatch(f"fft requires a complex operand, or its two parts, got {x}")
    return _result(x, len(types))


def _fft_reference(a: FftAttributes, result: Type, *arrays: np.ndarray) -> Any:
    x = _in_double(_together(arrays))
    if x.shape[-1] == 0:
        return _apart(x, result)
    return _apart(np.fft.ifft(x) * x.shape[-1] if a.inverse else np.fft.fft(x), result)


def _fft_procedure(a: FftAttributes, operands: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> Procedure:
    """Rows of any length in double precision: powers of 2 by halving (Stockham), others as a convolution with a chirp
    (Bluestein), which transforms of a power of 2 compute."""
    w = Writer(operands, results)
    *outer, size = operands[0].shape
    n = w.extent(size)
    length = w.variable(1)
    with w.while_(lambda: length.get() < n):
        length.set(length.get() * 2)
    direct = length.get() == n
    with w.while_(lambda: (length.get() < n * 2 - 1) & ~direct):
        length.set(length.get() * 2)
    m = length.get()
    transform = _PowerOfTwo(w, m, 4 * size + 1)
    chirp = _Chirp(w, n, m, size, a.inverse, transform)
    with w.if_(~direct):
        chirp.prepare()

    def load(at: Sequence[Scalar], i: Scalar) -> tuple[Scalar, Scalar]:
        re, im = (w.convert(w.load(x, (*at, i)), F64) for x in w.operands)
        return re, im

    def store(at: Sequence[Scalar], i: Scalar, value: tuple[Scalar, Scalar]) -> None:
        for out, part in zip(w.results, value, strict=True):
            w.store(out, (*at, i), w.convert(part, out.type.dtype))

    with w.loops(outer) as at:

        def halving() -> None:
            with w.loop(n) as i:
                transform.put(i, load(at, i))
            transform.run(w.constant(1.0 if a.inverse else -1.0, F64))
            with w.loop(n) as i:
                store(at, i, transform.get(i))

        def chirping() -> None:
            chirp.run(lambda i: load(at, i), lambda i, value: store(at, i, value))

        w.choose(direct, halving, chirping)
    return w.finish()


def _product(x: tuple[Scalar, Scalar], y: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


class _PowerOfTwo:
    """Transforms of length m, a power of 2, in scratch of two planes."""

    def __init__(self, w: Writer, m: Scalar, room: Size) -> None:
        self.w, self.m = w, m
        self.re, self.im = w.scratch(F64, 2, room), w.scratch(F64, 2, room)
        self.cos, self.sin = w.scratch(F64, room), w.scratch(F64, room)
        self.plane = w.variable(0)
        turn = w.constant(2 * np.pi, F64) / w.convert(m, F64)
        with w.loop(m / 2) as j:
            angle = w.convert(j, F64) * turn
            w.store(self.cos, (j,), w.apply("cos", angle))
            w.store(self.sin, (j,), w.apply("sin", angle))

    def put(self, i: Scalar, value: tuple[Scalar, Scalar]) -> None:
        self._store(0, i, value)

    def get(self, i: Scalar) -> tuple[Scalar, Scalar]:
        return self._load(self.plane.get(), i)

    def _load(self, plane: Scalar | int, i: Scalar) -> tuple[Scalar, Scalar]:
        return self.w.load(self.re, (plane, i)), self.w.load(self.im, (plane, i))

    def _store(self, plane: Scalar | int, i: Scalar, value: tuple[Scalar, Scalar]) -> None:
        self.w.store(self.re, (plane, i), value[0])
        self.w.store(self.im, (plane, i), value[1])

    def run(self, sign: Scalar) -> None:
        """What was put becomes its transform, with this sign in the exponent."""
        w = self.w
        self.plane.set(0)
        stride, span = w.variable(1), w.variable(self.m)
        with w.while_(lambda: span.get() > 1):
            s, half, source = stride.get(), span.get() / 2, self.plane.get()
            target = 1 - source
            with w.loop(half) as p:
                turn = w.load(self.cos, (p * s,)), w.load(self.sin, (p * s,)) * sign
                with w.loop(s) as q:
                    x, y = self._load(source, q + s * p), self._load(source, q + s * (p + half))
                    self._store(target, q + s * p * 2, (x[0] + y[0], x[1] + y[1]))
                    difference = (x[0] - y[0], x[1] - y[1])
                    self._store(target, q + s * (p * 2 + 1), _product(difference, turn))
            self.plane.set(target)
            stride.set(s * 2)
            span.set(half)


class _Chirp:
    """Transforms of any length n by a convolution of length m >= 2n - 1."""

    def __init__(self, w: Writer, n: Scalar, m: Scalar, size: Size, inverse: bool, transform: _PowerOfTwo) -> None:
        self.w, self.n, self.m, self.transform = w, n, m, transform
        self.sign = 1.0 if inverse else -1.0
        room = 4 * size + 1
        self.chirp = w.scratch(F64, 2, size)
        self.kernel = w.scratch(F64, 2, room)

    def prepare(self) -> None:
        """exp(sign i pi k^2 / n), and the transform of its conjugate over both directions."""
        w, n, m = self.w, self.n, self.m
        step = w.constant(np.pi * self.sign, F64) / w.convert(n, F64)
        with w.loop(n) as k:
            angle = w.convert(k * k % (n * 2), F64) * step
            w.store(self.chirp, (0, k), w.apply("cos", angle))
            w.store(self.chirp, (1, k), w.apply("sin", angle))
        self._clear()
        with w.loop(n) as k:
            value = w.load(self.chirp, (0, k)), -w.load(self.chirp, (1, k))
            self.transform.put(k, value)
            self.transform.put(w.where(k > 0, m - k, k), value)
        self.transform.run(w.constant(-1.0, F64))
        with w.loop(m) as k:
            re, im = self.transform.get(k)
            w.store(self.kernel, (0, k), re)
            w.store(self.kernel, (1, k), im)

    def _clear(self) -> None:
        w = self.w
        with w.loop(self.m) as k:
            self.transform.put(k, (w.constant(0.0, F64), w.constant(0.0, F64)))

    def _at(self, array: Array, k: Scalar) -> tuple[Scalar, Scalar]:
        return self.w.load(array, (0, k)), self.w.load(array, (1, k))

    def run(self, load: Callable[[Scalar], tuple[Scalar, Scalar]],
            store: Callable[[Scalar, tuple[Scalar, Scalar]], None]) -> None:
        w, n, m, transform = self.w, self.n, self.m, self.transform
        self._clear()
        with w.loop(n) as k:
            transform.put(k, _product(load(k), self._at(self.chirp, k)))
        transform.run(w.constant(-1.0, F64))
        source = transform.plane.get()
        with w.loop(m) as k:
            product = _product(transform._load(source, k), self._at(self.kernel, k))
            transform._store(source, k, product)
        with w.if_(source == 1), w.loop(m) as k:
            transform.put(k, transform._load(1, k))
        transform.run(w.constant(1.0, F64))
        scale = w.constant(1.0, F64) / w.convert(m, F64)
        with w.loop(n) as k:
            re, im = _product(transform.get(k), self._at(self.chirp, k))
            store(k, (re * scale, im * scale))


def _fft_derivative(node: Node, g: Node) -> tuple[Node | None, ...]:
    """The transform is its own transpose."""
    return (fft(g, inverse=node.attributes.inverse),)


fft_op = define_op(
    "fft", operands="x*", attributes=FftAttributes, infer=_infer_fft, reference=_fft_reference, pointful=PROCEDURAL,
    procedure=_fft_procedure, derivative=_of_parts(_fft_derivative),
    doc="The discrete Fourier transform along the last axis, of any length: the sum of x[n] exp(-2 pi i k n / N), with "
        "`inverse` of x[n] exp(2 pi i k n / N), which is not divided by N. Computed in double precision. The operand "
        "may be given as two, its parts; the result then has two.",
)
