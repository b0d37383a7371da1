"""How much work may be spent. Counts give reproducible results; time is a safety net that says when it cut."""

from __future__ import annotations

from dataclasses import dataclass

from tcp_eqsat.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of saturation and extraction.

    seconds     wall-clock time, a safety net; the search for kernels gets what saturation leaves, at least a quarter
    nodes       e-nodes that an e-graph may hold
    growth      e-nodes that it may hold for each of the program (small programs may have 2,000)
    iterations  rounds of rewriting in each stage
    steps       moves that the search for kernels may evaluate

    Raises ArgumentError for a limit that is not positive.
    """

    seconds: float = 10.0
    nodes: int = 200_000
    growth: float = 12.0
    iterations: int = 12
    steps: int = 20_000

    def __post_init__(self) -> None:
        for name in ("seconds", "nodes", "growth", "iterations", "steps"):
            found = getattr(self, name)
            if not isinstance(found, (int, float)) or not found > 0:
                raise ArgumentError(f"budget {name} must be positive, got {found!r}")

    def node_limit(self, program: int) -> int:
        """The e-nodes that an e-graph may hold that began with `program`."""
        return min(self.nodes, max(2_000, int(self.growth * program)))
