"""Options of the test run."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--programs", type=int, default=40, help="how many random programs to compile")
    parser.addoption("--first-program", type=int, default=0, help="the seed of the first one")
