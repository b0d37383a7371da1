"""Functions that C's library lacks or calls special."""

from __future__ import annotations

import math

from tcp_eqsat.lang.scalar import apply
from tcp_eqsat.lang.scalars.functions import elementwise, float_function

erf = float_function(
    "erf", elementwise(math.erf),
    lambda g, x: (g * apply("exp", -(x * x)) * (2 / math.sqrt(math.pi)),), "Error function; odd.")
