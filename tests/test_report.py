"""Reports of programs with regions: what happened in them counts, and stands by itself too."""

from __future__ import annotations

import json

import numpy as np

import tcp_eqsat as tcp
from tcp_eqsat.lang.budget import Budget

xp = tcp.numpy


def shifted(x, n):
    """Each body has something to cancel; the program around them too."""
    def turn(state):
        i, v = state
        v = tcp.cond(i > 2, lambda: xp.negative(xp.negative(v)), lambda: v * 1.0)
        return i + 1, v

    return xp.negative(xp.negative(tcp.while_loop(lambda state: state[0] < n, turn, (n - n, x))[1]))


def test_regions() -> None:
    program = tcp.trace(shifted, "f64[s]", "i64[]")
    report = tcp.compile(program).report
    assert len(report.regions) == 4
    each = [sum(x.matches.values()) for x in report.saturations]
    assert sum(report.matches.values()) == sum(each) and sum(map(bool, each)) >= 3
    assert report.nodes == report.saturation.nodes + sum(x.nodes for x in report.regions)
    assert f"{report.nodes} e-nodes in the program and 4 regions, saturated after" in str(report)
    found = json.loads(json.dumps(report.to_json()))
    assert found["e_nodes"] == report.nodes and found["rules_fired"] == report.matches
    assert [x["e_nodes"] for x in found["regions"]] == [x.nodes for x in report.regions]
    assert all(x["stop_reason"] == "saturated" for x in found["regions"])
    np.testing.assert_array_equal(tcp.compile(program)(np.arange(3.0), np.array(5)), np.arange(3.0))


def test_without_regions() -> None:
    report = tcp.compile(tcp.trace(lambda x: x + x, "f64[3]")).report
    assert report.regions == () and "region" not in str(report) and report.to_json()["regions"] == []
    assert report.matches == report.saturation.matches


def test_a_region_that_was_cut_short_shows() -> None:
    def turn(state):
        i, v = state
        return i + 1, (v + 1.0) * (v - 1.0) + v * 2.0

    program = tcp.trace(lambda x, n: tcp.while_loop(lambda s: s[0] < n, turn, (n - n, x))[1], "f64[s]", "i64[]")
    report = tcp.compile(program, budget=Budget(iterations=1)).report
    assert report.stop_reason in {x.stop_reason.value for x in report.saturations} - {"saturated"}
