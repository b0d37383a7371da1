"""How a call with loops lets itself be interrupted.

Loops count down what they do. When some milliseconds of work are done they ask, through the *watch* that is handed down
to them, whether a signal came whose handler raises, as Ctrl-C does; then every function returns at once. A function
that may be interrupted gives an i32: 0, or 1 with a Python exception set.

From the first question on the call runs without the GIL, if it held it before.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcp_eqsat.codegen.size_ir import CheckedText, Operand
from tcp_eqsat.codegen.work import MUCH

LEFT, POLL, _CHECK, _SAVE, _RESTORE, _THREAD = range(0, 48, 8)
"""Offsets in bytes into a watch: units of work until the next question, the function that asks, CPython's functions
that it calls, and the state of this thread while it runs without the GIL, else null."""
INTERRUPTED = "interrupted"
"""The block of a function to which it leaves when the call is interrupted."""
RUN = "run"
"""The function that `run_text` defines."""
NEEDED = ("check_signals", "save_thread", "restore_thread")
"""The functions of CPython that RUN takes, in order, by their names in `numpy_abi`."""


def call_watched(text: CheckedText, symbol: str, arguments: Sequence[str], is_watched: bool) -> None:
    """Calls a function; one that may be interrupted gets the watch as its last argument and makes its caller leave."""
    if not is_watched:
        text.line(f"call void @{symbol}({', '.join(arguments)})")
        return
    _require_zero(text, text.value(f"call i32 @{symbol}({', '.join((*arguments, 'ptr %watch'))})"))


def count_down(text: CheckedText, work: Operand) -> None:
    """Counts work in the watch `%watch`, asks where enough is done, and leaves where the answer is to stop."""
    left = text.value(f"sub i64 {text.load('i64', '%watch', LEFT)}, {work}")
    text.store("i64", left, "%watch", LEFT)
    ask, on = text.name("ask"), text.name("on")
    text.line(f"br i1 {text.compare('slt', left, 0)}, label %{ask}, label %{on}")
    text.label(ask)
    _require_zero(text, text.value(f"call i32 {text.load('ptr', '%watch', POLL)}(ptr %watch)"))
    text.line(f"br label %{on}")
    text.label(on)


def _require_zero(text: CheckedText, status: str) -> None:
    on = text.name("on")
    text.line(f"br i1 {text.compare('eq', status, 0, 'i32')}, label %{on}, label %{INTERRUPTED}")
    text.label(on)


def run_text(linkage: str = "") -> str:
    """`i32 @run(entry, its five arguments, three functions of CPython, i32 released)` with everything that it calls.

    It runs an entry that may be interrupted, without the GIL from the start where `released` is not 0. The GIL is held
    before and after it.
    """
    return _RUN.format(linkage=linkage, name=RUN, interval=MUCH, poll=POLL, check=_CHECK, save=_SAVE,
                       restore=_RESTORE, thread=_THREAD)


_RUN = """
define {linkage} i32 @{name}(ptr %entry, ptr %parameters, ptr %results, ptr %constants, ptr %workspace, ptr %sizes,
                             ptr %check, ptr %save, ptr %restore, i32 %released) nounwind {{
start:
  %watch = alloca [6 x i64], align 8
  %poll.at = getelementptr i8, ptr %watch, i64 {poll}
  %check.at = getelementptr i8, ptr %watch, i64 {check}
  %save.at = getelementptr i8, ptr %watch, i64 {save}
  %restore.at = getelementptr i8, ptr %watch, i64 {restore}
  %thread.at = getelementptr i8, ptr %watch, i64 {thread}
  store i64 {interval}, ptr %watch, align 8
  store ptr @poll, ptr %poll.at, align 8
  store ptr %check, ptr %check.at, align 8
  store ptr %save, ptr %save.at, align 8
  store ptr %restore, ptr %restore.at, align 8
  store ptr null, ptr %thread.at, align 8
  %keep = icmp eq i32 %released, 0
  br i1 %keep, label %go, label %release
release:
  %saved = call ptr %save()
  store ptr %saved, ptr %thread.at, align 8
  br label %go
go:
  %status = call i32 %entry(ptr %parameters, ptr %results, ptr %constants, ptr %workspace, ptr %sizes, ptr %watch)
  %thread = load ptr, ptr %thread.at, align 8
  %held = icmp eq ptr %thread, null
  br i1 %held, label %done, label %take
take:
  call void %restore(ptr %thread)
  br label %done
done:
  ret i32 %status
}}
define internal i32 @poll(ptr %watch) nounwind {{
start:
  store i64 {interval}, ptr %watch, align 8
  %thread.at = getelementptr i8, ptr %watch, i64 {thread}
  %thread = load ptr, ptr %thread.at, align 8
  %held = icmp eq ptr %thread, null
  br i1 %held, label %ask, label %take
take:
  %restore.at = getelementptr i8, ptr %watch, i64 {restore}
  %restore = load ptr, ptr %restore.at, align 8
  call void %restore(ptr %thread)
  br label %ask
ask:
  %check.at = getelementptr i8, ptr %watch, i64 {check}
  %check = load ptr, ptr %check.at, align 8
  %answer = call i32 %check()
  %stop = icmp ne i32 %answer, 0
  %status = zext i1 %stop to i32
  %save.at = getelementptr i8, ptr %watch, i64 {save}
  %save = load ptr, ptr %save.at, align 8
  %saved = call ptr %save()
  store ptr %saved, ptr %thread.at, align 8
  ret i32 %status
}}"""
