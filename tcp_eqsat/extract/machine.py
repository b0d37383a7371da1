"""Cost models from TOML files: one file a machine, every number a table of value, unit, source and date."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from tcp_eqsat.errors import ArgumentError, UnknownName
from tcp_eqsat.extract.cost import Access, Contraction, KernelFacts
from tcp_eqsat.lang.scalar import SCALAR_OPS, ScalarOp
from tcp_eqsat.lang.types import F32, DType

SCHEMA = 1
_LEVELS = ("l1", "l2", "l3", "dram")
_REQUIRED = {
    "machine.clock": "GHz", "machine.vector": "bytes", "machine.overlap": "fraction",
    **{f"memory.{level}.{key}": unit for level in _LEVELS for key, unit in (("size", "bytes"), ("bandwidth", "GB/s"))},
    "access.strided": "ratio", "access.again": "ratio", "kernel.call": "us",
    "contraction.f32": "GFLOP/s", "contraction.f64": "GFLOP/s", "contraction.other": "GFLOP/s",
    "contraction.tile_columns": "elements", "contraction.tile_rows": "elements",
    "scalar.choice": "cycle/element", "scalar.operations.simple": "cycle/element",
}
"""Keys that every file has, with their units."""
_OPERATION_UNIT = "cycle/element"


@dataclass(frozen=True)
class MachineModel:
    """A `CostModel` of one core of a machine with caches and vectors.

    numbers  the file's values by dotted key: `memory.l1.bandwidth`, `scalar.operations.exp`, ...
    """

    name: str
    description: str
    numbers: Mapping[str, float] = field(repr=False)

    def scalar(self, op: ScalarOp, dtype: DType) -> float:
        """Microseconds an element of one operation in a vector loop."""
        simple = self.numbers["scalar.operations.simple"]
        return self._microseconds(self.numbers.get(f"scalar.operations.{op.name}", simple), dtype)

    def choice(self, dtype: DType) -> float:
        """Microseconds an element of choosing one of several operands by index."""
        return self._microseconds(self.numbers["scalar.choice"], dtype)

    def recomputation(self, others: float, vectorised: bool, dtype: DType) -> float:
        """One computation for each register tile; an element that vectors don't run along is computed alone."""
        if vectorised:
            return max(1.0, math.ceil(others / self.numbers["contraction.tile_rows"]))
        lanes = self.numbers["machine.vector"] / max(dtype.bytes, 4)
        return lanes * max(1.0, math.ceil(others / self.numbers["contraction.tile_columns"]))

    def kernel(self, facts: KernelFacts) -> float:
        """Arithmetic and memory overlap in part; rows that do not stay in cache are read again by every fold."""
        arithmetic = facts.scalar + (self._contraction(facts.contraction) if facts.contraction else 0.0)
        loads = sum(map(self._access, facts.loads))
        if facts.row_bytes > self.numbers["memory.l2.size"]:
            loads *= 1 + facts.folds
        memory = loads + sum(map(self._access, facts.stores))
        hidden = self.numbers["machine.overlap"] * min(arithmetic, memory)
        return self.numbers["kernel.call"] + arithmetic + memory - hidden

    def _microseconds(self, cycles: float, dtype: DType) -> float:
        return cycles * max(dtype.bytes, 4) / 4 / (self.numbers["machine.clock"] * 1e3)

    def _contraction(self, contraction: Contraction) -> float:
        """Columns fill whole vectors."""
        dtype = F32 if contraction.dtype.is_narrow_float else contraction.dtype
        rate = self.numbers.get(f"contraction.{dtype}", self.numbers["contraction.other"])
        lanes = self.numbers["machine.vector"] / dtype.bytes
        filled = math.ceil(contraction.columns / lanes) * lanes / max(contraction.columns, 1.0)
        return contraction.flops * filled / (rate * 1e3)

    def _access(self, access: Access) -> float:
        level = next(x for x in _LEVELS if access.footprint <= self.numbers[f"memory.{x}.size"] or x == "dram")
        times = (1.0 if access.contiguous else self.numbers["access.strided"]) + (
            (access.uses - 1) * self.numbers["access.again"])
        return access.bytes * times / (self.numbers[f"memory.{level}.bandwidth"] * 1e3)


def cost_model_names() -> tuple[str, ...]:
    """The cost models that are shipped."""
    return tuple(sorted(file.name[:-5] for file in _folder().iterdir() if file.name.endswith(".toml")))


def load_cost_model(name: str) -> MachineModel:
    """The shipped cost model called `name`, or the one in the file whose path is `name` (it ends in ".toml").

    Raises UnknownName where there is none, ArgumentError for a malformed file.
    """
    file: Traversable = Path(name) if name.endswith(".toml") else _folder() / f"{name}.toml"
    if not file.is_file():
        raise UnknownName(f"no cost model {name!r}; shipped are {', '.join(cost_model_names())}")
    return parse_cost_model(file.read_text("utf-8"), str(file))


def parse_cost_model(text: str, file: str) -> MachineModel:
    """The cost model that a TOML text describes; raises ArgumentError with the file and key of what is wrong."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ArgumentError(f"{file} is not TOML: {error}") from None
    if table.get("schema") != SCHEMA:
        raise ArgumentError(f"{file}: schema must be {SCHEMA}, got {table.get('schema')}")
    numbers = {
        key: number for name, part in table.items() if isinstance(part, dict)
        for key, number in _numbers(name, part, file)}
    for key in _REQUIRED:
        if key not in numbers:
            raise ArgumentError(f"{file}: {key} is missing")
    return MachineModel(str(table.get("name", "")), str(table.get("description", "")), numbers)


def _numbers(prefix: str, table: Mapping[str, Any], file: str) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, entry in table.items():
        key = f"{prefix}.{name}"
        if not isinstance(entry, dict):
            raise ArgumentError(f"{file}: {key} must be a table of value, unit, source and date, got {entry!r}")
        if "value" in entry:
            found.append((key, _number(key, entry, file)))
        elif all(isinstance(x, dict) for x in entry.values()):
            found += _numbers(key, entry, file)
        else:
            raise ArgumentError(f"{file}: {key}.value is missing")
    return found


def _number(key: str, entry: Mapping[str, Any], file: str) -> float:
    """The value of one entry, which must be positive and in the unit that its key requires."""
    operation = key.removeprefix("scalar.operations.")
    required = _OPERATION_UNIT if operation != key else _REQUIRED.get(key)
    if required is None:
        raise ArgumentError(f"{file}: {key} is not a number that cost models have")
    if operation != key and operation != "simple" and operation not in SCALAR_OPS:
        raise ArgumentError(f"{file}: {key}: there is no scalar operation {operation!r}")
    for part in ("unit", "source", "date"):
        if not isinstance(entry.get(part), str):
            raise ArgumentError(f"{file}: {key}.{part} is missing")
    if entry["unit"] != required:
        raise ArgumentError(f"{file}: {key} must be in {required}, got {entry['unit']}")
    number = entry["value"]
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 < number < math.inf:
        raise ArgumentError(f"{file}: {key} must be a positive number, got {number!r}")
    return float(number)


def _folder() -> Traversable:
    """Where the shipped files are: inside an installed package, or beside the package in a source tree."""
    package = resources.files("tcp_eqsat")
    installed = package / "_cost_models"
    if installed.is_dir():
        return installed
    return Path(str(package)).parent / "cost_models"
