"""A rewrite rule of one's own: declared, checked, used.

`x * x * x * x` costs three multiplications; squaring twice costs two. The rule changes rounding, so it needs the
permission to reassociate, and is loaded only where the caller grants it.
"""

import numpy as np

import tcp_eqsat as tcp
from tcp_eqsat.lang.tiers import REASSOCIATION
from tcp_eqsat.rules import RuleSet, rule, variables
from tcp_eqsat.rules.check import check
from tcp_eqsat.rules.functions import square

(x,) = variables("x")

fourth_power = rule(
    "fourth_power", x * x * x * x, square(square(x)),
    needs=REASSOCIATION,
    doc="Two squarings instead of three products.",
)

verdict = check(fourth_power)
print(verdict)
assert verdict.holds

program = tcp.trace(lambda v: v * v * v * v, tcp.spec("f32[n]"))
rules = tcp.rules.default + RuleSet([fourth_power])

f = tcp.compile(program, numerics="reassociate", rules=rules)
values = np.linspace(-2, 2, 1001, dtype=np.float32)
assert np.allclose(f(values), values**4, rtol=1e-6)
print("fired:", dict(f.report.saturation.matches))
