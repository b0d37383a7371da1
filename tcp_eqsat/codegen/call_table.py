"""The table of addresses that a compiled call reads, so that its text mentions none."""

from __future__ import annotations

from dataclasses import dataclass

from tcp_eqsat.codegen import numpy_abi as abi
from tcp_eqsat.codegen.signature import Signature
from tcp_eqsat.lang.types import DType

_OWN = ("entry", "constants", "workspace", "workspace_bytes")


@dataclass(frozen=True)
class Table:
    """The places of addresses: the runtime's, this call's own, those of dtypes, parameter names, and `out`.

    The word `workspace` holds a free workspace or 0; `workspace_bytes` is a function of the sizes, where the
    signature alone does not tell. The table's memory is written at the former only.
    """

    dtypes: tuple[DType, ...]
    parameters: int

    @classmethod
    def of(cls, signature: Signature) -> Table:
        types = [*(p.type for p in signature.parameters), *signature.results]
        return cls(tuple(dict.fromkeys(t.dtype for t in types)), len(signature.parameters))

    @property
    def names(self) -> int:
        """The place of the first parameter's name."""
        return len(abi.RUNTIME) + len(_OWN) + len(self.dtypes)

    def __len__(self) -> int:
        return self.names + self.parameters + 1

    def of_name(self, name: str) -> int:
        return (*abi.RUNTIME, *_OWN).index(name)

    def of_dtype(self, dtype: DType) -> int:
        return len(abi.RUNTIME) + len(_OWN) + self.dtypes.index(dtype)
