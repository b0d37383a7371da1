"""The LLVM text of a compiled call: a C function that CPython calls with borrowed arguments.

The function checks everything that the interpreted call checks, for arrays that can be taken as they are: exactly
`ndarray`, native dtype, C-contiguous, aligned. It makes the results, calls the entry and returns. Where a check
fails it hands the same arguments to the interpreted call, which words the error or copes.

The text depends on the signature's types only: every address comes from a table that the function finds through
the object it is bound to. Equal text is equal machine code, in any process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tcp_eqsat.codegen import interrupts
from tcp_eqsat.codegen import numpy_abi as abi
from tcp_eqsat.codegen.call_steps import is_plain, match_names, workspace_functions
from tcp_eqsat.codegen.call_table import Table
from tcp_eqsat.codegen.signature import Signature, Solve, WorkspaceBytes
from tcp_eqsat.codegen.size_ir import INTRINSICS, CheckedText, Operand, SizeText
from tcp_eqsat.lang.types import TensorType

NAME = "call"
"""The function that the text defines."""
RELEASES_ABOVE = 1 << 14
"""Elements of all arrays together above which the GIL is released: some microseconds of work."""


def emit_call(signature: Signature, workspace_bytes: WorkspaceBytes, is_watched: bool = False) -> str:
    """The text of a module that defines `ptr @call(ptr self, ptr arguments, i64 count, ptr names)`.

    `self` is an array of objects: the interpreted call, then an int64 array, the table. `is_watched`: the entry may be
    interrupted.
    """
    table = Table.of(signature)
    parts = [_Call(signature, workspace_bytes, table, is_watched).text(), match_names(table), is_plain(), INTRINSICS]
    if is_watched:
        parts.append(interrupts.run_text("internal"))
    if workspace_bytes != 0:
        parts.append(workspace_functions(table))
    return "\n".join(parts)


class _Call:
    """Writes the body of one call, part after part."""

    def __init__(
        self, signature: Signature, workspace_bytes: WorkspaceBytes, table: Table, is_watched: bool
    ) -> None:
        self._signature = signature
        self._workspace_bytes = workspace_bytes
        self._table = table
        self._is_watched = is_watched
        self._text = CheckedText(exit="interpret")
        self._sizes = SizeText(self._text)
        self._results = range(len(signature.results))

    def text(self) -> str:
        self._open()
        extents, inputs = self._check_arguments()
        self._bind_symbols(extents)
        shapes = [tuple(map(self._sizes.value, t.shape)) for t in self._signature.results]
        self._workspace_size = self._evaluate_workspace()
        self._make_results(shapes, inputs, extents)
        self._run([*shapes, *extents])
        self._finish()
        header = f"define ptr @{NAME}(ptr %self, ptr %positional, i64 %count, ptr %names) nounwind {{"
        return "\n".join([header, *self._text.lines, "}"])

    def _address(self, name: str) -> str:
        return self._text.load("ptr", "%table", 8 * self._table.of_name(name))

    def _call(self, result: str, function: str, arguments: str) -> str:
        return self._text.value(f"call {result} {self._address(function)}({arguments})")

    def _perform(self, function: str, arguments: str) -> None:
        self._text.line(f"call void {self._address(function)}({arguments})")

    def _open(self) -> None:
        """Finds the table and brings the arguments into the order of the parameters."""
        text, signature = self._text, self._signature
        count = len(signature.parameters)
        text.label("entry")
        for name, length in (
            ("named", count + 1),
            ("inputs", count),
            ("outputs", len(self._results)),
            ("objects", len(self._results)),
            ("sizes", len(signature.symbols)),
            ("shape", max((t.rank for t in signature.results), default=0)),
        ):
            text.line(f"%{name} = alloca [{length} x i64], align 8")
        text.line(f"%cells = load ptr, ptr {text.at('%self', abi.DATA)}, align 8")
        text.line("%interpreter = load ptr, ptr %cells, align 8")
        array = text.load("ptr", "%cells", 8)
        text.line(f"%table = load ptr, ptr {text.at(array, abi.DATA)}, align 8")
        for number in self._results:
            text.store("ptr", "null", "%objects", 8 * number)
        text.line(f"br i1 {text.compare('eq', '%names', 'null', 'ptr')}, label %by_position, label %by_name")
        text.label("by_position")
        enough = text.compare("eq", "%count", count)
        text.line(f"br i1 {enough}, label %bound, label %interpret")
        text.label("by_name")
        matched = text.value(
            "call i1 @match_names(ptr %table, ptr %positional, i64 %count, ptr %names, ptr %named)"
        )
        out = text.load("ptr", "%named", 8 * count)
        text.line(f"br i1 {matched}, label %bound, label %interpret")
        text.label("bound")
        text.line("%arguments = phi ptr [ %positional, %by_position ], [ %named, %by_name ]")
        text.line(f"%out = phi ptr [ null, %by_position ], [ {out}, %by_name ]")

    def _check_arguments(self) -> tuple[list[tuple[str, ...]], list[str]]:
        """The extents and the data address of each argument."""
        extents, inputs = [], []
        for number, parameter in enumerate(self._signature.parameters):
            array = self._text.load("ptr", "%arguments", 8 * number)
            shape, data = self._check_array(array, parameter.type, abi.READABLE)
            self._text.store("ptr", data, "%inputs", 8 * number)
            extents.append(shape)
            inputs.append(data)
        return extents, inputs

    def _check_array(self, array: str, t: TensorType, flags: abi.Flags) -> tuple[tuple[str, ...], str]:
        """Leaves unless `array` is plain, of the dtype and rank of `t`; gives its extents and data address."""
        text = self._text
        dtype = text.load("ptr", "%table", 8 * self._table.of_dtype(t.dtype))
        kind = self._address("array_type")
        text.require(
            text.value(
                f"call i1 @is_plain(ptr {array}, ptr {kind}, ptr {dtype}, i32 {t.rank}, "
                f"i32 {flags.mask}, i32 {flags.wanted})"
            )
        )
        extents = text.load("ptr", array, abi.SIZES) if t.rank else ""
        shape = tuple(text.load("i64", extents, 8 * axis) for axis in range(t.rank))
        return shape, text.load("ptr", array, abi.DATA)

    def _bind_symbols(self, extents: list[tuple[str, ...]]) -> None:
        text, sizes = self._text, self._sizes
        for step in self._signature.steps:
            found: Operand = extents[step.place.parameter][step.place.axis]
            if not isinstance(step, Solve):
                text.require_equal(found, sizes.value(step.size))
                continue
            symbol, divisor = step.symbol, step.symbol.divisor
            if not step.is_direct:
                slope = sizes.value(step.slope)
                if not isinstance(slope, int):
                    text.require(text.compare("ne", slope, 0))
                part = text.integer("sub", found, sizes.value(step.rest))
                units = part if slope == 1 else text.value(f"sdiv i64 {part}, {slope}")
                text.require_equal(text.integer("mul", units, slope, wraps=True), part)
                found = text.integer("mul", units, divisor)
            elif divisor != 1:
                text.require_equal(text.value(f"urem i64 {found}, {divisor}"), 0)
            if symbol.lower > 0 or not step.is_direct:
                text.require(text.compare("sge", found, symbol.lower))
            text.require(text.compare("sle", found, symbol.upper))
            sizes.bind(symbol, found)
        for guard in self._signature.guards:
            text.require_equal(sizes.value(guard.left), sizes.value(guard.right))
        for size in self._signature.numbers:
            text.require(text.compare("sge", sizes.value(size), 0))
        for number, symbol in enumerate(self._signature.symbols):
            text.store("i64", sizes.symbol(symbol), "%sizes", 8 * number)

    def _evaluate_workspace(self) -> Operand:
        """Bytes; what is negative reads as a huge number, which is not to be had."""
        if not callable(self._workspace_bytes):
            return self._sizes.value(self._workspace_bytes)
        return self._call("i64", "workspace_bytes", "ptr %sizes")

    def _make_results(
        self, shapes: list[tuple[Operand, ...]], inputs: list[str], extents: list[tuple[str, ...]]
    ) -> None:
        """Fills `outputs` and `objects`, with new arrays or with those of `out`; all references are owned."""
        text = self._text
        absent = text.compare("eq", "%out", "null", "ptr")
        none = text.compare("eq", "%out", self._address("none"), "ptr")
        text.line(f"br i1 {text.value(f'or i1 {absent}, {none}')}, label %fresh, label %given")
        text.label("given")
        self._take_out(shapes, inputs, extents)
        text.line("br label %run")
        text.label("fresh")
        text.exit = "give_up"
        for number, (t, shape) in enumerate(zip(self._signature.results, shapes, strict=True)):
            self._allocate(number, t, shape)
        text.line("br label %run")

    def _allocate(self, number: int, t: TensorType, shape: tuple[Operand, ...]) -> None:
        text = self._text
        for axis, extent in enumerate(shape):
            text.store("i64", extent, "%shape", 8 * axis)
        kind = self._address("array_type")
        array = self._call(
            "ptr",
            "new_array",
            f"ptr {kind}, i32 {t.rank}, ptr %shape, i32 {t.dtype.numpy.num}, ptr null, ptr null, "
            "i32 0, i32 0, ptr null",
        )
        text.require(text.compare("ne", array, "null", "ptr"))
        text.store("ptr", array, "%objects", 8 * number)
        text.store("ptr", text.load("ptr", array, abi.DATA), "%outputs", 8 * number)

    def _take_out(
        self, shapes: list[tuple[Operand, ...]], inputs: list[str], extents: list[tuple[str, ...]]
    ) -> None:
        """Checks the arrays of `out`; each must end before the others and the arguments begin, or the reverse."""
        text = self._text
        taken = [
            (data, text.at(data, self._bytes(p.type, found)))
            for p, data, found in zip(self._signature.parameters, inputs, extents, strict=True)
        ]
        objects = self._unpack_out()
        for number, (t, wanted, array) in enumerate(
            zip(self._signature.results, shapes, objects, strict=True)
        ):
            found, data = self._check_array(array, t, abi.FILLABLE)
            for extent, size in zip(found, wanted, strict=True):
                text.require_equal(extent, size)
            end = text.at(data, self._bytes(t, found))
            for other, other_end in taken:
                before = text.compare("ule", end, other, "ptr")
                after = text.compare("ule", other_end, data, "ptr")
                text.require(text.value(f"or i1 {before}, {after}"))
            taken.append((data, end))
            text.store("ptr", data, "%outputs", 8 * number)
        for number, array in enumerate(objects):
            self._perform("increase", f"ptr {array}")
            text.store("ptr", array, "%objects", 8 * number)

    def _unpack_out(self) -> list[str]:
        """The objects of `out`, borrowed."""
        if len(self._results) == 1:
            return ["%out"]
        text = self._text
        text.require_equal(text.load("ptr", "%out", abi.TYPE), self._address("tuple_type"), "ptr")
        text.require_equal(self._call("i64", "tuple_size", "ptr %out"), len(self._results))
        return [self._call("ptr", "get_item", f"ptr %out, i64 {number}") for number in self._results]

    def _wrapping(self, operation: str, start: int, operands: Iterable[Operand]) -> Operand:
        total: Operand = start
        for operand in operands:
            total = self._text.integer(operation, total, operand, wraps=True)
        return total

    def _elements(self, shape: Sequence[Operand]) -> Operand:
        return self._wrapping("mul", 1, shape)

    def _bytes(self, t: TensorType, shape: Sequence[Operand]) -> Operand:
        return self._text.integer("mul", self._elements(shape), t.dtype.bytes, wraps=True)

    def _run(self, shapes: list[tuple[Operand, ...]]) -> None:
        """Calls the entry, without the GIL where there is much to do."""
        text = self._text
        text.label("run")
        workspace = "null"
        if self._workspace_bytes != 0:
            workspace = text.value(f"call ptr @claim(ptr %table, i64 {self._workspace_size})")
            text.require(text.compare("ne", workspace, "null", "ptr"))
        constants = self._address("constants")
        arguments = f"ptr %inputs, ptr %outputs, ptr {constants}, ptr {workspace}, ptr %sizes"
        elements = self._wrapping("add", 0, map(self._elements, shapes))
        much = text.compare("ugt", elements, RELEASES_ABOVE)
        status = ""
        if self._is_watched:
            given = ", ".join(f"ptr {self._address(name)}" for name in interrupts.NEEDED)
            released = text.value(f"zext i1 {much} to i32")
            entry = self._address("entry")
            status = text.value(f"call i32 @{interrupts.RUN}(ptr {entry}, {arguments}, {given}, i32 {released})")
        else:
            self._enter(arguments, much)
        if self._workspace_bytes != 0:
            text.line(f"call void @give_back(ptr %table, ptr {workspace})")
        if self._is_watched:
            text.exit = "raise"
            text.require_equal(status, 0, "i32")

    def _enter(self, arguments: str, much: str) -> None:
        """Calls an entry that can't be interrupted."""
        text = self._text
        text.line(f"br i1 {much}, label %release, label %keep")
        text.label("release")
        thread = self._call("ptr", "save_thread", "")
        self._perform("entry", arguments)
        self._perform("restore_thread", f"ptr {thread}")
        text.line("br label %done")
        text.label("keep")
        self._perform("entry", arguments)
        text.line("br label %done")
        text.label("done")

    def _finish(self) -> None:
        text = self._text
        objects = [text.load("ptr", "%objects", 8 * number) for number in self._results]
        if len(objects) == 1:
            text.line(f"ret ptr {objects[0]}")
        else:
            text.exit = "raise"
            result = self._call("ptr", "new_tuple", f"i64 {len(objects)}")
            text.require(text.compare("ne", result, "null", "ptr"))
            for number, array in enumerate(objects):
                self._call("i32", "set_item", f"ptr {result}, i64 {number}, ptr {array}")
            text.line(f"ret ptr {result}")
        if len(objects) != 1 or self._is_watched:
            text.label("raise")
            self._drop_results()
            text.line("ret ptr null")
        text.label("give_up")
        self._drop_results()
        self._perform("clear_error", "")
        text.line("br label %interpret")
        text.label("interpret")
        answer = self._call("ptr", "vectorcall", "ptr %interpreter, ptr %positional, i64 %count, ptr %names")
        text.line(f"ret ptr {answer}")

    def _drop_results(self) -> None:
        for number in self._results:
            self._perform("decrease", f"ptr {self._text.load('ptr', '%objects', 8 * number)}")
