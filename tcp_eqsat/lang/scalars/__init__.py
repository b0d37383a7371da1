"""The scalar operations by theme. Importing this package fills the scalar table.

Names are the Python array API's where it has one.
"""

from tcp_eqsat.lang.scalars import (
    arithmetic,
    bits,
    comparison,
    complex,
    complex_elementary,
    conversion,
    exponential,
    hyperbolic,
    representation,
    rounding,
    special,
    trigonometric,
)

__all__ = [
    "arithmetic", "bits", "comparison", "complex", "complex_elementary", "conversion", "exponential", "hyperbolic",
    "representation", "rounding", "special", "trigonometric",
]
