"""The error function, its complement and its inverse."""

from __future__ import annotations

import math

from tcp_eqsat.codegen.vector_math.arithmetic import (
    MathBuilder,
    V,
    VectorFunction,
    clamp,
    is_single,
    number,
    outlined,
    polynomial,
    through_double,
    two_product,
)
from tcp_eqsat.codegen.vector_math.exponential import exp, exp_normal
from tcp_eqsat.codegen.vector_math.logarithm import log
from tcp_eqsat.lang.types import F32, F64

# erf(x) / x - 1 in x**2, minimax (benchmarks/minimax.py)
# degree 5 on [0.0, 0.8649], error 2**-25.81
ERF_SMALL_F32 = (
    0.12837915122509003,
    -0.37612494826316833,
    0.11281802505254745,
    -0.02676556631922722,
    0.0049909804947674274,
    -0.0005976896500214934,
)
# degree 11 on [0.0, 1.0], error 2**-56.97
ERF_SMALL_F64 = (
    0.12837916709551256,
    -0.3761263890318355,
    0.11283791670945252,
    -0.02686617064327609,
    0.005223977607422594,
    -0.0008548325989663285,
    0.00012055295319724059,
    -1.4924744652489713e-05,
    1.6447517586706547e-06,
    -1.6209175496494825e-07,
    1.3722975523443715e-08,
    -7.801189176134229e-10,
)
# log(erfc(t)) / t + 1, minimax, weighted for the relative error of erf
# degree 7 on [0.92, 3.95], error 2**-32.12
ERF_LARGE_F32 = (
    -0.12855175137519836,
    -0.6356252431869507,
    -0.10526272654533386,
    0.022674165666103363,
    -0.0029301755130290985,
    4.95937310915906e-05,
    4.5579705329146236e-05,
    -4.938082383887377e-06,
)
# degree 20 on [0.99, 5.95], error 2**-62.18
ERF_LARGE_F64 = (
    -0.12837922372369429,
    -0.636619131465198,
    -0.10277602328163601,
    0.019139891935488963,
    0.00018224818178149397,
    -0.0016487514110817996,
    0.0005252773919111396,
    4.4471845697766646e-05,
    -0.0001258891966410828,
    7.304190633315942e-05,
    -2.798834825422435e-05,
    8.138685965254147e-06,
    -1.8714258982028628e-06,
    3.44029649409543e-07,
    -5.0368073723479605e-08,
    5.7876184067182636e-09,
    -5.085911513172683e-10,
    3.278332849308655e-11,
    -1.446731873794552e-12,
    3.846486387993114e-14,
    -4.52423498777915e-16,
)
# (1 + 2x) * exp(x**2) * erfc(x) in (x - 4) / (x + 4), minimax
# degree 23 on [-1.0, 0.75], error 2**-59.5
ERFC = (
    1.2329951186255526,
    -0.13962111684056253,
    0.015379652102619622,
    0.06809705425469532,
    -0.10103906603629773,
    0.09373283499825626,
    -0.0663303658123601,
    0.03716751553897749,
    -0.016197734056208134,
    0.005031969964884234,
    -0.0007577732992412897,
    -0.0001992566255213772,
    0.00015062172347140307,
    -2.4399442257530817e-05,
    -1.1222183012908368e-05,
    5.7101968325551025e-06,
    2.941618135901072e-07,
    -8.259665455773315e-07,
    7.410533176716209e-08,
    1.1033296482624324e-07,
    -1.7469660184817253e-08,
    -1.4070576378881374e-08,
    1.6772745652233494e-09,
    1.198135831842863e-09,
)
# erf_inv(x) / x in w - 25/8 and in sqrt(w) - 17/4 with w = -log(1 - x**2), minimax
# degree 11 on [-3.125, 3.125], error 2**-27.47
ERF_INV_NEAR = (
    1.6536545677818815,
    0.24015817577896953,
    -0.006033709135540322,
    -0.0007406855747186047,
    0.00018678061322179292,
    -1.389526834521486e-05,
    -1.3860401808352082e-06,
    4.277166095404312e-07,
    -2.494440528113149e-08,
    -4.827612951948531e-09,
    6.693947470768276e-10,
    8.474963679096993e-12,
)
# degree 15 on [-1.75, 1.8], error 2**-31.36
ERF_INV_FAR = (
    4.092223422731875,
    1.0099782821973675,
    0.0007127878807833574,
    -0.0006079634738149554,
    0.00021192781978696595,
    -6.41332341689159e-05,
    2.2592937973144786e-05,
    -1.0739259629542463e-05,
    5.085223492486966e-06,
    -2.6606667988535295e-06,
    1.928970079009811e-06,
    -8.337451429191531e-07,
    -3.583861299949911e-08,
    1.284291891550964e-07,
    -2.0209432720793342e-08,
    -2.2972037960922233e-09,
)


def erf(b: MathBuilder[V], x: V) -> V:
    """Error function: a polynomial near 0, elsewhere 1 - exp(polynomial), as N. Juffa's erff; odd."""
    single = is_single(x)
    size = b.absolute(x)
    small = polynomial(b, b.multiply(x, x), ERF_SMALL_F32 if single else ERF_SMALL_F64)
    near = b.fma(size, small, size)
    limit = number(b, x, 3.95 if single else 5.95)
    t = b.select(b.compare("greater", size, limit), limit, size)
    exponent = b.fma(polynomial(b, t, ERF_LARGE_F32 if single else ERF_LARGE_F64), t, b.negate(t))
    far = b.subtract(number(b, x, 1.0), exp_normal(b, exponent))
    threshold = number(b, x, 0.9277 if single else 1.0)
    return b.copysign(b.select(b.compare("less", size, threshold), near, far), x)


@through_double
def erfc(b: MathBuilder[V], x: V) -> V:
    """1 - erf(x) near 0, beyond exp(-x**2) times a smooth function of (x - 4) / (x + 4); f32 in f64."""
    size = clamp(b, b.absolute(x), 0.0, 28.0)
    four, one = number(b, x, 4.0), number(b, x, 1.0)
    smooth = polynomial(b, b.divide(b.subtract(size, four), b.add(size, four)), ERFC)
    double = b.add(size, size)
    divisor = b.add(double, one)
    divisor_low = b.subtract(one, b.subtract(divisor, double))
    quotient = b.divide(smooth, divisor)
    back, back_low = two_product(b, quotient, divisor)
    rest = b.subtract(b.subtract(b.subtract(smooth, back), back_low), b.multiply(quotient, divisor_low))
    square, square_low = two_product(b, size, size)
    quotient = b.add(quotient, b.subtract(b.divide(rest, divisor), b.multiply(quotient, square_low)))
    result = b.multiply(exp(b, b.negate(square)), quotient)
    result = b.select(b.compare("less", x, number(b, x, 0.0)), b.subtract(number(b, x, 2.0), result), result)
    small = b.fma(x, polynomial(b, square, ERF_SMALL_F64), x)
    return b.select(b.compare("less", size, number(b, x, 0.4)), b.subtract(one, small), result)


@outlined
def erf_inv(b: MathBuilder[V], x: V) -> V:
    """The number whose erf is x: polynomials in log(1 - x**2) (M. Giles, 2010); odd.

    They are good enough for f32, computed in f64; f64 takes one step of Halley's method from there.
    """
    wide = b.convert(x, F64) if is_single(x) else x
    size = b.absolute(wide)
    one = number(b, wide, 1.0)
    below_one = b.compare("less", size, one)
    gap = b.subtract(one, size)
    w = b.negate(log(b, b.select(below_one, b.multiply(gap, b.add(one, size)), one)))
    near = polynomial(b, b.subtract(w, number(b, wide, 3.125)), ERF_INV_NEAR)
    far = polynomial(b, b.subtract(b.sqrt(w), number(b, wide, 4.25)), ERF_INV_FAR)
    y = b.multiply(b.select(b.compare("less", w, number(b, wide, 6.25)), near, far), size)
    if not is_single(x):
        direct = b.subtract(erf(b, y), size)
        complement = b.subtract(gap, erfc(b, y))
        error = b.select(b.compare("less", size, number(b, x, 0.5)), direct, complement)
        step = b.multiply(b.multiply(error, exp(b, b.multiply(y, y))), number(b, x, math.sqrt(math.pi) / 2))
        y = b.subtract(y, b.divide(step, b.fma(y, step, one)))
    edge = b.select(b.compare("equal", size, one), number(b, wide, math.inf), number(b, wide, math.nan))
    y = b.copysign(b.select(below_one, y, edge), wide)
    return b.convert(y, F32) if is_single(x) else y


FUNCTIONS: dict[str, VectorFunction] = {"erf": erf, "erfc": erfc, "erf_inv": erf_inv}
