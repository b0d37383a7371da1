"""What a text asserts of its sizes is learned, or checked when arrays come; it is never dropped."""

import numpy as np
import pytest

import tcp_eqsat as tcp
from tcp_eqsat.errors import ShapeMismatch, VerificationError

FUNCTION = """
func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %b = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %s = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  {body}
  stablehlo.custom_call @shape_assertion(%holds) {{has_side_effect = true}} : (tensor<i1>) -> ()
  %r = stablehlo.negate %x : tensor<?xf32>
  return %r : tensor<?xf32>
}}
"""
I32 = "(tensor<i32>, tensor<i32>) -> tensor<i1>"


def compiled(*lines):
    return tcp.compile(tcp.parse(FUNCTION.format(body="\n  ".join(lines))))


def accepts(function, b, s=4):
    x = np.arange(b, dtype=np.float32)
    try:
        found = function(x, np.zeros(s, np.float32))
    except ShapeMismatch:
        return False
    assert np.array_equal(found, -x)
    return True


@pytest.mark.parametrize(("lines", "holds"), [
    (["%d = stablehlo.subtract %b, %three : tensor<i32>", f"%holds = stablehlo.compare GE, %d, %zero : {I32}"],
     lambda b, s: b >= 3),
    (["%d = stablehlo.subtract %three, %b : tensor<i32>", f"%holds = stablehlo.compare GT, %d, %zero : {I32}"],
     lambda b, s: b < 3),
    (["%d = stablehlo.multiply %b, %two : tensor<i32>", f"%holds = stablehlo.compare GE, %d, %three : {I32}"],
     lambda b, s: 2 * b >= 3),
    (["%d = stablehlo.divide %b, %two : tensor<i32>", f"%holds = stablehlo.compare GT, %d, %two : {I32}"],
     lambda b, s: b // 2 > 2),
    ([f"%holds = stablehlo.compare LE, %b, %three : {I32}"], lambda b, s: b <= 3),
    ([f"%holds = stablehlo.compare NE, %b, %three : {I32}"], lambda b, s: b != 3),
    ([f"%holds = stablehlo.compare GE, %b, %s : {I32}"], lambda b, s: b >= s),
    ([f"%holds = stablehlo.compare LT, %b, %s : {I32}"], lambda b, s: b < s),
    ([f"%holds = stablehlo.compare NE, %b, %s : {I32}"], lambda b, s: b != s),
    (["%d = stablehlo.add %b, %s : tensor<i32>", f"%holds = stablehlo.compare GT, %d, %three : {I32}"],
     lambda b, s: b + s > 3),
])
def test_sizes_that_break_an_assertion_are_refused(lines, holds):
    function = compiled(*lines)
    for b in range(7):
        for s in range(6):
            assert accepts(function, b, s) is holds(b, s), (b, s)


def test_a_range_shows_in_the_type():
    function = compiled("%d = stablehlo.subtract %b, %three : tensor<i32>",
                        f"%holds = stablehlo.compare GE, %d, %zero : {I32}")
    with pytest.raises(ShapeMismatch, match=r"b in \[3, 2147483647\], got f32\[2\]"):
        function(np.zeros(2, np.float32), np.zeros(4, np.float32))


def test_known_conditions():
    assert accepts(compiled("%holds = stablehlo.constant dense<true> : tensor<i1>"), 0)
    with pytest.raises(VerificationError, match="assertion fails"):
        compiled("%holds = stablehlo.constant dense<false> : tensor<i1>")
    with pytest.raises(VerificationError, match="assertion fails"):
        compiled(f"%holds = stablehlo.compare LT, %b, %zero : {I32}")


def test_a_condition_on_values_is_refused():
    with pytest.raises(VerificationError, match="requires a comparison of sizes that follow from shapes"):
        compiled("%0 = stablehlo.constant dense<0.0> : tensor<f32>",
                 "%m = stablehlo.reduce(%x init: %0) applies stablehlo.maximum across dimensions = [0] "
                 ": (tensor<?xf32>, tensor<f32>) -> tensor<f32>",
                 "%holds = stablehlo.compare GE, %m, %0 : (tensor<f32>, tensor<f32>) -> tensor<i1>")
