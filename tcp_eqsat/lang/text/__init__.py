"""Our own text: `write` prints a program, `parse` reads it back exactly.

    tcp 1

    func @dense(%x: f32[b, 16], %w: f32[16, 10]) -> f32[b, 10] where b in [1, 512] {
      %0 = contract %x[i, k], %w[k, j] -> [i, j]: f32[b, 10]
      %1 = tanh %0: f32[b, 10]
      return %1
    }

Index names in brackets say which axes run together. The first line is the version of the format.
"""

from tcp_eqsat.lang.text.reader import parse
from tcp_eqsat.lang.text.writer import VERSION, write, write_function

__all__ = ["VERSION", "parse", "write", "write_function"]
