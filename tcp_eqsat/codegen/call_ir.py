"""The LLVM text of a compiled call: a C function that CPython calls with borrowed arguments.

The function checks everything that the interpreted call checks, for arrays that can be taken as they are: exactly
`ndarray`, native dtype, C-contiguous, aligned. It makes the results, calls the entry and returns. Where a check
fails it hands the same arguments to the interpreted call, which words the error or copes.

The text depends on the signature's types only: every address comes from a table that the function finds through
the object it is bound to. Equal text is equal machine code, in any process.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from tcp_eqsat.codegen import numpy_abi as abi
from tcp_eqsat.codegen.signature import Signature, Solve, WorkspaceBytes
from tcp_eqsat.codegen.size_ir import INTRINSICS, CheckedText, Operand, SizeText
from tcp_eqsat.lang.types import DType, TensorType

NAME = "call"
"""The function that the text defines."""
RELEASES_ABOVE = 1 << 14
"""Elements of all arrays together above which the GIL is released: some microseconds of work."""
KEEPS_BYTES = 1 << 26
"""The largest workspace in bytes that is kept for the next call."""
WORKSPACE_ALIGNMENT = 64
"""In bytes. As many lie before a kept workspace: the last two words are its allocation and its capacity."""
ALLOCATION, CAPACITY = -16, -8
"""Offsets in bytes from the start of a workspace."""

_OWN = ("entry", "constants", "workspace", "workspace_bytes")


@dataclass(frozen=True)
class Table:
    """The places of addresses: the runtime's, this call's own, those of dtypes, parameter names, and `out`.

    The word `workspace` holds a free workspace or 0; `workspace_bytes` is a function of the sizes, where the
    signature alone does not tell. The table's memory is written at the former only.
    """

    dtypes: tuple[DType, ...]
    parameters: int

    @classmethod
    def of(cls, signature: Signature) -> Table:
        types = [*(p.type for p in signature.parameters), *signature.results]
        return cls(tuple(dict.fromkeys(t.dtype for t in types)), len(signature.parameters))

    @property
    def names(self) -> int:
        """The place of the first parameter's name."""
        return len(abi.RUNTIME) + len(_OWN) + len(self.dtypes)

    def __len__(self) -> int:
        return self.names + self.parameters + 1

    def of_name(self, name: str) -> int:
        return (*abi.RUNTIME, *_OWN).index(name)

    def of_dtype(self, dtype: DType) -> int:
        return len(abi.RUNTIME) + len(_OWN) + self.dtypes.index(dtype)


def emit_call(signature: Signature, workspace_bytes: WorkspaceBytes) -> str:
    """The text of a module that defines `ptr @call(ptr self, ptr arguments, i64 count, ptr names)`.

    `self` is an array of objects: the interpreted call, then an int64 array, the table.
    """
    table = Table.of(signature)
    body = _Call(signature, workspace_bytes, table).text()
    return "\n".join((body, _match_names(table), _is_plain(), _CLAIM.format_map(_Places(table)), INTRINSICS))


class _Places(dict[str, object]):
    """What the fixed parts of the text are formatted with: places in the table, as offsets, and constants."""

    def __init__(self, table: Table) -> None:
        names = (*abi.RUNTIME, *_OWN)
        super().__init__({name: 8 * table.of_name(name) for name in names})
        self.update(
            alignment=WORKSPACE_ALIGNMENT,
            mask=-WORKSPACE_ALIGNMENT,
            extra=2 * WORKSPACE_ALIGNMENT,
            skip=2 * WORKSPACE_ALIGNMENT - 1,
            kept=KEEPS_BYTES,
            allocation=ALLOCATION,
            capacity=CAPACITY,
        )


class _Call:
    """Writes the body of one call, part after part."""

    def __init__(self, signature: Signature, workspace_bytes: WorkspaceBytes, table: Table) -> None:
        self._signature = signature
        self._workspace_bytes = workspace_bytes
        self._table = table
        self._text = CheckedText(exit="interpret")
        self._sizes = SizeText(self._text)
        self._results = range(len(signature.results))

    def text(self) -> str:
        self._open()
        extents, inputs = self._check_arguments()
        self._bind_symbols(extents)
        shapes = [tuple(map(self._sizes.extent, t.shape)) for t in self._signature.results]
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
                found = text.value(f"sdiv i64 {part}, {slope}") if slope != 1 else part
                text.require_equal(text.integer("mul", found, slope), part)
                found = text.integer("mul", found, divisor)
            elif divisor != 1:
                text.require_equal(text.value(f"urem i64 {found}, {divisor}"), 0)
            if symbol.lower > 0 or not step.is_direct:
                text.require(text.compare("sge", found, symbol.lower))
            text.require(text.compare("sle", found, symbol.upper))
            sizes.bind(symbol, found)
        for guard in self._signature.guards:
            text.require_equal(sizes.value(guard.left), sizes.value(guard.right))
        for number, symbol in enumerate(self._signature.symbols):
            text.store("i64", sizes.symbol(symbol), "%sizes", 8 * number)

    def _evaluate_workspace(self) -> Operand:
        if not callable(self._workspace_bytes):
            return self._sizes.extent(self._workspace_bytes)
        size = self._call("i64", "workspace_bytes", "ptr %sizes")
        self._text.require(self._text.compare("sge", size, 0))
        return size

    def _make_results(
        self, shapes: list[tuple[Operand, ...]], inputs: list[str], extents: list[tuple[str, ...]]
    ) -> None:
        """Fills `outputs` and `objects`, with new arrays or with those of `out`; all references are owned."""
        text = self._text
        absent = text.compare("eq", "%out", "null", "ptr")
        none = text.compare("eq", "%out", self._address("none"), "ptr")
        text.line(f"br i1 {text.value(f'or i1 {absent}, {none}')}, label %fresh, label %given")

        text.label("given")
        ranges = [
            (data, text.at(data, self._bytes(p.type, shape)))
            for p, data, shape in zip(self._signature.parameters, inputs, extents, strict=True)
        ]
        objects = self._unpack_out()
        for t, shape, array in zip(self._signature.results, shapes, objects, strict=True):
            found, data = self._check_array(array, t, abi.FILLABLE)
            for extent, wanted in zip(found, shape, strict=True):
                text.require_equal(extent, wanted)
            end = text.at(data, self._bytes(t, found))
            for other, other_end in ranges:
                before = text.compare("ule", end, other, "ptr")
                after = text.compare("ule", other_end, data, "ptr")
                text.require(text.value(f"or i1 {before}, {after}"))
            ranges.append((data, end))
            text.store("ptr", data, "%outputs", 8 * (len(ranges) - len(inputs) - 1))
        for number, array in enumerate(objects):
            self._perform("increase", f"ptr {array}")
            text.store("ptr", array, "%objects", 8 * number)
        text.line("br label %run")

        text.label("fresh")
        text.exit = "give_up"
        for number, (t, shape) in enumerate(zip(self._signature.results, shapes, strict=True)):
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
        text.line("br label %run")

    def _unpack_out(self) -> list[str]:
        """The objects of `out`, borrowed."""
        if len(self._results) == 1:
            return ["%out"]
        text = self._text
        text.require_equal(text.load("ptr", "%out", abi.TYPE), self._address("tuple_type"), "ptr")
        text.require_equal(self._call("i64", "tuple_size", "ptr %out"), len(self._results))
        return [self._call("ptr", "get_item", f"ptr %out, i64 {number}") for number in self._results]

    def _elements(self, shape: Sequence[Operand]) -> Operand:
        multiply = functools.partial(self._text.integer, "mul", wraps=True)
        return functools.reduce(multiply, shape, 1)

    def _bytes(self, t: TensorType, shape: Sequence[Operand]) -> Operand:
        return self._text.integer("mul", self._elements(shape), t.dtype.bytes, wraps=True)

    def _run(self, shapes: list[tuple[Operand, ...]]) -> None:
        """Calls the entry, without the GIL where there is much to do."""
        text = self._text
        text.label("run")
        workspace = "null"
        if self._workspace_size != 0:
            workspace = text.value(f"call ptr @claim(ptr %table, i64 {self._workspace_size})")
            text.require(text.compare("ne", workspace, "null", "ptr"))
        constants = self._address("constants")
        arguments = f"ptr %inputs, ptr %outputs, ptr {constants}, ptr {workspace}, ptr %sizes"
        add = functools.partial(text.integer, "add", wraps=True)
        elements = functools.reduce(add, map(self._elements, shapes), 0)
        much = text.compare("ugt", elements, RELEASES_ABOVE)
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
        if self._workspace_size != 0:
            text.line(f"call void @give_back(ptr %table, ptr {workspace})")

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


def _is_plain() -> str:
    """Whether an object is an `ndarray` with this dtype, rank and flags."""
    text = CheckedText(exit="no")
    text.label("entry")
    text.require_equal(text.load("ptr", "%object", abi.TYPE), "%type", "ptr")
    text.require_equal(text.load("i32", "%object", abi.RANK), "%rank", "i32")
    text.require_equal(text.load("ptr", "%object", abi.DTYPE), "%dtype", "ptr")
    flags = text.value(f"and i32 {text.load('i32', '%object', abi.FLAGS)}, %mask")
    text.require_equal(flags, "%wanted", "i32")
    parameters = "ptr %object, ptr %type, ptr %dtype, i32 %rank, i32 %mask, i32 %wanted"
    header = f"define internal i1 @is_plain({parameters}) nounwind {{"
    return "\n".join([header, *text.lines, "  ret i1 true", "no:", "  ret i1 false", "}"])


def _match_names(table: Table) -> str:
    """Puts arguments by position and by name into the parameters' order, `out` (or null) last.

    False where that fails, also for names that are equal to a parameter's without being the same object.
    """
    return _MATCH_NAMES.format(
        count=table.parameters,
        slots=8 * (table.parameters + 1),
        names=8 * table.names,
        tuple_size=8 * table.of_name("tuple_size"),
        get_item=8 * table.of_name("get_item"),
    )


_MATCH_NAMES = """
define internal i1 @match_names(ptr %table, ptr %positional, i64 %count, ptr %names, ptr %slots) nounwind {{
entry:
  %few = icmp ule i64 %count, {count}
  br i1 %few, label %start, label %no
start:
  call void @llvm.memset.p0.i64(ptr align 8 %slots, i8 0, i64 {slots}, i1 false)
  %copied = shl i64 %count, 3
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %slots, ptr align 8 %positional, i64 %copied, i1 false)
  %size.at = getelementptr i8, ptr %table, i64 {tuple_size}
  %size = load ptr, ptr %size.at, align 8
  %item.at = getelementptr i8, ptr %table, i64 {get_item}
  %item = load ptr, ptr %item.at, align 8
  %known = getelementptr i8, ptr %table, i64 {names}
  %named = call i64 %size(ptr %names)
  br label %each
each:
  %number = phi i64 [ 0, %start ], [ %next, %fill ]
  %more = icmp ult i64 %number, %named
  br i1 %more, label %find, label %all
find:
  %name = call ptr %item(ptr %names, i64 %number)
  br label %search
search:
  %slot = phi i64 [ {count}, %find ], [ %lower, %other ]
  %known.at = getelementptr ptr, ptr %known, i64 %slot
  %candidate = load ptr, ptr %known.at, align 8
  %same = icmp eq ptr %candidate, %name
  br i1 %same, label %found, label %other
other:
  %lower = sub i64 %slot, 1
  %exhausted = icmp slt i64 %lower, 0
  br i1 %exhausted, label %no, label %search
found:
  %slot.at = getelementptr ptr, ptr %slots, i64 %slot
  %taken = load ptr, ptr %slot.at, align 8
  %free = icmp eq ptr %taken, null
  br i1 %free, label %fill, label %no
fill:
  %place = add i64 %count, %number
  %argument.at = getelementptr ptr, ptr %positional, i64 %place
  %argument = load ptr, ptr %argument.at, align 8
  store ptr %argument, ptr %slot.at, align 8
  %next = add i64 %number, 1
  br label %each
all:
  %out.at = getelementptr ptr, ptr %slots, i64 {count}
  %out = load ptr, ptr %out.at, align 8
  %has.out = icmp ne ptr %out, null
  %outs = zext i1 %has.out to i64
  %given = add i64 %count, %named
  %filled = sub i64 %given, %outs
  %complete = icmp eq i64 %filled, {count}
  ret i1 %complete
no:
  ret i1 false
}}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"""

_CLAIM = """
define internal ptr @claim(ptr %table, i64 %bytes) nounwind {{
entry:
  %kept = getelementptr i8, ptr %table, i64 {workspace}
  %free = atomicrmw xchg ptr %kept, ptr null acquire, align 8
  %none = icmp eq ptr %free, null
  br i1 %none, label %allocate, label %check
check:
  %capacity.at = getelementptr i8, ptr %free, i64 {capacity}
  %capacity = load i64, ptr %capacity.at, align 8
  %enough = icmp uge i64 %capacity, %bytes
  br i1 %enough, label %use, label %drop
use:
  ret ptr %free
drop:
  call void @drop(ptr %table, ptr %free)
  br label %allocate
allocate:
  %huge = icmp ugt i64 %bytes, 4611686018427387904
  br i1 %huge, label %no, label %make
make:
  %total = add i64 %bytes, {extra}
  %make.at = getelementptr i8, ptr %table, i64 {allocate}
  %make.function = load ptr, ptr %make.at, align 8
  %allocation = call ptr %make.function(i64 %total)
  %failed = icmp eq ptr %allocation, null
  br i1 %failed, label %no, label %align
align:
  %raw = ptrtoint ptr %allocation to i64
  %beyond = add i64 %raw, {skip}
  %aligned = and i64 %beyond, {mask}
  %workspace = inttoptr i64 %aligned to ptr
  %own.capacity.at = getelementptr i8, ptr %workspace, i64 {capacity}
  store i64 %bytes, ptr %own.capacity.at, align 8
  %own.allocation.at = getelementptr i8, ptr %workspace, i64 {allocation}
  store ptr %allocation, ptr %own.allocation.at, align 8
  ret ptr %workspace
no:
  ret ptr null
}}
define internal void @give_back(ptr %table, ptr %workspace) nounwind {{
entry:
  %capacity.at = getelementptr i8, ptr %workspace, i64 {capacity}
  %capacity = load i64, ptr %capacity.at, align 8
  %small = icmp ule i64 %capacity, {kept}
  br i1 %small, label %keep, label %drop
keep:
  %kept = getelementptr i8, ptr %table, i64 {workspace}
  %other = atomicrmw xchg ptr %kept, ptr %workspace acq_rel, align 8
  %none = icmp eq ptr %other, null
  br i1 %none, label %done, label %drop
drop:
  %old = phi ptr [ %workspace, %entry ], [ %other, %keep ]
  call void @drop(ptr %table, ptr %old)
  br label %done
done:
  ret void
}}
define internal void @drop(ptr %table, ptr %workspace) nounwind {{
entry:
  %allocation.at = getelementptr i8, ptr %workspace, i64 {allocation}
  %allocation = load ptr, ptr %allocation.at, align 8
  %free.at = getelementptr i8, ptr %table, i64 {release}
  %free = load ptr, ptr %free.at, align 8
  call void %free(ptr %allocation)
  ret void
}}"""
