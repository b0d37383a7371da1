"""The layers hold: nothing imports upward, each outside package has one importer, and importing is cheap."""

from __future__ import annotations

import ast
import graphlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import tcp_eqsat

ROOT = Path(tcp_eqsat.__file__).parent

MAY_IMPORT = {
    "errors": set(),
    "programs": {"errors", "lang", "frontends"},
    "lang": {"errors"},
    "frontends": {"errors", "lang"},
    "codegen": {"errors", "lang"},
    "rules": {"errors", "lang"},
    "egraph": {"errors", "lang", "rules"},
    "extract": {"errors", "lang", "rules", "egraph"},
}
"""What each part may import beside itself. `pipeline` and what stands around it may import everything."""

TOP = {
    "__init__", "pipeline", "report", "compare", "agreement", "conformance", "conformance_workers", "timing", "jit",
    "run", "demo", "cli",
}

LANG = (
    {"intervals", "monomials"},
    {"polynomial", "ranges", "size_format", "size_text"},
    {"dims"},
    {"types", "unify", "budget"},
    {"narrow", "float_format", "quantized"},
    {"scalar", "builder", "type_text", "binding"},
    {"scalars", "pointful", "procedural", "complex_functions"},
    {"program", "tiers", "procedure_text", "procedure_copies"},
    {"op"},
    {"ops"},
    {"grad_control", "plan", "counting"},
    {"loops"},
    {"reference", "plan_reference", "grad", "text", "apart", "atoms", "specialise", "in_place"},
    {"batching"},
    {"jvp", "vmap"},
)
"""The layers within `lang`, from the bottom."""

ONLY = {"egglog": "egraph", "llvmlite": "codegen"}
LAZY = {"cli", "__init__"}
"""Modules that import inside of functions, so that a command or name loads what it needs."""


@dataclass(frozen=True)
class Import:
    module: str
    imported: str
    line: int
    inside: bool
    """Whether it stands in a function."""

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.imported}"


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts)


MODULES = {module_name(p): p for p in sorted(ROOT.rglob("*.py"))}


def imports_of(name: str, path: Path) -> Iterator[Import]:
    """Every import that runs: those for type checkers only are left out."""
    def visit(node: ast.AST, inside: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                    for other in child.orelse:
                        yield from visit(other, inside)
                case ast.Import(names=names):
                    for alias in names:
                        yield Import(name, alias.name, child.lineno, inside)
                case ast.ImportFrom(module=module, names=names, level=level):
                    assert level == 0, f"{name}:{child.lineno} is a relative import"
                    for alias in names:
                        whole = f"{module}.{alias.name}"
                        known = whole in MODULES or f"{whole}.__init__" in MODULES
                        yield Import(name, whole if known else str(module), child.lineno, inside)
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                    yield from visit(child, True)
                case _:
                    yield from visit(child, inside)

    yield from visit(ast.parse(path.read_text(encoding="utf-8")), False)


IMPORTS = [each for name, path in MODULES.items() for each in imports_of(name, path)]
OWN = [each for each in IMPORTS if each.imported.split(".")[0] == "tcp_eqsat"]


def part_of(module: str) -> str:
    """The package below tcp_eqsat, or the module beside the packages."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def lang_layer(module: str) -> int | None:
    parts = module.split(".")
    if parts[:2] != ["tcp_eqsat", "lang"] or len(parts) < 3 or parts[2] == "__init__":
        return None
    found = [n for n, layer in enumerate(LANG) if parts[2] in layer]
    assert found, f"{module} has no layer: give it one in this test"
    return found[0]


def test_every_module_has_a_layer():
    unknown = {part_of(m) for m in MODULES} - set(MAY_IMPORT) - TOP
    assert not unknown, f"give them a layer: {unknown}"
    for module in MODULES:
        lang_layer(module)


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_no_part_imports_upward(part):
    allowed = MAY_IMPORT[part] | {part}
    upward = [str(i) for i in OWN if part_of(i.module) == part and part_of(i.imported) not in allowed]
    assert not upward


def test_only_pipeline_and_what_stands_around_it_know_every_stage():
    seen = {part_of(i.module) for i in OWN if part_of(i.imported) in TOP - {"__init__"}}
    assert seen <= TOP


def test_lang_is_layered_within():
    upward = []
    for each in OWN:
        here, there = lang_layer(each.module), lang_layer(each.imported)
        if here is not None and there is not None and there > here:
            upward.append(str(each))
    assert not upward


def test_each_outside_package_has_one_importer():
    wrong = [str(i) for i in IMPORTS for package, part in ONLY.items()
             if i.imported.split(".")[0] == package and part_of(i.module) != part]
    assert not wrong
    for package in ONLY:
        assert any(i.imported.split(".")[0] == package for i in IMPORTS), f"nobody imports {package}"


def test_there_is_no_cycle():
    graph: dict[str, set[str]] = {}
    for each in OWN:
        imported = each.imported if each.imported in MODULES else f"{each.imported}.__init__"
        if not each.inside and imported != each.module and not each.module.endswith("__init__"):
            graph.setdefault(each.module, set()).add(imported)
    graphlib.TopologicalSorter(graph).prepare()


def test_imports_stand_at_the_top():
    """Inside of functions only where laziness is the purpose."""
    hidden = [str(i) for i in OWN if i.inside and part_of(i.module) not in LAZY]
    assert not hidden


# What importing costs

PROBE = """
import json, sys
before = set(sys.modules)
{statement}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter loads for a statement."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(statement=statement)], capture_output=True, text=True, check=True,
        cwd=ROOT.parent)
    return set(json.loads(done.stdout))


def packages(modules: set[str]) -> set[str]:
    return {m.split(".")[0] for m in modules}


HEAVY = {"egglog", "llvmlite", "numpy", "networkx", "scipy", "rich", "typer", "torch", "jax", "pandas"}


def test_importing_the_package_loads_nothing_heavy():
    modules = loaded_by("import tcp_eqsat")
    assert not packages(modules) & HEAVY
    assert {m for m in modules if m.startswith("tcp_eqsat")} == {"tcp_eqsat"}


@pytest.mark.parametrize("statement", [
    "import tcp_eqsat; tcp_eqsat.trace; tcp_eqsat.spec; tcp_eqsat.numpy; tcp_eqsat.nn; tcp_eqsat.Budget",
    "import tcp_eqsat.lang.text, tcp_eqsat.lang.grad, tcp_eqsat.lang.reference, tcp_eqsat.lang.atoms",
    "import tcp_eqsat.frontends.mlir",
])
def test_the_language_needs_numpy_only(statement):
    assert packages(loaded_by(statement)) & HEAVY == {"numpy"}


def test_each_stage_needs_its_own_package_only():
    assert packages(loaded_by("import tcp_eqsat.codegen.compile")) & {"egglog", "llvmlite"} == {"llvmlite"}
    assert "llvmlite" not in packages(loaded_by("import tcp_eqsat.extract"))
    assert not packages(loaded_by("import tcp_eqsat.rules")) & {"egglog", "llvmlite"}


def test_the_help_of_the_command_is_quick():
    modules = packages(loaded_by("import tcp_eqsat.cli"))
    assert not modules & {"egglog", "llvmlite", "numpy", "networkx", "scipy"}


# The public face


def test_every_public_name_is_there():
    for name in tcp_eqsat.__all__:
        assert getattr(tcp_eqsat, name) is not None
    assert set(tcp_eqsat.__all__) <= set(dir(tcp_eqsat))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        tcp_eqsat.nonsense  # noqa: B018
    assert (ROOT / "py.typed").exists()
