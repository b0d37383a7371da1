"""egglog's compiled classes, without its Python layer."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

os.environ.setdefault("RUST_BACKTRACE", "0")


def _load_alone() -> None:
    """Loads `egglog.bindings` without the package round it, whose own layer takes a tenth of a second to import.

    The package is loaded, by the standard library's lazy loader, when somebody else first uses it.
    """
    name = "egglog.bindings"
    package = None if "egglog" in sys.modules else importlib.util.find_spec("egglog")
    if package is None or package.loader is None or not package.submodule_search_locations:
        return
    kinds = importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES
    found = importlib.machinery.FileFinder(package.submodule_search_locations[0], kinds).find_spec(name)
    if found is None or found.loader is None:
        return
    package.loader = importlib.util.LazyLoader(package.loader)
    lazy = importlib.util.module_from_spec(package)
    sys.modules["egglog"] = lazy
    package.loader.exec_module(lazy)
    module = sys.modules[name] = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    lazy.bindings = module  # type: ignore[attr-defined]  # reading an attribute would load the package


_load_alone()

from egglog.bindings import EggSmolError, EGraph  # noqa: E402

__all__ = ["EGraph", "EggSmolError"]
