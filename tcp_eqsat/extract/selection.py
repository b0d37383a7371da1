"""A choice of e-nodes and of what is kept in memory: the state that extraction searches over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tcp_eqsat.extract.terms import GIVEN, WRITTEN, Form, Term, Terms


@dataclass
class Selection:
    """How every class is computed, and where.

    choice  for each class the index of its e-node (-1: nothing computes it)
    stored  classes that are written to memory where they are needed, and read from there; what steps of their own
            write is in memory without being here
    host    for stored classes: another stored class whose kernel stores this one too (it has no host itself)
    """

    terms: Terms
    choice: list[int]
    stored: set[int] = field(default_factory=set)
    host: dict[int, int] = field(default_factory=dict)

    def term(self, found: int) -> Term:
        return self.terms.terms[found][self.choice[found]]

    def form(self, found: int) -> Form:
        return self.term(found).form

    def target(self, root: int) -> int:
        """The class whose memory holds a result: through reshapes of what is computed."""
        current, seen = root, {root}
        while self.term(current).reshapes:
            (operand,) = self.term(current).operands
            through = self.form(current) is Form.RESHAPE or self.form(operand) in WRITTEN
            if not through or self.form(operand) in GIVEN or operand in seen:
                break
            current = operand
            seen.add(current)
        return current

    def targets(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self.target(root) for root in self.terms.view.roots))

    def in_memory(self, found: int) -> bool:
        """Whether a class that is not given is written to memory and read from there."""
        return found in self.stored or self.form(found) in WRITTEN

    def memory_under(self, found: int) -> list[int]:
        """The class and those below it whose memory it is under other axes.

        The last one is given or in memory, unless the memory of the class is nobody's.
        """
        passed = [found]
        while self.form(passed[-1]) not in GIVEN and not self.in_memory(passed[-1]):
            term = self.term(passed[-1])
            if not term.reshapes or term.operands[0] in passed:
                break
            passed.append(term.operands[0])
        return passed

    def kernel_of(self, found: int) -> int:
        """The class that names the kernel (or other step) which stores `found`."""
        if self.form(found) is Form.PROJECT:
            return self.term(found).operands[0]
        host = self.host.get(found)
        if host is None or host in self.host or not (found in self.stored and host in self.stored):
            return found
        return host

    def reachable(self) -> list[int]:
        """Every class that the chosen program uses, operands before users."""
        return list(self.walk(self.terms.view.roots))

    def walk(self, roots: Iterable[int]) -> Iterator[int]:
        """Operands before users, once each; operands of values that are given are left out."""
        seen: set[int] = set()
        stack: list[tuple[int, bool]] = [(root, False) for root in reversed(tuple(roots))]
        while stack:
            current, expanded = stack.pop()
            if expanded:
                yield current
            elif current not in seen:
                seen.add(current)
                stack.append((current, True))
                stack.extend((x, False) for x in reversed(self.term(current).operands) if x not in seen)
