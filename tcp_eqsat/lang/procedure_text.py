"""Procedures as text, for people."""

from __future__ import annotations

from collections.abc import Iterator

from tcp_eqsat.lang.procedural import (
    Compute,
    Constant,
    Extent,
    For,
    Get,
    If,
    Load,
    Name,
    Procedure,
    Set,
    Statement,
    Store,
    While,
)


def format_procedure(procedure: Procedure, name: str) -> str:
    """The procedure as text, a line a statement: values are `%0`, `%1`, ..., variables `$0`, `$1`, ..."""
    operands, results, scratch = (
        ", ".join(f"{x.name}: {x.type}" for x in arrays)
        for arrays in (procedure.operands, procedure.results, procedure.scratch))
    head = f"procedure {name}({operands}) -> ({results})" + (f" with {scratch}" if scratch else "")
    return "\n".join((head, *_lines(procedure.body, "  ")))


def _lines(statements: tuple[Statement, ...], indent: str) -> Iterator[str]:
    inner = f"{indent}  "
    for statement in statements:
        match statement:
            case Compute(result, op, operands):
                yield f"{indent}%{result.number}: {result.dtype} = {op.name}({_names(operands)})"
            case Constant(result, literal):
                yield f"{indent}%{result.number}: {result.dtype} = {literal.value}"
            case Extent(result, size):
                yield f"{indent}%{result.number}: {result.dtype} = {size}"
            case Load(result, array, indices):
                yield f"{indent}%{result.number}: {result.dtype} = {array.name}[{_names(indices)}]"
            case Store(array, indices, value):
                yield f"{indent}{array.name}[{_names(indices)}] = %{value.number}"
            case Set(variable, value):
                yield f"{indent}${variable.number} = %{value.number}"
            case Get(result, variable):
                yield f"{indent}%{result.number}: {result.dtype} = ${variable.number}"
            case For(index, extent, body):
                yield f"{indent}for %{index.number} < %{extent.number}:"
                yield from _lines(body, inner)
            case While(head, condition, body):
                yield f"{indent}while:"
                yield from _lines(head, inner)
                yield f"{indent}%{condition.number} do:"
                yield from _lines(body, inner)
            case If(condition, then, otherwise):
                yield f"{indent}if %{condition.number}:"
                yield from _lines(then, inner)
                if otherwise:
                    yield f"{indent}else:"
                    yield from _lines(otherwise, inner)


def _names(names: tuple[Name, ...]) -> str:
    return ", ".join(f"%{x.number}" for x in names)
