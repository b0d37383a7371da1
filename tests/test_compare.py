"""What counts as equal to the reference."""

from __future__ import annotations

import numpy as np
import pytest

from tcp_eqsat.compare import compare


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.mark.parametrize(("found", "expected"), [
    (f32(1, np.nan, -np.inf), f32(1, np.nan, -np.inf)),
    (f32(1 + 1e-5), f32(1)),
    (f32(1e-7, 100), f32(0, 100)),
    (f32(), f32()),
    (np.array(3), np.array(3)),
    (np.array([True]), np.array([True])),
    (np.array([1 + 1e-12]), np.array([1.0])),
])
def test_equal(found, expected):
    assert compare(found, expected).agrees


@pytest.mark.parametrize(("found", "expected", "error"), [
    (f32(1, np.nan), f32(1, 2), np.inf),
    (f32(1, np.inf), f32(1, 2), np.inf),
    (f32(1, 2), f32(1, np.nan), 0),
    (f32(np.inf), f32(-np.inf), 0),
    (f32(1.5), f32(1), 0.5),
    (np.array([1 + 1e-8]), np.array([1.0]), pytest.approx(1e-8)),
    (np.array([3, 4]), np.array([3, 6]), 2),
    (np.array([True, False]), np.array([True, True]), 1),
    (np.array([0], np.uint8), np.array([255], np.uint8), 255),
])
def test_different(found, expected, error):
    outcome = compare(found, expected)
    assert not outcome.agrees
    assert outcome.max_abs_error == error
    assert "differ" in outcome.message


@pytest.mark.parametrize(("found", "expected"), [
    (np.zeros(2, np.float32), np.zeros(2)),
    (np.zeros((2, 1)), np.zeros(2)),
    (np.zeros(2, np.int32), np.zeros(2, np.uint32)),
])
def test_types_must_be_equal(found, expected):
    outcome = compare(found, expected)
    assert not outcome.agrees and outcome.message.startswith("expected ")


def test_signs_of_zeros_count_where_they_are_asked_for():
    zeros, negative = np.zeros(2, np.float32), np.array([0.0, -0.0], np.float32)
    assert compare(zeros, negative).agrees
    assert not compare(zeros, negative, signs=True).agrees
    assert compare(negative, negative, signs=True).agrees
