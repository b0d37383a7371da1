"""What saturation did: why it stopped, how the e-graph grew, which rules matched and which were given up."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from tcp_eqsat.egraph.stages import Stage


class StopReason(enum.Enum):
    """Why saturation ended.

    SATURATED        no rule has anything to add
    NODE_LIMIT       the rules that were left had nothing to add; others were given up or the e-graph is full
    ITERATION_LIMIT  the rounds of a stage ran out
    TIME_LIMIT       the time ran out; the result may differ from run to run
    FAILED           egglog failed; the result is the program as it was
    """

    SATURATED = "saturated"
    NODE_LIMIT = "node_limit"
    ITERATION_LIMIT = "iteration_limit"
    TIME_LIMIT = "time_limit"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Iteration:
    """One round: its stage, the e-nodes after it (also those of known values, which are not kept), and its seconds."""

    stage: Stage
    nodes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """What one direction of a rule did.

    loaded    whether its patterns ever occurred, conditions aside; until then it's only watched for
    matches   instances found and applied
    asked     different instances that Python was asked about (0 for rules that egglog decides alone)
    declined  how many of those Python declined
    added     e-nodes that appeared while the rule ran by itself; 0 where rules ran together
    dropped   whether it was given up because it filled the e-graph
    """

    name: str
    stage: Stage
    loaded: bool
    matches: int
    asked: int
    declined: int
    added: int
    dropped: bool


@dataclass(frozen=True)
class SaturationReport:
    """The course of one saturation.

    rules    what each direction of a rule did of which all operations occurred
    idle     the other directions
    seconds  wall-clock seconds by part: encode, compile, load, search, answer, analyse, read
    failure  what failed, for StopReason.FAILED
    """

    stop_reason: StopReason
    iterations: tuple[Iteration, ...]
    rules: tuple[RuleCounts, ...]
    idle: tuple[str, ...]
    nodes_before: int
    nodes: int
    classes: int
    seconds: Mapping[str, float]
    failure: str | None = None

    @property
    def dropped(self) -> tuple[str, ...]:
        """Names of the rules that were given up."""
        return tuple(x.name for x in self.rules if x.dropped)

    @property
    def matches(self) -> dict[str, int]:
        """Matches by rule, without those that never matched."""
        return {x.name: x.matches for x in self.rules if x.matches}
