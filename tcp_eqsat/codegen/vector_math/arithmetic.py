"""What the functions share: the builder they need, polynomials, powers of two, sums without error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tcp_eqsat.lang.builder import Builder, V


class MathBuilder(Builder[V], Protocol[V]):
    """A builder that tells whether `fma` rounds once."""

    @property
    def has_fma(self) -> bool: ...


VectorFunction = Callable[..., Any]
