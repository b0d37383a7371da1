"""Facts in the e-graph: which values are known to be finite, nonnegative, not -0, and so on.

Only facts that the loaded rules ask for have tables, which are filled before such a rule runs. Constants are judged
by their data. Where that is not enough the fact rules of `rules.facts` derive facts, and those that they follow from.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence, Set

import numpy as np

from tcp_eqsat.egraph.columns import codec_of
from tcp_eqsat.egraph.compile_rules import Compiled, compile_fact
from tcp_eqsat.egraph.deferred import DeferredTable
from tcp_eqsat.egraph.encode import Encoding
from tcp_eqsat.egraph.match import fact_table, operation_names
from tcp_eqsat.lang.program import TensorData
from tcp_eqsat.lang.scalar import Number
from tcp_eqsat.lang.types import dtype_named
from tcp_eqsat.rules.condition import Fact, Known
from tcp_eqsat.rules.facts import FACT_RULES, FACTS, FactRule

DERIVE = "derive"
"""The ruleset that derives facts."""


class _Way:
    """One fact rule, compiled when it is first needed.

    `requires` are names of the operations without which it does not match, `asks` the facts that it asks for.
    """

    def __init__(self, rule: FactRule) -> None:
        self._rule = rule
        self.fact = rule.fact.name
        self.requires = operation_names((rule.pattern,))
        self.asks = frozenset(part.fact.name for part in rule.condition.parts if isinstance(part, Known))

    @functools.cached_property
    def compiled(self) -> Compiled:
        return compile_fact(self._rule, DERIVE)


@functools.cache
def _ways() -> Mapping[str, Sequence[_Way]]:
    """The fact rules by fact."""
    found: dict[str, list[_Way]] = {fact.name: [] for fact in FACTS}
    for rule in FACT_RULES:
        found[rule.fact.name].append(_Way(rule))
    return found


class Facts:
    """The tables of `asked` facts, and what derives the `derived` ones, in e-graphs with operations called `names`.

    declarations  tables, and rules of ruleset `derive`
    tables        what Python decides
    numbers       numbers that the fact rules mention
    tests         tests of dtypes that they make
    items         the most operands that their patterns give an operation with any number
    lines         facts of the program's large constants
    """

    def __init__(self, asked: Collection[str], derived: Collection[str], names: Set[str], encoding: Encoding) -> None:
        ways = _needed(derived, names)
        facts = [fact for fact in FACTS if fact.name in ways or fact.name in asked]
        compiled = [way.compiled for fact in facts for way in ways.get(fact.name, ())]
        judges = [_judge(fact) for fact in facts]
        self.declarations = [
            *(f"(relation {fact_table(fact.name)} (T))" for fact in facts),
            *(line for judge in judges for line in judge.declarations),
            *(line for fact, judge in zip(facts, judges, strict=True) for line in _splat_rules(fact, judge)),
            *(line for each in compiled for line in (*each.asking, *each.applying)),
        ]
        self.tables = [*judges, *(each.table for each in compiled if each.table is not None)]
        self.tests = [test for each in compiled for test in each.tests]
        self.items = max((each.items for each in compiled), default=0)
        self.numbers: dict[str, Number] = {key: value for each in compiled for key, value in each.numbers.items()}
        self.lines = [
            f"({fact_table(fact.name)} (Constant {number}))"
            for number, data in enumerate(encoding.outside.constants) for fact in facts if _is_true(fact, data)]


def _needed(asked: Iterable[str], names: Set[str]) -> dict[str, list[_Way]]:
    """The fact rules for some facts, and for those that their conditions ask for in turn, by fact."""
    found: dict[str, list[_Way]] = {}
    missing = list(asked)
    while missing:
        fact = missing.pop()
        if fact not in found:
            found[fact] = [way for way in _ways()[fact] if way.requires <= names]
            missing += [each for way in found[fact] for each in way.asks]
    return found


@functools.lru_cache(maxsize=1 << 10)
def _is_true(fact: Fact, data: TensorData) -> bool:
    return fact.true_of(data.array)


@functools.cache
def _judge(fact: Fact) -> DeferredTable:
    """Whether a fact is true of a scalar: (dtype, bits) -> nothing, defined where it is."""

    def decide(dtype: str, bits: str) -> tuple[()] | None:
        return () if fact.true_of(np.frombuffer(bytes.fromhex(bits), dtype_named(dtype).numpy)) else None

    return DeferredTable(f"{fact.name}_of_scalar", (codec_of(str), codec_of(str)), (), decide)


def _splat_rules(fact: Fact, judge: DeferredTable) -> list[str]:
    known = "(= ?b (splat ?e)) (= ?d (dtype ?e))"
    key = f"({judge.want} ?d ?b)"
    return [
        f"(rule ({known}) ({key}) :ruleset {DERIVE})",
        f"(rule ({known} (= ?k {key}) ({judge.have} ?k)) (({fact_table(fact.name)} ?e)) :ruleset {DERIVE})",
    ]
