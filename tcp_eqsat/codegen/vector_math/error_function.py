"""The error function."""

from __future__ import annotations

from tcp_eqsat.codegen.vector_math.arithmetic import (
    MathBuilder,
    V,
    VectorFunction,
    is_single,
    number,
    polynomial,
)
from tcp_eqsat.codegen.vector_math.exponential import exp_normal

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


FUNCTIONS: dict[str, VectorFunction] = {"erf": erf}
