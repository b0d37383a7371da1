"""The examples in docs/language.md run, and its text can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tcp_eqsat.lang import text

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")


def test_examples_run():
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        exec(block, names)


@pytest.mark.parametrize("content", re.findall(r"```\n(tcp 1\n.*?)```", PAGE, flags=re.DOTALL))
def test_programs_are_read(content):
    assert text.parse(content).functions
