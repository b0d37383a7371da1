"""One compiled function for every batch size in a range, and what happens outside it."""

import numpy as np

import tcp_eqsat as tcp

program = tcp.trace(
    lambda x: tcp.nn.layer_norm(x), tcp.spec("f32[batch, 256]", batch=(0, 512)), name="normalise")
f = tcp.compile(program)

for batch in (0, 1, 7, 512):
    x = np.random.default_rng(batch).standard_normal((batch, 256)).astype(np.float32)
    y = f(x)
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    assert y.shape == x.shape and np.allclose(y, expected, atol=1e-5)
    print(f"batch {batch}: fine")

try:
    f(np.zeros((513, 256), np.float32))
except tcp.TcpError as error:
    print(f"batch 513: {type(error).__name__}: {error}")
else:
    raise AssertionError("a batch outside the range must be refused")


@tcp.jit
def scaled(a, b):
    return tcp.numpy.exp(a) * b


print(scaled(np.ones((3, 4), np.float32), np.ones(4, np.float32)).sum())
print(scaled(np.ones((9, 5), np.float32), np.ones(5, np.float32)).sum())
assert len(scaled.variants) == 1
