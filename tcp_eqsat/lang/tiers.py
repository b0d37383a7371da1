"""Numerics tiers: sets of permissions to change what a program computes in floating point.

A rewrite rule states the permissions it needs and is loaded only where they are granted. The empty set is the
default: equal values, any NaN for any NaN, for every input.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tcp_eqsat.errors import UnknownName


class Permission(enum.Enum):
    """One way in which a result may differ from the program as it was written.

    REASSOCIATION  identities of real arithmetic: results differ by rounding, by the sign of zero, and by overflow or
                   underflow in between; where infinities meet, and in what an empty sum is multiplied by, NaN may
                   come or go
    FINITE_ONLY    no input, intermediate value or result is an infinity or NaN
    APPROXIMATION  a function may be replaced by one within a stated bound
    """

    REASSOCIATION = "reassociation"
    FINITE_ONLY = "finite_only"
    APPROXIMATION = "approximation"


@dataclass(frozen=True, slots=True)
class Permissions:
    """An immutable set of permissions, printed by its tier's name where it has one."""

    items: frozenset[Permission] = frozenset()

    def granted(self, needs: Permissions) -> bool:
        """Whether everything in `needs` is in this set."""
        return needs.items <= self.items

    def __or__(self, other: Permissions) -> Permissions:
        return Permissions(self.items | other.items)

    def __and__(self, other: Permissions) -> Permissions:
        return Permissions(self.items & other.items)

    def __sub__(self, other: Permissions) -> Permissions:
        return Permissions(self.items - other.items)

    def __le__(self, other: Permissions) -> bool:
        return self.items <= other.items

    def __contains__(self, item: object) -> bool:
        return self.items >= item.items if isinstance(item, Permissions) else item in self.items

    def __iter__(self) -> Iterator[Permission]:
        """The permissions in the order of their definition."""
        return (each for each in Permission if each in self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __str__(self) -> str:
        for name, tier in TIERS.items():
            if tier == self:
                return name
        return " + ".join(each.value for each in self)


REASSOCIATION: Final = Permissions(frozenset({Permission.REASSOCIATION}))
FINITE_ONLY: Final = Permissions(frozenset({Permission.FINITE_ONLY}))
APPROXIMATION: Final = Permissions(frozenset({Permission.APPROXIMATION}))

EXACT: Final = Permissions()
REASSOCIATE: Final = REASSOCIATION
FINITE: Final = REASSOCIATION | FINITE_ONLY
APPROXIMATE: Final = FINITE | APPROXIMATION

TIERS: Final[Mapping[str, Permissions]] = MappingProxyType({
    "exact": EXACT, "reassociate": REASSOCIATE, "finite": FINITE, "approximate": APPROXIMATE,
})

Numerics = str | Permissions | Permission | Iterable["str | Permission | Permissions"]


def permissions(numerics: Numerics) -> Permissions:
    """A tier's name, one permission or a set of any of these, as permissions; raises UnknownName.

    `permissions("exact")`, `permissions({"reassociation", "finite_only"})`, `permissions(REASSOCIATION)`.
    """
    match numerics:
        case Permissions():
            return numerics
        case Permission():
            return Permissions(frozenset({numerics}))
        case str():
            return _named(numerics)
    if not isinstance(numerics, Iterable):
        raise UnknownName(f"unknown numerics {numerics!r}; known are {_known()}")
    result = EXACT
    for each in numerics:
        result = result | permissions(each)
    return result


def _named(name: str) -> Permissions:
    if name in TIERS:
        return TIERS[name]
    for each in Permission:
        if each.value == name:
            return Permissions(frozenset({each}))
    raise UnknownName(f"unknown numerics {name!r}; known are {_known()}")


def _known() -> str:
    return ", ".join((*TIERS, *(each.value for each in Permission)))
