"""A small network: written with operators, compiled, compared with NumPy."""

import numpy as np

import tcp_eqsat as tcp


def network(x, w1, b1, w2, b2):
    hidden = tcp.numpy.tanh(x @ w1 + b1)
    return tcp.nn.softmax(hidden @ w2 + b2)


program = tcp.trace(
    network,
    tcp.spec("f32[batch, 64]"), tcp.spec("f32[64, 128]"), tcp.spec("f32[128]"),
    tcp.spec("f32[128, 10]"), tcp.spec("f32[10]"),
)

random = np.random.default_rng(0)
w1, b1, w2, b2 = (random.standard_normal(shape).astype(np.float32) * 0.1 for shape in ((64, 128), 128, (128, 10), 10))

# Weights that do not change are frozen: they are packed and folded at compile time.
f = tcp.compile(program, constants={"w1": w1, "b1": b1, "w2": w2, "b2": b2})

x = random.standard_normal((32, 64)).astype(np.float32)
y = f(x)

hidden = np.tanh(x @ w1 + b1)
scores = np.exp(hidden @ w2 + b2)
expected = scores / scores.sum(1, keepdims=True)
print(f)
print(f"largest difference from NumPy: {np.abs(y - expected).max():.1e}")
assert np.allclose(y, expected, atol=1e-6)
