"""The syntax tree as MLIR text in generic form, which is read back to the same tree (places apart)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tcp_eqsat.frontends.mlir.modules import Module
from tcp_eqsat.frontends.mlir.tree import (
    Attribute,
    Block,
    Dense,
    DenseArray,
    DenseResource,
    Number,
    OpaqueAttribute,
    Reference,
    Region,
    Symbol,
    SyntaxOp,
    SyntaxType,
    Unit,
)

_PLAIN = re.compile(r"[A-Za-z_][\w$.]*\Z", re.ASCII)


def module_text(module: Module) -> str:
    """The operations of a module, and the resources they name."""
    lines: list[str] = []
    for op in module.operations:
        _write(op, "", lines)
    if module.resources:
        entries = ", ".join(f"{_key(key)}: {blob.text}" for key, blob in module.resources.items())
        lines += [f"{{-# dialect_resources: {{ builtin: {{ {entries} }} }} #-}}"]
    return "\n".join(lines) + "\n"


def _write(op: SyntaxOp, indent: str, lines: list[str]) -> None:
    results = _results(op.results)
    properties = f" <{{{_entries(op.attributes)}}}>" if op.attributes else ""
    operands = ", ".join(reference.name for reference in op.operands)
    head = f"{indent}{results}{_quoted(op.name)}({operands}){properties}"
    types = f" : ({_types(op.operand_types)}) -> ({_types(op.result_types)})"
    if not op.regions:
        lines.append(head + types)
        return
    lines.append(f"{head} ({{")
    for number, region in enumerate(op.regions):
        if number:
            lines.append(f"{indent}}}, {{")
        _write_region(region, indent + "  ", lines)
    lines.append(f"{indent}}}){types}")


def _write_region(region: Region, indent: str, lines: list[str]) -> None:
    for number, block in enumerate(region.blocks):
        if block.arguments or block.label or number:
            lines.append(indent[:-2] + _head(block, number))
        for op in block.operations:
            _write(op, indent, lines)


def _head(block: Block, number: int) -> str:
    arguments = ", ".join(f"{argument.name.name}: {argument.type}" for argument in block.arguments)
    return f"{block.label or f'^bb{number}'}{f'({arguments})' if arguments else ''}:"


def _results(references: Sequence[Reference]) -> str:
    """`%a, %b:2 = `."""
    counts: dict[str, int] = {}
    for reference in references:
        name, _, _ = reference.name.partition("#")
        counts[name] = counts.get(name, 0) + 1
    named = (name if count == 1 else f"{name}:{count}" for name, count in counts.items())
    return f"{', '.join(named)} = " if references else ""


def _types(types: Iterable[SyntaxType]) -> str:
    return ", ".join(map(str, types))


def _entries(attributes: Mapping[str, Attribute]) -> str:
    return ", ".join(
        _key(key) if isinstance(value, Unit) else f"{_key(key)} = {_attribute(value)}"
        for key, value in attributes.items())


def _key(key: str) -> str:
    return key if _PLAIN.match(key) else _quoted(key)


def _attribute(value: Attribute) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _quoted(value)
        case Unit():
            return "unit"
        case dict():
            return f"{{{_entries(value)}}}"
        case Number():
            return value.text if value.type is None else f"{value.text} : {value.type}"
        case Dense():
            return f"dense<{value.text}> : {value.type}"
        case DenseResource():
            return f"dense_resource<{_key(value.key)}> : {value.type}"
        case DenseArray():
            return f"array<{value.element}{f':{value.text}' if value.text else ''}>"
        case Symbol():
            return "::".join(f"@{_key(name)}" for name in value.path)
        case OpaqueAttribute():
            return value.text
        case tuple():
            return f"[{', '.join(map(_attribute, value))}]"
    return str(value)


def symbol_text(name: str) -> str:
    """`@name`, in quotes where it is no plain word."""
    return f"@{_key(name)}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{"".join(map(_escaped, escaped))}"'


def _escaped(character: str) -> str:
    if character.isprintable() and character.isascii():
        return character
    return "".join(f"\\{byte:02X}" for byte in character.encode())
