"""Rules and sets of rules: frozen values. Declaring a rule registers nothing."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from tcp_eqsat.errors import Location, RuleError, UnknownName
from tcp_eqsat.lang.tiers import EXACT, Permissions
from tcp_eqsat.rules.attribute import AttributeApply, AttributeConstant, AttributeVariable
from tcp_eqsat.rules.condition import ALWAYS, Condition
from tcp_eqsat.rules.pattern import (
    Apply,
    Operand,
    OperationVariable,
    Pattern,
    Splat,
    TensorVariable,
    attribute_variables,
    lift,
    operation_variables,
    signature,
    tensor_variables,
)


class Phase(enum.Enum):
    """When saturation runs a rule: first what makes programs smaller or canonical, then what offers alternatives."""

    SIMPLIFY = "simplify"
    EXPLORE = "explore"


@dataclass(frozen=True, slots=True)
class Rule:
    """Where all `lefts` match and the condition holds, each is equal to the right at its place.

    needs          the permissions without which the rule is not loaded
    bidirectional  the rights may be replaced by the lefts as well
    where          the line that declares it
    """

    name: str
    lefts: tuple[Pattern, ...]
    rights: tuple[Pattern, ...]
    condition: Condition
    needs: Permissions
    phase: Phase
    bidirectional: bool
    doc: str
    where: Location | None = field(default=None, compare=False, repr=False)

    @property
    def left(self) -> Pattern:
        """The pattern of a rule with one root."""
        (left,) = self.lefts
        return left

    @property
    def right(self) -> Pattern:
        """The replacement of a rule with one root."""
        (right,) = self.rights
        return right

    def directions(self) -> tuple[Rule, ...]:
        """One rule for each direction in which it applies; the second is called `<name>_reversed`."""
        forward = replace(self, bidirectional=False)
        if not self.bidirectional:
            return (forward,)
        lefts = tuple(map(_without_likes, self.rights))
        rights = _with_likes(lefts, tuple(map(_without_likes, self.lefts)))
        return forward, replace(forward, name=f"{self.name}_reversed", lefts=lefts, rights=rights)

    def __str__(self) -> str:
        arrow = "<->" if self.bidirectional else "->"
        text = f"{_side(self.lefts)} {arrow} {_side(self.rights)}"
        return f"{text}  when {self.condition}" if self.condition.parts else text


def _side(patterns: tuple[Pattern, ...]) -> str:
    return str(patterns[0]) if len(patterns) == 1 else "{" + ", ".join(map(str, patterns)) + "}"


Side = Operand | tuple[Operand, ...]


def rule(name: str, pattern: Side, replacement: Side, *, doc: str, when: Condition = ALWAYS,
         needs: Permissions = EXACT, bidirectional: bool = False, phase: Phase = Phase.EXPLORE) -> Rule:
    """A rule: wherever `pattern` matches and `when` holds, `replacement` is equal to it.

    A tuple of patterns and one of replacements make a rule with several roots. `needs` are the permissions without
    which the equality does not hold: none means equal values for every input. Raises RuleError where the rule can't
    be used: unbound variables, computed attributes on the left, a left side that matches everything.
    """
    frame = sys._getframe(1)
    where = Location(frame.f_code.co_filename, frame.f_lineno, 1)
    try:
        lefts = tuple(map(lift, pattern if isinstance(pattern, tuple) else (pattern,)))
        rights = tuple(map(lift, replacement if isinstance(replacement, tuple) else (replacement,)))
        if not name.isidentifier() or not doc.strip():
            raise RuleError("a rule requires an identifier as its name and a doc")
        _check_sides(lefts, rights, when)
        if bidirectional:
            _check_sides(rights, lefts, when)
        rights = _with_likes(lefts, rights)
        return Rule(name, lefts, rights, when, needs, phase, bidirectional, doc, where)
    except RuleError as error:
        raise RuleError(f"rule {name}: {error.message}", where) from None


def _check_sides(lefts: tuple[Pattern, ...], rights: tuple[Pattern, ...], when: Condition) -> None:
    if not lefts or len(lefts) != len(rights):
        raise RuleError(f"as many replacements as patterns are required, got {len(rights)} for {len(lefts)}")
    for left in lefts:
        if isinstance(left, (TensorVariable, Splat)):
            raise RuleError(f"the left side {left} matches everything of its kind")
        for part in left.walk():
            computed = [x for x in part.attributes if isinstance(x, AttributeApply)]
            if computed:
                raise RuleError(f"the left side can't have a computed attribute, got {computed[0]} in {part}")
    bound: set[TensorVariable | AttributeVariable] = {*tensor_variables(*lefts), *attribute_variables(*lefts)}
    for variable in (*tensor_variables(*rights), *attribute_variables(*rights), *when.variables()):
        if variable not in bound:
            raise RuleError(f"{variable.name} is not bound by the left side")
    for operation in operation_variables(*rights):
        if operation not in operation_variables(*lefts):
            raise RuleError(f"{operation.name} is not bound by the left side")
    names = [x.name for x in bound] + [x.name for x in operation_variables(*lefts)]
    for name in names:
        if names.count(name) > 1:
            raise RuleError(f"{name} names variables of two kinds")


# Which value a splat of a replacement is like ----------------------------------------------------


def _without_likes(pattern: Pattern) -> Pattern:
    if isinstance(pattern, Splat):
        return Splat(pattern.value)
    return pattern.with_operands(tuple(map(_without_likes, pattern.operands)))


def _with_likes(lefts: tuple[Pattern, ...], rights: tuple[Pattern, ...]) -> tuple[Pattern, ...]:
    return tuple(_place(right, _without_likes(left), _without_likes(left))
                 for left, right in zip(lefts, rights, strict=True))


def _place(pattern: Pattern, shaped: Pattern | None, typed: Pattern | None) -> Pattern:
    """`pattern` with the splats in it placed; `shaped` has its shape and `typed` its whole type, where known."""
    if isinstance(pattern, Splat):
        if pattern.like is not None:
            return pattern
        like = typed if isinstance(pattern.value, AttributeConstant) else typed or shaped
        if like is None:
            raise RuleError(f"the type of {pattern} does not follow from its place; write full_like(x, {pattern})")
        return Splat(pattern.value, like)
    if not isinstance(pattern, Apply):
        return pattern.with_operands(tuple(_place(x, None, None) for x in pattern.operands))
    siblings = [_type_source(x) for x in pattern.arguments]
    shape = shaped or next((x for x in map(_shape_source, pattern.arguments) if x is not None), None)
    if isinstance(pattern.operation, OperationVariable):
        return Apply(pattern.operation, tuple(_place(x, shape, None) for x in pattern.arguments))
    classes, result = signature(pattern.operation)
    chosen = typed if result is None else None
    for source, fixed in zip(siblings, classes, strict=True):
        if source is not None and fixed is None:
            chosen = source
    return Apply(pattern.operation, tuple(
        _place(x, shape, chosen if fixed is None else None)
        for x, fixed in zip(pattern.arguments, classes, strict=True)))


def _shape_source(pattern: Pattern) -> Pattern | None:
    """A tensor variable with the shape of `pattern`."""
    if isinstance(pattern, TensorVariable):
        return pattern
    if isinstance(pattern, Apply):
        return next((x for x in map(_shape_source, pattern.arguments) if x is not None), None)
    return None


def _type_source(pattern: Pattern) -> Pattern | None:
    """A tensor variable with the type of `pattern`."""
    if isinstance(pattern, TensorVariable):
        return pattern
    if isinstance(pattern, Apply) and not isinstance(pattern.operation, OperationVariable):
        classes, result = signature(pattern.operation)
        if result is None:
            for x, fixed in zip(pattern.arguments, classes, strict=True):
                source = _type_source(x) if fixed is None else None
                if source is not None:
                    return source
    return None


# Sets ----------------------------------------------------


class RuleSet:
    """An immutable, ordered set of rules with unique names. `a + b` and `a - b` by name; iterates in order."""

    __slots__ = ("_rules",)

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules: dict[str, Rule] = {}
        for each in rules:
            known = self._rules.setdefault(each.name, each)
            if known != each:
                raise RuleError(f"two rules are called {each.name}", each.where)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules.values())

    def __len__(self) -> int:
        return len(self._rules)

    def __contains__(self, item: object) -> bool:
        return item in self._rules if isinstance(item, str) else item in self._rules.values()

    def __getitem__(self, name: str) -> Rule:
        """The rule called `name`; raises UnknownName."""
        try:
            return self._rules[name]
        except KeyError:
            raise UnknownName(f"no rule {name!r}") from None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._rules)

    def __add__(self, other: RuleSet | Rule) -> RuleSet:
        """The rules of both; raises RuleError where two different rules have one name."""
        return RuleSet((*self, *((other,) if isinstance(other, Rule) else other)))

    def __sub__(self, other: RuleSet | Rule | str) -> RuleSet:
        """The rules whose names are not in `other`; raises UnknownName for a name that is not here."""
        if isinstance(other, str):
            names = {self[other].name}
        else:
            names = {other.name} if isinstance(other, Rule) else set(other.names)
        return RuleSet(each for each in self if each.name not in names)

    def select(self, keep: Callable[[Rule], bool]) -> RuleSet:
        """The rules for which `keep` is true."""
        return RuleSet(filter(keep, self))

    def granted(self, numerics: Permissions) -> RuleSet:
        """The rules that may be loaded under `numerics`."""
        return self.select(lambda each: numerics.granted(each.needs))

    def phase(self, phase: Phase) -> RuleSet:
        """The rules of one phase."""
        return self.select(lambda each: each.phase is phase)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RuleSet) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"RuleSet({len(self)} rules)"
