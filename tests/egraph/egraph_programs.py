"""Small programs of every kind, and the evaluation of every e-node of a view."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tcp_eqsat.egraph import EGraphView, ENode
from tcp_eqsat.frontends import array_api as xp
from tcp_eqsat.frontends import neural as nn
from tcp_eqsat.frontends.tracing import Spec, spec, trace
from tcp_eqsat.lang.op import bind_sizes
from tcp_eqsat.lang.program import Function
from tcp_eqsat.lang.types import TensorType, is_float_array


def mlp_tanh(x, w1, b1, w2, b2):
    return xp.tanh(xp.tanh(x @ w1 + b1) @ w2 + b2)


def mlp_full(x, w1, b1, w2, b2):
    hidden = 0.5 * xp.tanh(0.5 * (x @ w1 + b1)) + 0.5
    return nn.softmax(hidden @ w2 + b2)


def attention(x, wq, wk, wv, bq, bk, bv, wo):
    """Heads are axes of the weights, so that nothing is reshaped."""
    q = xp.einsum("bse,ehd->bshd", x, wq) + bq
    k = xp.einsum("bse,ehd->bshd", x, wk) + bk
    v = xp.einsum("bse,ehd->bshd", x, wv) + bv
    q, k, v = (xp.permute_dims(each, (0, 2, 1, 3)) for each in (q, k, v))
    scores = xp.einsum("bhsd,bhtd->bhst", q, k) * 0.5
    mixed = xp.permute_dims(xp.einsum("bhst,bhtd->bhsd", nn.softmax(scores), v), (0, 2, 1, 3))
    return xp.einsum("bshd,hde->bse", mixed, wo)


def chain(a, b, c, v):
    return ((a @ b) @ c) @ v, xp.matrix_transpose(a @ b), (a * 2.0) @ b


def pieces(x, y):
    joined = xp.concat((x, y * 2.0, x[:, ::2]), axis=1)
    padded = xp.pad(joined, ((1, 0), (0, 2)), 1.5)
    return padded[1:, :], xp.max(padded, axis=0), xp.exp(-joined[:, 1:3]), xp.reshape(x, (-1,))


def integers(x, y):
    z = (x + y) * (x - y) + x * 0 + 1 * y
    return xp.divide(z, 3), xp.sum(z, axis=1), xp.negative(-z), z * z, xp.maximum(z, xp.minimum(z, x))


def booleans(x, y):
    either = (x > y) | (y > x)
    return xp.where(either, x, y), ~(~either), xp.any(either, axis=0), xp.where(x == x, x - y, y)


def layers(x, scale, bias):
    return nn.layer_norm(x, scale, bias), nn.gelu(x) / 2.0, xp.sum(xp.sum(x, axis=1), axis=0)


def _specs(*texts: str) -> tuple[Spec, ...]:
    return tuple(map(spec, texts))


PROGRAMS: dict[str, tuple[Callable[..., object], tuple[Spec, ...]]] = {
    "mlp_tanh": (mlp_tanh, _specs("f64[b, 6]", "f64[6, 5]", "f64[5]", "f64[5, 3]", "f64[3]")),
    "mlp_full": (mlp_full, _specs("f64[b, 6]", "f64[6, 5]", "f64[5]", "f64[5, 3]", "f64[3]")),
    "attention": (attention, _specs(
        "f64[2, s, 6]", "f64[6, 2, 3]", "f64[6, 2, 3]", "f64[6, 2, 3]", "f64[2, 3]", "f64[2, 3]", "f64[2, 3]",
        "f64[2, 3, 6]")),
    "chain": (chain, _specs("f64[4, 3]", "f64[3, 5]", "f64[5, 2]", "f64[2]")),
    "pieces": (pieces, _specs("f64[b, 4]", "f64[b, 4]")),
    "integers": (integers, _specs("i32[b, 4]", "i32[b, 4]")),
    "booleans": (booleans, _specs("f32[b, 4]", "f32[b, 4]")),
    "layers": (layers, _specs("f64[b, 8]", "f64[8]", "f64[8]")),
}
BINDINGS = {"b": 3, "s": 4}


def program(name: str) -> Function:
    """One of PROGRAMS, traced."""
    function, specs = PROGRAMS[name]
    return trace(function, *specs).main


def arrays(function: Function, seed: int, *, nasty: bool = False) -> list[np.ndarray]:
    """Arguments for BINDINGS; `nasty` adds infinities, NaN and -0."""
    generator = np.random.default_rng(seed)
    found = []
    for parameter in function.parameters:
        type_: TensorType = bind_sizes(parameter.type, BINDINGS)
        values = generator.standard_normal(type_.shape)
        if type_.dtype.is_integer:
            values = generator.integers(-9, 9, type_.shape)
        elif nasty:
            special = generator.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], type_.shape)
            values = np.where(generator.random(type_.shape) < 0.3, special, values)
        found.append(np.asarray(values, type_.dtype.numpy))
    return found


def evaluate_enode(node: ENode, operands: Sequence[np.ndarray], type_: TensorType,
                   arguments: Sequence[np.ndarray]) -> np.ndarray:
    """The value of one e-node by the reference of its operation."""
    if node.op.name == "parameter":
        return arguments[node.attributes.index]
    attributes = None if node.attributes is None else bind_sizes(node.attributes, BINDINGS)
    with np.errstate(all="ignore"):
        return np.asarray(node.op.reference(attributes, bind_sizes(type_, BINDINGS), *operands))


def evaluate_classes(view: EGraphView, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The value of every class, by its first e-node over smaller classes."""
    values: list[np.ndarray] = []
    for number, members in enumerate(view.classes):
        node = next(x for x in members if all(operand < number for operand in x.operands))
        values.append(evaluate_enode(node, [values[x] for x in node.operands], view.types[number], arguments))
    return values


def disagreements(view: EGraphView, arguments: Sequence[np.ndarray],
                  same: Callable[[np.ndarray, np.ndarray], bool]) -> list[str]:
    """Every e-node whose value is not the value of its class."""
    values = evaluate_classes(view, arguments)
    found = []
    for number, members in enumerate(view.classes):
        type_ = bind_sizes(view.types[number], BINDINGS)
        for node in members:
            value = evaluate_enode(node, [values[x] for x in node.operands], view.types[number], arguments)
            if value.shape != type_.shape or value.dtype != type_.dtype.numpy or not same(value, values[number]):
                found.append(f"class {number} ({view.types[number]}): {node} gives {value}, not {values[number]}")
    return found


def close(x: np.ndarray, y: np.ndarray) -> bool:
    """Equal up to rounding of double precision."""
    if x.dtype.kind == "c":
        return close(x.real, y.real) and close(x.imag, y.imag)
    if not is_float_array(x):
        return bool(np.array_equal(x, y))
    relative = 1e-9 if x.dtype == np.float64 else 1e-5
    x, y = x.astype(np.float64), y.astype(np.float64)
    scale = np.max(np.abs(y), initial=1.0, where=np.isfinite(y))
    return bool(np.allclose(x, y, rtol=relative, atol=1e-9 * scale, equal_nan=True))


def identical(x: np.ndarray, y: np.ndarray) -> bool:
    """The same bits, any NaN for any NaN."""
    if x.dtype.kind == "c":
        return identical(x.real, y.real) and identical(x.imag, y.imag)
    if not is_float_array(x):
        return bool(np.array_equal(x, y))
    x, y = x.astype(np.float64), y.astype(np.float64)
    same = (x == y) & (np.signbit(x) == np.signbit(y)) | np.isnan(x) & np.isnan(y)
    return bool(same.all())
