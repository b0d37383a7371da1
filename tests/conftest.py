"""Options of the test run."""

from __future__ import annotations

import pytest

from tcp_eqsat.lang.tiers import TIERS


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--programs", type=int, default=40, help="how many random programs to compile")
    parser.addoption("--first-program", type=int, default=0, help="the seed of the first one")
    parser.addoption("--numerics", choices=tuple(TIERS), default="exact", help="the tier of random programs")
