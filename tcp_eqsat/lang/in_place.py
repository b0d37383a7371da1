"""Which steps of a plan change an operand where it lies, decided by what is needed when.

A routine that changes a copy of its operand needs no copy where it is the last to need the operand. Steps are put in an
order in which it is: whatever else reads the operand comes first, where that can be. So a loop whose body updates a
part of its state costs as much as the parts do.

    routine   the result takes the place of an operand that it is a changed copy of
    if, case  a result takes the place of an operand that every branch changes in place, or gives back
    loop      the body changes a value of the state in place; other values of the state are in two buffers in turn

Parameters and constants keep their values, except that the body of a control flow operation changes those parameters
that the operation gives to it for this. They are either what the operation itself changes in place, or, in a loop, the
memory of its result.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from tcp_eqsat.lang.ops.attributes import ScanAttributes, WhileAttributes
from tcp_eqsat.lang.plan import Buffer, Control, Kernel, Plan, Role, Routine, Step
from tcp_eqsat.lang.pointful import Operand, axis_index
from tcp_eqsat.lang.procedure_copies import copied_operands

Pairs = tuple[tuple[int, int], ...]
"""(operand or parameter, result) by number."""


def update_in_place(plan: Plan) -> Plan:
    """The same plan with everything updated in place that can be; it is `plan` where nothing can."""
    return _Bodies().updated(plan, ())


class _Bodies:
    """Plans as they are updated in place, each once: equal bodies stay one."""

    def __init__(self) -> None:
        self._updated: dict[tuple[int, Pairs], Plan] = {}
        self._possible: dict[int, Pairs] = {}
        self._kept: list[Plan] = []

    def updated(self, plan: Plan, pairs: Pairs) -> Plan:
        """The plan where these results take the place of these parameters."""
        key = id(plan), pairs
        if key not in self._updated:
            self._kept.append(plan)
            memory = _Memory(plan, self)
            for parameter, result in pairs:
                done = memory.tie(parameter, result)
                assert done, f"result {result} of {plan.name} can't take the place of parameter {parameter}"
            memory.reuse_temporaries()
            self._updated[key] = memory.plan(pairs)
        return self._updated[key]

    def possible(self, plan: Plan) -> Pairs:
        """Which results can take the place of which parameters, all at once."""
        if id(plan) not in self._possible:
            self._kept.append(plan)
            memory = _Memory(plan, self)
            self._possible[id(plan)] = tuple(
                (parameter, result) for result in range(len(plan.results))
                for parameter in memory.sources(result) if memory.tie(parameter, result))
        return self._possible[id(plan)]

    def changed(self, step: Step) -> Pairs:
        """The operands whose place results could take, as far as the step itself goes."""
        match step:
            case Routine(procedure=procedure):
                return copied_operands(procedure)
            case Control(attributes=WhileAttributes() | ScanAttributes()):
                return self._state(step)
            case Control(bodies=bodies):
                everywhere = set.intersection(*(set(self.possible(body)) for body in bodies))
                return tuple((j + 1, k) for j, k in sorted(everywhere))
            case _:
                return ()

    def _state(self, step: Control) -> Pairs:
        """The values of the state that a loop's body changes in place."""
        attributes = step.attributes
        count = attributes.count if isinstance(attributes, WhileAttributes) else attributes.carries
        return tuple((j, k) for j, k in self.possible(step.bodies[-1]) if j == k < count)

    def step(self, step: Step, pairs: Pairs) -> Step:
        """The step where these results take the place of these operands."""
        match step:
            case Control(attributes=WhileAttributes() | ScanAttributes()):
                *others, body = step.bodies
                bodies = (*(self.updated(each, ()) for each in others), self.updated(body, self._state(step)))
            case Control():
                own = tuple((j - 1, k) for j, k in pairs)
                bodies = tuple(self.updated(body, own) for body in step.bodies)
            case _:
                return dataclasses.replace(step, in_place=pairs) if isinstance(step, Routine) and pairs else step
        if not pairs and all(x is y for x, y in zip(bodies, step.bodies, strict=True)):
            return step
        return dataclasses.replace(step, bodies=bodies, in_place=pairs)


@dataclasses.dataclass
class _Choices:
    """What was decided.

    within  values in the memory of another value; same: results that are a parameter, given back
    pairs   by step, the results that take the place of operands
    ports   by value, the results of the plan that it is
    after   by step, those that must follow it
    free    parameters that may be overwritten
    """

    within: dict[str, str]
    same: dict[str, str]
    pairs: dict[int, Pairs]
    ports: dict[str, tuple[int, ...]]
    after: list[frozenset[int]]
    free: frozenset[str]

    def copy(self) -> _Choices:
        return _Choices(
            dict(self.within), dict(self.same), dict(self.pairs), dict(self.ports), list(self.after), self.free)


class _Memory:
    """Which values of a plan lie in whose memory, and which steps must follow which.

    A value is a buffer that is no other shape of another one; steps are named by their numbers.
    """

    def __init__(self, plan: Plan, bodies: _Bodies) -> None:
        self._plan = plan
        self._bodies = bodies
        self._changed = [bodies.changed(step) for step in plan.steps]
        self._readers: dict[str, set[int]] = defaultdict(set)
        self._writers: dict[str, list[int]] = defaultdict(list)
        for number, step in enumerate(plan.steps):
            for value in map(self._value, step.loads):
                self._readers[value].add(number)
            for value in map(self._value, step.stores):
                self._writers[value].append(number)
        after: list[set[int]] = [set() for _ in plan.steps]
        for value, writers in self._writers.items():
            for writer in writers:
                after[writer] |= self._readers[value] - {writer}
        ports: dict[str, tuple[int, ...]] = {}
        for number in range(len(plan.results)):
            value = self._result(number)
            ports[value] = (*ports.get(value, ()), number)
        self._now = _Choices({}, {}, {}, ports, list(map(frozenset, after)), frozenset())

    def _value(self, buffer: str) -> str:
        return self._plan.value(buffer).name

    def _result(self, number: int) -> str:
        return self._value(self._plan.results[number].buffer)

    def _parameter(self, number: int) -> str:
        return self._value(self._plan.parameters[number].buffer)

    def _root(self, name: str) -> Buffer:
        """The buffer that owns the memory."""
        found = self._plan.root(name)
        while (owner := self._now.within.get(found.name) or self._now.same.get(found.name)) is not None:
            found = self._plan.root(owner)
        return found

    # Results in the place of parameters

    def sources(self, result: int) -> tuple[int, ...]:
        """The parameters that a result is a changed copy of, step by step."""
        numbers = {self._parameter(n): n for n in range(len(self._plan.parameters))}
        ends = [chain[-1] for chain in self._chains(self._result(result))]
        return tuple(dict.fromkeys(numbers[end] for end in ends if end in numbers))

    def tie(self, parameter: int, result: int) -> bool:
        """Puts a result in the place of a parameter, where that can be; otherwise nothing changes."""
        goal, before = self._parameter(parameter), self._now
        for chain in self._chains(self._result(result)):
            self._now = before.copy()
            self._now.free |= {goal}
            if chain[-1] == goal and all(map(self._take, chain[1:], chain)):
                return True
        self._now = before
        return False

    def _chains(self, value: str) -> Iterator[list[str]]:
        """The value, what it is a changed copy of, what that is a changed copy of, ...: each way to a value that is no
        such copy."""
        sources = [source for source, _ in self._origins(value)]
        if not sources:
            yield [value]
        for source in sources:
            for chain in self._chains(source):
                yield [value, *chain]

    def _origins(self, value: str) -> Iterator[tuple[str, Callable[[], bool]]]:
        """What a value is a changed copy of, and how to put it in the place of that."""
        if len(self._writers[value]) != 1:
            return
        (number,) = self._writers[value]
        step = self._plan.steps[number]
        if isinstance(step, Kernel):
            source = self._given_back(step, value)
            if source is not None:
                yield source, functools.partial(self._give_back, source, value)
            return
        for operand, result in self._changed[number]:
            if self._value(step.results[result]) == value:
                yield self._value(step.operands[operand]), functools.partial(self._replace, number, operand, result)

    def _take(self, source: str, value: str) -> bool:
        """Puts a value in the place of what it is a changed copy of."""
        return any(origin == source and place() for origin, place in self._origins(value))

    # What is given back as it is

    def _given_back(self, kernel: Kernel, value: str) -> str | None:
        """The parameter that a kernel only copies into a result, which no step reads."""
        if self._readers[value] or value not in self._now.ports:
            return None
        definitions = {d.name: d for d in kernel.definitions}
        for name, buffer in kernel.outputs:
            found = definitions[name]
            identity = Operand(0, tuple(map(axis_index, range(found.type.rank))), found.type.dtype)
            if buffer == value and found.expression == identity and found.operands[0] not in definitions:
                source = self._plan.buffers[found.operands[0]]
                if source.type == found.type and source.role is Role.PARAMETER:
                    return self._value(source.name)
        return None

    def _give_back(self, source: str, value: str) -> bool:
        """Makes a result that is a copy of a parameter the parameter itself."""
        now = self._now
        if source in now.ports or source not in now.free:
            return False
        now.same[value] = source
        now.ports[source] = now.ports.pop(value)
        return True

    # Steps that change an operand

    def reuse_temporaries(self) -> None:
        """Puts results of steps in the place of temporaries."""
        for number, step in enumerate(self._plan.steps):
            for operand, result in self._changed[number]:
                assert not isinstance(step, Kernel)
                if self._plan.buffers[self._value(step.operands[operand])].role is Role.TEMPORARY:
                    self._replace(number, operand, result)

    def _replace(self, number: int, operand: int, result: int) -> bool:
        """Puts a step's result in the place of its operand, where nothing need read the operand after it."""
        step, now = self._plan.steps[number], self._now
        assert not isinstance(step, Kernel)
        source, value = self._value(step.operands[operand]), self._value(step.results[result])
        pairs = now.pairs.get(number, ())
        if any(j == operand or k == result for j, k in pairs):
            return (operand, result) in pairs
        memory, other = self._root(source), self._root(value)
        readers = self._readers[source] - {number}
        besides = {self._root(name).name for j, name in enumerate(step.operands) if j != operand}
        if (not self._is_free(source) or source in now.ports or len(self._writers[source]) > 1
                or self._writers[value] != [number] or memory.name in besides or memory.name == other.name
                or any(self._must_follow(reader, number) for reader in readers)):
            return False
        for reader in readers:
            now.after[reader] |= {number}
        now.pairs[number] = tuple(sorted((*pairs, (operand, result))))
        if memory.role is Role.TEMPORARY:
            now.within[memory.name] = other.name
        else:
            now.within[other.name] = memory.name
        return True

    def _is_free(self, value: str) -> bool:
        """Whether a value may be overwritten when nothing reads it any more."""
        role = self._plan.buffers[value].role
        return role is not Role.CONSTANT and (role is not Role.PARAMETER or value in self._now.free)

    def _must_follow(self, step: int, first: int) -> bool:
        """Whether a step must come after another one."""
        seen, left = {first}, [first]
        while left:
            following = self._now.after[left.pop()] - seen
            seen |= following
            left.extend(following)
        return step in seen

    # The plan

    def plan(self, in_place: Pairs) -> Plan:
        """The plan as decided, its steps in an order that fits; the plan itself where nothing changes."""
        plan, now = self._plan, self._now
        steps = {n: self._bodies.step(self._without_copies(step), now.pairs.get(n, ()))
                 for n, step in enumerate(plan.steps)}
        if not in_place and all(steps[n] is step for n, step in enumerate(plan.steps)):
            return plan
        buffers = {name: dataclasses.replace(buffer, alias=now.same.get(name, buffer.alias),
                                             within=now.within.get(name, buffer.within))
                   for name, buffer in plan.buffers.items()}
        ordered = [steps[n] for n in self._order()]
        return dataclasses.replace(
            plan, buffers=buffers, in_place=in_place,
            steps=tuple(step for step in ordered if not isinstance(step, Kernel) or step.outputs))

    def _without_copies(self, step: Step) -> Step:
        """A kernel without copies of parameters that are given back."""
        if not isinstance(step, Kernel) or not any(buffer in self._now.same for buffer in step.stores):
            return step
        outputs = tuple((name, buffer) for name, buffer in step.outputs if buffer not in self._now.same)
        needed = {name for name, _ in outputs}
        kept = []
        for definition in reversed(step.definitions):
            if definition.name in needed:
                needed.update(definition.operands)
                kept.append(definition)
        return dataclasses.replace(step, definitions=tuple(reversed(kept)), outputs=outputs)

    def _order(self) -> Iterator[int]:
        """The steps, each as early as its number and those that it must follow allow."""
        waiting = Counter(number for following in self._now.after for number in following)
        ready = [n for n in range(len(self._plan.steps)) if not waiting[n]]
        while ready:
            number = heapq.heappop(ready)
            yield number
            for following in self._now.after[number]:
                waiting[following] -= 1
                if not waiting[following]:
                    heapq.heappush(ready, following)
