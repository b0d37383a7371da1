"""Start => goal: programs that only several rules together prove equal."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tcp_eqsat as tcp
from tcp_eqsat.egraph import saturate
from tcp_eqsat.lang.budget import Budget
from tcp_eqsat.lang.tiers import permissions

xp = tcp.numpy


def _equal(start, goal, specs, numerics, rules=tcp.rules.default):
    function = tcp.trace(lambda *arguments: (start(*arguments), goal(*arguments)), *map(tcp.spec, specs)).main
    found = saturate(function, rules, permissions(numerics), Budget())
    return found.view.roots[0] == found.view.roots[1]


def _softmax(x):
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


CASES = {
    "transposes_cancel": (
        "exact", ["f32[3, 4]"], lambda x: xp.exp(x.T).T, xp.exp),
    "transpose_of_product": (
        "exact", ["f32[3, 4]", "f32[4, 5]"], lambda x, w: (x @ w).T, lambda x, w: w.T @ x.T),
    "computed_before_broadcast": (
        "exact", ["f32[4]", "f32[b, 4]"], lambda v, x: x + xp.tanh(xp.broadcast_to(v, x.shape)),
        lambda v, x: x + xp.broadcast_to(xp.tanh(v), x.shape)),
    "division_by_eight": (
        "exact", ["f32[b, 4]"], lambda x: x / 8.0, lambda x: x * 0.125),
    "negations": (
        "exact", ["f32[b]", "f32[b]"], lambda x, y: -(-x * -y), lambda x, y: -(x * y)),
    "scale_of_scores_leaves_the_maximum": (
        "exact", ["f32[b, 8]"], lambda x: xp.max(x * 0.125, axis=-1), lambda x: xp.max(x, axis=-1) * 0.125),
    "maximum_of_maxima": (
        "exact", ["f32[3, 4, 5]"], lambda x: xp.max(xp.max(x, axis=2), axis=0), lambda x: xp.max(x, axis=(0, 2))),
    "siblings": (
        "exact", ["f32[b, 16]", "f32[16, 8]", "f32[16, 4]"], lambda x, v, w: x @ v,
        lambda x, v, w: (x @ xp.concat((v, w), axis=1))[:, :8]),
    "slice_of_joined": (
        "exact", ["f32[3, 4]", "f32[3, 4]"], lambda x, y: xp.concat((xp.exp(x), xp.exp(y)), axis=0)[3:, :],
        lambda x, y: xp.exp(y)),
    "sigmoid_in_tanh": (
        "reassociate", ["f32[b, 4]"], lambda x: 0.5 * xp.tanh(0.5 * x) + 0.5, tcp.nn.sigmoid),
    "sigmoid_in_tanh_turned": (
        "reassociate", ["f32[b, 4]"], lambda x: 0.5 + xp.tanh(x * 0.5) * 0.5, tcp.nn.sigmoid),
    "sigmoid_in_exponential": (
        "reassociate", ["f32[b, 4]"], lambda x: 1 / (1 + xp.exp(-x)), tcp.nn.sigmoid),
    "association_of_products": (
        "reassociate", ["f32[6, 7]", "f32[7, 8]", "f32[8]"], lambda a, b, v: (a @ b) @ v, lambda a, b, v: a @ (b @ v)),
    "low_rank_adapter": (
        "reassociate", ["f32[b, 16]", "f32[16, 16]", "f32[16, 2]", "f32[2, 16]"],
        lambda x, w, u, v: x @ (w + u @ v), lambda x, w, u, v: x @ w + (x @ u) @ v),
    "scale_into_weights": (
        "reassociate", ["f32[b, 16]", "f32[16, 8]"], lambda x, w: (x @ w) * 0.125, lambda x, w: x @ (w * 0.125)),
    "normalisation_scale_into_weights": (
        "reassociate", ["f32[b, 16]", "f32[16]", "f32[16, 8]"], lambda x, g, w: (x * g) @ w,
        lambda x, g, w: x @ (xp.expand_dims(g, axis=1) * w)),
    "sum_of_squares": (
        "reassociate", ["f32[b]"], lambda x: xp.sum(xp.square(x)), lambda x: x @ x),
    "mean_as_product": (
        "reassociate", ["f32[b, 10]"], lambda x: xp.sum(x, axis=-1) / 10.0,
        lambda x: xp.sum(x, axis=-1) * np.float32(0.1)),
    "softmax_divides_once_for_each_row": (
        "reassociate", ["f32[b, 8]"], _softmax,
        lambda x: (lambda e: e * (1 / xp.sum(e, axis=-1, keepdims=True)))(
            xp.exp(x - xp.max(x, axis=-1, keepdims=True)))),
    "attention_divides_after_its_product": (
        "reassociate", ["f32[6, 8]", "f32[8, 4]"],
        lambda s, v: (xp.exp(s) / xp.sum(xp.exp(s), axis=-1, keepdims=True)) @ v,
        lambda s, v: (xp.exp(s) @ v) * (1 / xp.sum(xp.exp(s), axis=-1, keepdims=True))),
    "logarithm_of_softmax": (
        "reassociate", ["f32[b, 8]"], lambda x: xp.log(xp.exp(x) / xp.sum(xp.exp(x), axis=-1, keepdims=True)),
        lambda x: x - xp.log(xp.sum(xp.exp(x), axis=-1, keepdims=True))),
    "reciprocal_root": (
        "reassociate", ["f32[b, 4]", "f32[b, 4]"], lambda x, y: x / xp.sqrt(y), lambda x, y: x * (1 / xp.sqrt(y))),
    "constants_gather": (
        "reassociate", ["f32[b]"], lambda x: (x * 3.0) * 5.0, lambda x: x * 15.0),
}


@pytest.mark.parametrize("name", CASES)
def test_start_reaches_goal(name):
    numerics, specs, start, goal = CASES[name]
    assert _equal(start, goal, specs, numerics)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[0] != "exact"])
def test_the_tier_is_needed(name):
    _, specs, start, goal = CASES[name]
    assert not _equal(start, goal, specs, "exact")


@pytest.mark.parametrize(("start", "goal"), [
    (lambda x: x + 0.0, lambda x: x),
    (lambda x: x * 0.0, lambda x: x - x),
    (lambda x: x / x, lambda x: xp.ones_like(x)),
    (lambda x: xp.where(x >= 0.0, x, 0.0 * x), lambda x: xp.maximum(x, 0.0)),
    (lambda x: xp.log(xp.exp(x)), lambda x: x),
], ids=["add_zero", "multiply_by_zero", "divide_self", "relu", "log_exp"])
def test_what_exact_must_not_prove(start, goal):
    assert not _equal(start, goal, ["f32[b]"], "exact")


def test_a_fact_makes_the_guarded_rule_fire():
    assert _equal(lambda x: xp.abs(xp.exp(x)) + 0.0, xp.exp, ["f32[b, 4]"], "exact")
    assert _equal(lambda x: xp.where(x <= 0.5, 0.5, x), lambda x: xp.maximum(x, 0.5), ["f32[b]"], "exact")
    assert not _equal(lambda x: xp.where(x <= -0.0, -0.0, x), lambda x: xp.maximum(x, -0.0), ["f32[b]"], "exact")


def test_a_rule_of_ones_own():
    (x,) = tcp.rules.variables("x")
    mine = tcp.rules.rule(
        "quarter_turn", tcp.rules.functions.sin(x + math.pi / 2), tcp.rules.functions.cos(x),
        needs=tcp.rules.REASSOCIATION, doc="A shifted sine is a cosine.")
    arguments = (lambda v: xp.sin(v + math.pi / 2), xp.cos, ["f32[b]"], "reassociate")
    assert not _equal(*arguments)
    assert _equal(*arguments, rules=tcp.rules.default + mine)
