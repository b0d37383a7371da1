"""Kernels of plans that are equal but for names: each is scheduled and emitted once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from tcp_eqsat.lang import pointful
from tcp_eqsat.lang.plan import Kernel, Plan, Role


@dataclass(frozen=True, slots=True)
class Use:
    """A kernel of a plan: the distinct kernel it equals, and which buffers stand for that kernel's buffers."""

    distinct: int
    buffers: Mapping[str, str]


class DistinctKernels:
    """Kernels that are equal but for the names of buffers and definitions are one.

    `kernels` are the distinct ones, each with the plan that it was first met in.
    """

    def __init__(self) -> None:
        self.kernels: list[tuple[Kernel, Plan]] = []
        self._known: dict[Hashable, tuple[int, tuple[str, ...]]] = {}

    def use(self, kernel: Kernel, plan: Plan) -> Use:
        """The kernel of a plan as a use of a distinct one."""
        key, roots = _kernel_key(kernel, plan)
        if key not in self._known:
            self._known[key] = len(self.kernels), roots
            self.kernels.append((kernel, plan))
        number, names = self._known[key]
        return Use(number, dict(zip(names, roots, strict=True)))


def _kernel_key(kernel: Kernel, plan: Plan) -> tuple[Hashable, tuple[str, ...]]:
    """What the kernel computes, without names; and the buffers it uses, in order of first use."""
    roots: dict[str, int] = {}
    own = {d.name: n for n, d in enumerate(kernel.definitions)}

    def place(name: str) -> Hashable:
        if name in own:
            return own[name]
        root = plan.root(name)
        constant = root.role is Role.CONSTANT  # which may be packed
        return roots.setdefault(root.name, len(roots)), plan.buffers[name].type, constant

    parts: list[Hashable] = []
    for definition in kernel.definitions:
        numbers: dict[int, int] = {}
        for expr in pointful.walk_expr(definition.expression):
            numbers[id(expr)] = len(numbers)
            operands = tuple(numbers[id(x)] for x in pointful.children(expr))
            parts.append((_own_part(expr), operands))
        parts.append((definition.type, tuple(map(place, definition.operands))))
    parts.extend((own[name], place(buffer)) for name, buffer in kernel.outputs)
    return tuple(parts), tuple(roots)


def _own_part(expr: pointful.Expr) -> Hashable:
    """The expression without its operands."""
    match expr:
        case pointful.Apply(op, _, dtype):
            return "apply", op, dtype
        case pointful.Fold(op, extents, first, _, contraction):
            return "fold", op, extents, first, contraction
        case pointful.Choose(ranges):
            return "choose", ranges
        case _:
            return expr
