"""The examples in docs/rules.md run, and what it shows as output is what comes out."""

from __future__ import annotations

import re
from pathlib import Path

from tcp_eqsat.rules import THEMES

TEXT = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")


def test_examples_run(capsys):
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL):
        exec(block, names)
    printed = capsys.readouterr().out
    (shown,) = re.findall(r"```\n(FAILED.*?)```", TEXT, flags=re.DOTALL)
    assert shown in printed


def test_every_theme_is_listed():
    assert all(f"`{theme}.py`" in TEXT for theme in THEMES)
