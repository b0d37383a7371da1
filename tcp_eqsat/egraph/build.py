"""What a rule adds, as actions of egglog, and the deferred table where something is left to Python."""

from __future__ import annotations

from tcp_eqsat.egraph.columns import TYPE, Codec, codec_of
from tcp_eqsat.egraph.deferred import DeferredTable
from tcp_eqsat.egraph.encode import TYPED_BY_RULES
from tcp_eqsat.egraph.instance import Instance, is_decided_in_python
from tcp_eqsat.egraph.match import NUMBER, Matcher, attribute_fields, without_likes
from tcp_eqsat.egraph.schema import MAPS, OPAQUE, SCALAR, constructor_of
from tcp_eqsat.errors import RuleError
from tcp_eqsat.lang.op import op_named
from tcp_eqsat.lang.ops.movement import view_op
from tcp_eqsat.lang.scalar import ScalarOp
from tcp_eqsat.lang.types import TensorType
from tcp_eqsat.rules.attribute import AttributeConstant, AttributeTerm, AttributeVariable
from tcp_eqsat.rules.condition import Condition
from tcp_eqsat.rules.pattern import Apply, Operation, Pattern, Splat, TensorVariable


class Builder:
    """Terms of the replacements, and the deferred table where something is left to Python."""

    def __init__(self, matcher: Matcher, equalities: tuple[tuple[Pattern, Pattern | None], ...], condition: Condition,
                 strict: bool) -> None:
        self.matcher = matcher
        self._equalities = equalities
        self.condition = condition
        self._strict = strict
        self.facts: list[str] = []
        self.lets: list[str] = []
        self._computed: dict[AttributeTerm, tuple[Codec, tuple[str, ...], Pattern | None]] = {}
        self._typed: dict[Pattern, tuple[str, str]] = {}
        self._terms: dict[Pattern, str] = {}

    def term(self, pattern: Pattern) -> str:
        """Text that makes the root of a replacement."""
        return self._make(pattern)

    def _operand(self, pattern: Pattern) -> str:
        """A name for an inner value; values that occur twice are made once."""
        if isinstance(pattern, TensorVariable):
            return self.matcher.tensors[pattern.name]
        known = self._terms.get(pattern)
        if known is None:
            text = self._make(pattern)
            known = self._terms[pattern] = f"?r{len(self._terms)}"
            self.lets.append(f"(let {known} {text})")
            if isinstance(pattern, Operation) and pattern.name not in TYPED_BY_RULES:
                dtype, shape = self._typed[pattern] = (f"{known}_dtype", f"{known}_shape")
                self.lets.append(f"(set (dtype {known}) {dtype})")
                self.lets.append(f"(set (shape {known}) {shape})")
        return known

    def _make(self, pattern: Pattern) -> str:
        match pattern:
            case TensorVariable(name):
                return self.matcher.tensors[name]
            case Splat(value, like):
                assert like is not None, pattern
                return self._splat(value, like)
            case Apply(operation, arguments):
                name = (f'"{operation.name}"' if isinstance(operation, ScalarOp)
                        else self.matcher.operations[operation.name])
                return MAPS[len(arguments)].text(tuple(map(self._operand, arguments)), (name,))
            case Operation(name, arguments, terms):
                constructor = constructor_of(op_named(name))
                assert constructor is not OPAQUE
                columns = tuple(text for term, (_, codec) in zip(terms, attribute_fields(name), strict=True)
                                for text in self._columns(term, codec, None))
                return constructor.text(tuple(map(self._operand, arguments)), columns)
        raise RuleError(f"rule {self.matcher.name}: {pattern} can't stand in a replacement", self.matcher.where)

    def _splat(self, value: AttributeTerm, like: Pattern) -> str:
        source = self.matcher.class_of(like)
        matched = len(self.matcher.facts)
        shape = self.matcher.shape(source)
        if isinstance(value, AttributeConstant):
            dtype = self.matcher.dtype(source)
            columns: tuple[str, ...] = (dtype, self.matcher.literal(value, dtype))
        else:
            columns = self._columns(value, NUMBER, like)
        self.facts += self.matcher.facts[matched:]
        del self.matcher.facts[matched:]
        return constructor_of(view_op).text((SCALAR.text((), columns),), ("(vec-of 0)", shape))

    def _columns(self, term: AttributeTerm, codec: Codec, like: Pattern | None) -> tuple[str, ...]:
        if isinstance(term, AttributeConstant):
            return codec.encode(term.value)
        if isinstance(term, AttributeVariable):
            bound, names = self.matcher.attributes[term.name]
            if bound is codec:
                return names
        known = self._computed.get(term)
        if known is None or known[0] is not codec:
            number = len(self._computed)
            names = tuple(f"?c{number}_{n}" for n in range(len(codec.sorts)))
            known = self._computed[term] = (codec, names, like)
        return known[1]

    # The deferred table

    def table(self) -> DeferredTable | None:
        """The table that decides the rest of the condition and computes attributes and types, where there is any."""
        asked = tuple(part for part in self.condition.parts if is_decided_in_python(part))
        if not asked and not self._computed and not self._typed:
            return None
        matcher = self.matcher
        inputs = (*(codec for codec, _ in matcher.attributes.values()),
                  *(codec_of(ScalarOp) for _ in matcher.operations),
                  *(TYPE for _ in self._typed_patterns()))
        outputs = (*(codec for codec, _, _ in self._computed.values()), *(codec_of(TensorType) for _ in self._typed))
        return DeferredTable(matcher.name, inputs, outputs, Instance(
            matcher.name, matcher.where, (*matcher.attributes, *matcher.operations), self._typed_patterns(), asked,
            tuple((term, like) for term, (_, _, like) in self._computed.items()), self._equalities,
            tuple(self._typed), self._strict))

    def _typed_patterns(self) -> tuple[Pattern, ...]:
        """The patterns whose types Python is told: roots and tensor variables."""
        roots = (without_likes(left) for left, _ in self._equalities)
        return tuple(dict.fromkeys((*roots, *map(TensorVariable, self.matcher.tensors))))

    def inputs(self) -> list[str]:
        """Columns of everything that was matched; what binds them is added to the matcher's facts."""
        columns = [name for _, names in self.matcher.attributes.values() for name in names]
        columns += self.matcher.operations.values()
        return columns + [self.matcher.type(self.matcher.class_of(x)) for x in self._typed_patterns()]

    def classes(self) -> list[str]:
        """The classes that were matched and that the heads may speak of."""
        return [self.matcher.class_of(x) for x in self._typed_patterns()]

    def outputs(self) -> list[str]:
        columns = [name for _, names, _ in self._computed.values() for name in names]
        return columns + [name for names in self._typed.values() for name in names]
