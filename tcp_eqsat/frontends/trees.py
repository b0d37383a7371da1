"""Values in tuples, lists and dicts: taken apart into leaves, and put together again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tcp_eqsat.errors import TypeMismatch


@dataclass(frozen=True)
class Tree:
    """The form of a value: a leaf, or a tuple, named tuple, list, dict or None of trees.

    keys   of a dict, in the order of `children`
    """

    kind: type | None = None
    keys: tuple[Any, ...] = ()
    children: tuple[Tree, ...] = ()

    def __str__(self) -> str:
        inner = [str(child) for child in self.children]
        if self.kind is None:
            return "*"
        if self.kind is dict:
            return "{" + ", ".join(f"{key!r}: {child}" for key, child in zip(self.keys, inner, strict=True)) + "}"
        if self.kind is type(None):
            return "None"
        return f"[{', '.join(inner)}]" if self.kind is list else f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"


LEAF = Tree()


def flatten(value: Any) -> tuple[list[Any], Tree]:
    """The leaves of a value in order, and its form; dicts by their keys in sorted order."""
    leaves: list[Any] = []
    return leaves, _flatten(value, leaves)


def _flatten(value: Any, leaves: list[Any]) -> Tree:
    kind = type(value)
    if value is None:
        return Tree(kind)
    if isinstance(value, (tuple, list)):
        return Tree(kind, (), tuple(_flatten(x, leaves) for x in value))
    if kind is dict:
        try:
            keys = tuple(sorted(value))
        except TypeError:
            raise TypeMismatch(f"a dict of values requires keys that can be sorted, got {list(value)}") from None
        return Tree(kind, keys, tuple(_flatten(value[key], leaves) for key in keys))
    leaves.append(value)
    return LEAF


def unflatten(tree: Tree, leaves: Sequence[Any]) -> Any:
    """The value of this form with these leaves."""
    return _unflatten(tree, iter(leaves))


def _unflatten(tree: Tree, leaves: Iterator[Any]) -> Any:
    if tree.kind is None:
        return next(leaves)
    if tree.kind is type(None):
        return None
    parts = [_unflatten(child, leaves) for child in tree.children]
    if tree.kind is dict:
        return dict(zip(tree.keys, parts, strict=True))
    return tree.kind(*parts) if hasattr(tree.kind, "_fields") else tree.kind(parts)


def check_form(what: str, required: Tree, found: Tree) -> None:
    """Raises TypeMismatch where two forms differ."""
    if found != required:
        raise TypeMismatch(f"{what} requires a value of the form {required}, got {found}")
