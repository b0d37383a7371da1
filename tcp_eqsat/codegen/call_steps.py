"""The steps of a compiled call that are functions of their own: the same LLVM text for every signature, but for
numbers of parameters and places in the table."""

from __future__ import annotations

from tcp_eqsat.codegen import numpy_abi as abi
from tcp_eqsat.codegen.call_table import Table
from tcp_eqsat.codegen.size_ir import CheckedText

KEEPS_BYTES = 1 << 26
"""The largest workspace in bytes that is kept for the next call."""
WORKSPACE_ALIGNMENT = 64
"""In bytes. As many lie before a kept workspace: the last two words are its allocation and its capacity."""
ALLOCATION, CAPACITY = -16, -8
"""Offsets in bytes from the start of a workspace."""


def is_plain() -> str:
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


def match_names(table: Table) -> str:
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

def workspace_functions(table: Table) -> str:
    """`ptr @claim(ptr table, i64 bytes)`, null if memory is short, and `@give_back(ptr table, ptr workspace)`."""
    return _WORKSPACE_FUNCTIONS.format(
        workspace=8 * table.of_name("workspace"),
        allocate=8 * table.of_name("allocate"),
        release=8 * table.of_name("release"),
        mask=-WORKSPACE_ALIGNMENT,
        extra=2 * WORKSPACE_ALIGNMENT,
        skip=2 * WORKSPACE_ALIGNMENT - 1,
        kept=KEEPS_BYTES,
        allocation=ALLOCATION,
        capacity=CAPACITY,
    )


_WORKSPACE_FUNCTIONS = """
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
