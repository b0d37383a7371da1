"""Options of the test run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcp_eqsat.lang.tiers import TIERS


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--programs", type=int, default=40, help="how many random programs to compile")
    parser.addoption("--first-program", type=int, default=0, help="the seed of the first one")
    parser.addoption("--every-rank", action="store_true", help="compile every operation for every dtype and rank")
    parser.addoption("--mutations", type=int, default=300, help="how many damaged MLIR texts to read")
    parser.addoption("--numerics", choices=tuple(TIERS), default="exact", help="the tier of random programs")
    parser.addoption("--rewrite", action="store_true", help="write docs/operations.md anew instead of comparing it")
    parser.addoption("--peers", action="store_true", help="also run tests/peers, which needs the extra `peers`")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Comparisons with other packages are another set of tests."""
    return True if collection_path.name == "peers" and not config.getoption("--peers") else None
