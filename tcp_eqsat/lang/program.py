"""Programs: immutable, typed, hash-consed values and the functions over them.

A `Node` is one value. Nodes are interned: two nodes with the same operation, operands and attributes are the same
object, so common subexpressions are shared by construction and equality is identity. A node with several results
has a TupleType and is taken apart by `project`.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tcp_eqsat.errors import Location, UnknownName
from tcp_eqsat.lang.dims import Guard, Symbol, symbols_of
from tcp_eqsat.lang.narrow import from_bits
from tcp_eqsat.lang.types import DType, TensorType, TupleType, Type, dtype_of

if TYPE_CHECKING:
    from tcp_eqsat.lang.op import Op


class TensorData:
    """The value of a constant: immutable, C-contiguous, compared by its bits."""

    __slots__ = ("_digest", "array", "dtype")

    def __init__(self, array: np.ndarray) -> None:
        self.dtype: DType = dtype_of(array.dtype)
        array = np.array(array, self.dtype.numpy, order="C", copy=True)
        if self.dtype.bits < 8:
            array = from_bits(array.view(np.uint8), self.dtype)
        array.flags.writeable = False
        self.array = array
        digest = hashlib.blake2b(f"{self.dtype}{array.shape}".encode(), digest_size=16)
        if array.size:
            digest.update(array.reshape(-1).view(np.uint8).data)
        self._digest = digest.digest()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def is_splat(self) -> bool:
        """Whether every element has the same bits (true of a scalar, false of an empty tensor)."""
        flat = self.array.reshape(-1)
        if not flat.size:
            return False
        raw = flat.view(np.uint8).reshape(flat.size, -1)
        return bool((raw == raw[0]).all())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorData) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        return f"TensorData({self.dtype}{list(self.shape)})"


class Node:
    """One value of a program. Make nodes with `Node.make`, or by the builders in `lang.ops.builders`."""

    __slots__ = ("__weakref__", "attributes", "op", "operands", "type")
    op: Op
    operands: tuple[Node, ...]
    attributes: Any
    type: Type

    _interned: weakref.WeakValueDictionary[tuple[Any, ...], Node] = weakref.WeakValueDictionary()
    _lock = threading.Lock()

    @classmethod
    def make(cls, op: Op, operands: tuple[Node, ...] = (), attributes: Any = None) -> Node:
        """The node of these parts, typed by the operation; raises TypeMismatch or ShapeMismatch."""
        key = (op.name, tuple(map(id, operands)), attributes)
        node = cls._interned.get(key)
        if node is None:
            result = op.infer_type(tuple(x.type for x in operands), attributes)
            node = object.__new__(cls)
            node.op, node.operands, node.attributes, node.type = op, operands, attributes, result
            with cls._lock:
                node = cls._interned.setdefault(key, node)
        recorded = _recorded.get()
        if recorded is not None:
            recorded.add(node)
        return node

    @property
    def tensor_type(self) -> TensorType:
        """The type, where the node has one result."""
        assert isinstance(self.type, TensorType), self.type
        return self.type

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.tensor_type.shape

    @property
    def dtype(self) -> DType:
        return self.tensor_type.dtype

    def __repr__(self) -> str:
        return f"<{self.op.name}: {self.type}>"


_recorded: ContextVar[set[Node] | None] = ContextVar("recorded_nodes", default=None)


@contextmanager
def recording() -> Iterator[set[Node]]:
    """The nodes that this thread makes inside: new ones, and those that were there before and are made again."""
    outer = _recorded.get()
    made: set[Node] = set()
    token = _recorded.set(made)
    try:
        yield made
    finally:
        _recorded.reset(token)
        if outer is not None:
            outer |= made


def walk(roots: Iterable[Node]) -> Iterator[Node]:
    """Every node the roots depend on, once, operands before users, in a deterministic order."""
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(tuple(roots))]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((x, False) for x in reversed(node.operands) if x not in seen)


@dataclass(frozen=True, eq=False)
class Function:
    """A named function over tensors.

    parameters  `parameter` nodes in call order (some may be unused)
    results     one node per result
    names       what the source calls a node; locations: where the source defines it
    guards      equalities of sizes that must hold at run time (inference could not prove them)
    """

    name: str
    parameters: tuple[Node, ...]
    results: tuple[Node, ...]
    names: Mapping[Node, str] = field(default_factory=dict, repr=False)
    locations: Mapping[Node, Location] = field(default_factory=dict, repr=False)
    guards: tuple[Guard, ...] = ()

    def nodes(self) -> Iterator[Node]:
        """Parameters first, then everything the results need, operands before users."""
        return walk((*self.parameters, *self.results))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(x.attributes.name for x in self.parameters)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols of the parameters' shapes, sorted by name."""
        return symbols_of(*(size for x in self.parameters for size in x.shape))

    def __str__(self) -> str:
        parameters = ", ".join(f"{x.attributes.name}: {x.type}" for x in self.parameters)
        results = ", ".join(str(x.type) for x in self.results)
        return f"{self.name}({parameters}) -> {results or '()'}"


@dataclass(frozen=True, eq=False)
class Program:
    """Functions by name. `main` is the one called "main", or the first."""

    functions: Mapping[str, Function]

    def __str__(self) -> str:
        return "\n".join(map(str, self.functions.values()))

    @property
    def main(self) -> Function:
        return self.functions.get("main") or next(iter(self.functions.values()))

    def function(self, name: str | None = None) -> Function:
        """The function called `name` (None: `main`); raises UnknownName."""
        if name is None:
            return self.main
        try:
            return self.functions[name]
        except KeyError:
            known = ", ".join(self.functions)
            raise UnknownName(f"no function {name!r}; the program has {known}") from None


@dataclass(frozen=True, slots=True)
class Region:
    """A closed body with its own parameters: captures are explicit operands of the node that carries it.

    The parameters of all regions with equal types are the same interned nodes, so equal bodies are equal regions.
    """

    parameters: tuple[Node, ...]
    results: tuple[Node, ...]


def result_types(roots: Iterable[Node]) -> tuple[TensorType, ...]:
    """The types of results, tuples flattened."""
    types: list[TensorType] = []
    for root in roots:
        types.extend(root.type.items if isinstance(root.type, TupleType) else (root.type,))
    return tuple(types)
