"""The scalar operations as functions over patterns: `from tcp_eqsat.rules.functions import exp, maximum, where`.

Every name of the scalar table is here; the table is the one definition.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from tcp_eqsat.errors import UnknownName
from tcp_eqsat.lang.scalar import scalar_op_named
from tcp_eqsat.rules.pattern import Apply, apply


def __getattr__(name: str) -> Callable[..., Apply]:
    try:
        return functools.partial(apply, scalar_op_named(name))
    except UnknownName as error:
        raise AttributeError(error.message) from None
