"""The command `tcp-eqsat`. Exit status: 0 done, 1 a failed check, 2 unusable input or arguments."""

from __future__ import annotations

import enum
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from tcp_eqsat.errors import ArgumentError, TcpError

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich")
rules_app = typer.Typer(no_args_is_help=True, help="The rewrite rules.")
app.add_typer(rules_app, name="rules")
console = Console(highlight=False, soft_wrap=True, emoji=False)


class Emit(enum.StrEnum):
    """What `optimize` prints."""

    TCP = "tcp"
    STABLEHLO = "stablehlo"
    KERNELS = "kernels"
    LOOPS = "loops"
    LLVM = "llvm"
    ASM = "asm"
    PTX = "ptx"


class TestMode(enum.StrEnum):
    """How `test` runs."""

    REFERENCE = "reference"
    COMPILED = "compiled"
    BOTH = "both"


File = Annotated[Path, typer.Argument(help="A program: .tcp text or MLIR.", show_default=False)]
Entry = Annotated[str | None, typer.Option("--entry", help="The function (default: main, or the first).")]
Dims = Annotated[list[str] | None, typer.Option("--dim", help="A size, as b=32; may be repeated.")]
Target = Annotated[str, typer.Option("--target", help="cpu, ptx, or ptx:SM as in ptx:sm_90.")]
Tier = Annotated[str, typer.Option("--numerics", help="exact, reassociate, finite, approximate.")]
Threads = Annotated[int, typer.Option("--threads", min=1, help="Cores that the code may use (it uses one so far).")]
Budgets = Annotated[list[str] | None, typer.Option("--budget", help="A limit, as nodes=50000; may be repeated.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


def main() -> NoReturn:
    """The entry point: errors of the user's doing become a message and status 2."""
    debug = "--debug" in sys.argv
    try:
        status = app(standalone_mode=False) or 0  # the code of a typer.Exit; commands return nothing
    except (typer.Abort, KeyboardInterrupt):
        status = 130
    except TcpError as error:
        if debug:
            raise
        _print_error(error)
        status = 2
    except Exception as error:
        if debug:
            raise
        status = _unexpected(error)
    sys.exit(status)


def _unexpected(error: Exception) -> int:
    """A usage error is shown as such; anything else is our fault, and says so."""
    show = getattr(error, "show", None)
    if show is not None:
        show()
        return 2
    if isinstance(error, MemoryError):
        print("error: out of memory", file=sys.stderr)
        return 2
    print(f"error: internal: {type(error).__name__}: {error}  (--debug shows where)", file=sys.stderr)
    return 2


def _print_error(error: TcpError) -> None:
    from tcp_eqsat.frontends.diagnostics import render

    text = None
    if error.where is not None:
        path = Path(error.where.file)
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
    print(render(error, text), file=sys.stderr)


# Arguments


def _pairs(items: list[str] | None, what: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for item in items or []:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise ArgumentError(f"{what} is written NAME=VALUE, got {item!r}")
        if name in pairs:
            raise ArgumentError(f"{what} {name} is given twice")
        pairs[name] = value
    return pairs


def _numbers(items: list[str] | None, what: str) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for name, value in _pairs(items, what).items():
        try:
            numbers[name] = int(value)
        except ValueError:
            raise ArgumentError(f"{what} {name} must be an integer, got {value!r}") from None
        if numbers[name] < 0:
            raise ArgumentError(f"{what} {name} must not be negative, got {value}")
    return numbers


def _budget(items: list[str] | None) -> Any:
    from tcp_eqsat.lang.budget import Budget

    known: dict[str, Any] = {"seconds": float, "nodes": int, "growth": float, "iterations": int, "steps": int}
    values: dict[str, Any] = {}
    for name, value in _pairs(items, "--budget").items():
        if name not in known:
            raise ArgumentError(f"--budget knows {', '.join(known)}, got {name!r}")
        try:
            values[name] = known[name](value)
        except ValueError:
            raise ArgumentError(f"--budget {name} must be a number, got {value!r}") from None
    return Budget(**values)


def _print_json(value: dict[str, Any]) -> None:
    from tcp_eqsat.report import json_ready

    print(json.dumps(json_ready(value), indent=2))


# Commands


def _show_version(wanted: bool) -> None:
    if wanted:
        from tcp_eqsat import __version__

        print(f"tcp-eqsat {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[bool, typer.Option(
        "--version", is_eager=True, callback=_show_version, help="Show the version and exit.")] = False,
) -> None:
    """Finds the cheapest equivalent of a tensor program and compiles it to native code."""


@app.command()
def demo(as_json: Json = False, debug: Debug = False) -> None:
    """The main job on bundled programs: read, saturate, extract, compile, run, compare with NumPy."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # one core each; NumPy reads it when it is imported, just below
    from tcp_eqsat.demo import run_demo, show_demo

    outcome = run_demo()
    if as_json:
        _print_json(outcome.to_json())
    else:
        show_demo(outcome, console)
    if not outcome.passed:
        raise typer.Exit(1)


@app.command()
def run(
    file: File, entry: Entry = None, dim: Dims = None, target: Target = "cpu", numerics: Tier = "exact",
    threads: Threads = 1, budget: Budgets = None,
    inputs: Annotated[list[str] | None, typer.Option("--input", help="An array, as x=x.npy.")] = None,
    random: Annotated[int, typer.Option(help="Seed of inputs that are not given.")] = 0,
    check: Annotated[bool, typer.Option("--check", help="Compare with the NumPy reference.")] = False,
    repeat: Annotated[int, typer.Option(min=1, help="How often to call; the median time is shown.")] = 1,
    as_json: Json = False, debug: Debug = False,
) -> None:
    """Compile a program and run it, on arrays from files or on random ones."""
    from tcp_eqsat.run import run_program, show_run

    outcome = run_program(
        file, entry=entry, dims=_numbers(dim, "--dim"), target=target, numerics=numerics, threads=threads,
        budget=_budget(budget), inputs=_pairs(inputs, "--input"), seed=random, check=check, repeat=repeat)
    if as_json:
        _print_json(outcome.to_json())
    else:
        show_run(outcome, console)
    if not outcome.passed:
        raise typer.Exit(1)


@app.command()
def optimize(
    file: File, entry: Entry = None, dim: Dims = None, target: Target = "cpu", numerics: Tier = "exact",
    threads: Threads = 1, budget: Budgets = None,
    emit: Annotated[Emit | None, typer.Option(help="What to print.")] = None,
    output: Annotated[Path | None, typer.Option("-o", help="Where to write it (default: standard output).")] = None,
    as_json: Json = False, debug: Debug = False,
) -> None:
    """Optimise a program and print the result: its program (or as StableHLO), kernels, loops, LLVM, assembly or PTX."""
    from tcp_eqsat.codegen.target import PTX, is_ptx
    from tcp_eqsat.pipeline import compile as compile_program
    from tcp_eqsat.pipeline import optimize as optimize_program
    from tcp_eqsat.run import check_dims, read_timed

    dims = _numbers(dim, "--dim")
    if emit is Emit.PTX and target == "cpu":
        target = PTX
    options: dict[str, Any] = {
        "entry": entry, "target": target, "numerics": numerics, "budget": _budget(budget), "sizes": dims}
    program, read_seconds = read_timed(file)
    check_dims(program.function(entry), dims)
    if emit in (Emit.LOOPS, Emit.LLVM, Emit.ASM, Emit.PTX) and is_ptx(target):
        best = optimize_program(program, **options)
        report, text = best.report, _ptx_text(best, target, emit)
    elif emit in (Emit.LOOPS, Emit.LLVM, Emit.ASM):
        compiled = compile_program(program, threads=threads, **options)
        report, best = compiled.report, compiled.optimized
        text = {Emit.LOOPS: compiled.code.loops, Emit.LLVM: compiled.code.llvm,
                Emit.ASM: compiled.code.assembly}[emit]
    else:
        best = optimize_program(program, **options)
        report = best.report
        text = "\n".join(report.kernel_texts) if emit is Emit.KERNELS else _program_text(best, emit)
    text = text.rstrip("\n") + "\n"
    if output is not None:
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ArgumentError(f"can't write {output}: {error.strerror or error}") from None
    if as_json:
        found = report.to_json()
        found["seconds"] = {"read": read_seconds, **found["seconds"]}
        shown = {} if output is not None else {"emit": (emit or Emit.TCP).value, "text": text}
        _print_json({**found, **shown})
    elif emit is not None and output is None:
        print(text, end="")
    else:
        _show_report(report)


def _ptx_text(best: Any, target: str, emit: Emit) -> str:
    from tcp_eqsat.codegen.ptx import emit_plan
    from tcp_eqsat.codegen.target import ptx_target

    if emit is Emit.ASM:
        raise ArgumentError(f"--emit asm requires target cpu, got {target}; --emit ptx prints what {target} has")
    artifact = emit_plan(best.plan, ptx_target(target))
    texts = {Emit.LOOPS: artifact.loops, Emit.LLVM: artifact.llvm}
    return texts.get(emit) or "".join(f"// {line}\n" for line in artifact.launch_plan.splitlines()) + artifact.text


def _program_text(best: Any, emit: Emit | None) -> str:
    if emit is Emit.STABLEHLO:
        from tcp_eqsat.frontends.mlir.stablehlo_forms import write as write_stablehlo

        return write_stablehlo(best.program)
    from tcp_eqsat.lang.text import write

    return write(best.program)


def _show_report(report: Any) -> None:
    signature, *lines = str(report).split("\n")
    console.print(f"[bold]{escape(signature)}[/bold]")
    for line in lines:
        console.print(escape(line))


@app.command("test")
def run_tests(
    paths: Annotated[list[Path], typer.Argument(help="MLIR files, or directories of them.", show_default=False)],
    mode: Annotated[TestMode, typer.Option(help="The NumPy reference, machine code, or both.")] = TestMode.REFERENCE,
    pattern: Annotated[str | None, typer.Option("-k", help="Only tests whose name or file contains this.")] = None,
    processes: Annotated[int, typer.Option(min=1, max=64, help="How many run at a time.")] = 2,
    as_json: Json = False, debug: Debug = False,
) -> None:
    """Run programs that state what they expect of their own values (`check.expect_eq` and its like)."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    from tcp_eqsat.conformance import Mode, Outcome, Verdict, find_files
    from tcp_eqsat.conformance_workers import run_files

    files = find_files(paths)
    outcomes: list[Outcome] = []
    with console.status("") as status:
        def progress(done: int) -> None:
            failed = sum(each.verdict is Verdict.FAILED for each in outcomes)
            status.update(f"{done} of {len(files)} files, {len(outcomes)} tests, {failed} failed")

        for outcome in run_files(files, Mode(mode.value), pattern, processes, progress):
            outcomes.append(outcome)
            if outcome.verdict is not Verdict.PASSED and not as_json:
                console.print(escape(str(outcome)))
    count = {verdict: sum(each.verdict is verdict for each in outcomes) for verdict in Verdict}
    if as_json:
        _print_json({"schema": 1, **{verdict.value: count[verdict] for verdict in Verdict}, "tests": [
            {"file": o.file, "name": o.name, "verdict": o.verdict.value, "message": o.message} for o in outcomes]})
    else:
        skipped = f", {count[Verdict.SKIPPED]} skipped" if count[Verdict.SKIPPED] else ""
        console.print(f"{count[Verdict.PASSED]} passed, {count[Verdict.FAILED]} failed{skipped}")
    if count[Verdict.FAILED]:
        raise typer.Exit(1)


# Rules


@rules_app.command("list")
def rules_list(as_json: Json = False, debug: Debug = False) -> None:
    """The shipped rules: name, numerics they need, how they are verified, what they are for.

    Enumerated: on all inputs of small float formats, here and now, and tested. Tested: on random matches, by the
    package's tests.
    """
    from tcp_eqsat.rules import default
    from tcp_eqsat.rules.enumeration import enumerate_rule

    rows = [{"name": rule.name, "numerics": str(rule.needs),
             "verdict": "enumerated" if enumerate_rule(rule)[0] else "tested", "doc": rule.doc} for rule in default]
    if as_json:
        _print_json({"schema": 1, "rules": rows})
        return
    widths = [max(len(row[key]) for row in rows) for key in ("name", "numerics", "verdict")]
    for row in rows:
        *cells, doc = row.values()
        padded = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        console.print(f"{escape(padded)}  {escape(doc)}")
    console.print(f"{len(rows)} rules")


RuleNames = Annotated[list[str], typer.Argument(help="Names of shipped rules, or files of rules.", show_default=False)]


def _rules_named(names: list[str]) -> Any:
    """Shipped rules by name, and all rules of files, in the order asked for."""
    from tcp_eqsat.rules import RuleSet, everything, load

    found = RuleSet()
    for name in names:
        found = found + (load(name) if name.endswith(".py") or os.sep in name else everything[name])
    return found


@rules_app.command("show")
def rules_show(names: RuleNames, as_json: Json = False, debug: Debug = False) -> None:
    """Rules in full: pattern, replacement, condition, numerics, why."""
    rows = [{"name": rule.name, "rule": str(rule), "numerics": str(rule.needs), "doc": rule.doc}
            for rule in _rules_named(names)]
    if as_json:
        _print_json({"schema": 1, "rules": rows})
        return
    for row in rows:
        console.print(f"[bold]{escape(row['name'])}[/bold]   numerics {escape(row['numerics'])}")
        console.print(f"  {escape(row['rule'])}\n  {escape(row['doc'])}", soft_wrap=True)


@rules_app.command("test")
def rules_test(
    names: Annotated[list[str] | None, typer.Argument(help="Names or files (default: all shipped rules).")] = None,
    as_json: Json = False, debug: Debug = False,
) -> None:
    """Check rules for soundness, with counterexamples and advice for those that fail."""
    from tcp_eqsat.rules import everything
    from tcp_eqsat.rules.advice import report as advice
    from tcp_eqsat.rules.check import check

    verdicts = [check(rule) for rule in (_rules_named(names) if names else everything)]
    failed = [verdict for verdict in verdicts if not verdict.holds]
    if as_json:
        _print_json({"schema": 1, "passed": len(verdicts) - len(failed), "failed": len(failed), "rules": [
            {"name": v.rule.name, "holds": v.holds, "verdict": v.method, "text": str(v)} for v in verdicts]})
    else:
        for verdict in failed:
            console.print(escape(advice(verdict)), soft_wrap=True)
        console.print(f"{len(verdicts) - len(failed)} passed, {len(failed)} failed")
    if failed:
        raise typer.Exit(1)


if __name__ == "__main__":
    main()
