"""Loads and stores of adjacent and scattered elements, with and without masks.

Every access states its alignment: LLVM would else assume that of a whole vector.
"""

from __future__ import annotations

from tcp_eqsat.codegen.llvm_text import LLVMText, LLVMValue, element_type, llvm_type
from tcp_eqsat.errors import TypeMismatch
from tcp_eqsat.lang.types import BOOL, I64, U8, DType


class LLVMMemory(LLVMText):
    """Access to memory. A bool is a byte there."""

    def load(
        self,
        pointer: str,
        dtype: DType,
        lanes: int | None = None,
        mask: LLVMValue | None = None,
        align: int | None = None,
    ) -> LLVMValue:
        """`lanes` adjacent elements at `pointer`; lanes that `mask` excludes are not read and are 0.

        `align` is in bytes, by default one element.
        """
        lanes = self.lanes if lanes is None else lanes
        stored = U8 if dtype is BOOL else dtype
        align = align or dtype.bytes
        vector = llvm_type(stored, lanes)
        if mask is None:
            value = self.instruction(f"load {vector}, ptr {pointer}, align {align}", stored, lanes, pure=False)
        elif lanes == 1:
            raise TypeMismatch("a masked load needs more than one lane")
        else:
            name = f"llvm.masked.load.{self.mangled(LLVMValue('', stored, lanes))}.p0"
            self.declare(name, vector, ("ptr", "i32", f"<{lanes} x i1>", vector))
            value = self.instruction(
                f"call {vector} @{name}(ptr {pointer}, i32 {align}, {self.splat(mask, lanes)}, "
                f"{vector} zeroinitializer)",
                stored,
                lanes,
                pure=False,
            )
        return self._to_bool(value) if dtype is BOOL else value

    def store(
        self,
        value: LLVMValue,
        pointer: str,
        lanes: int | None = None,
        mask: LLVMValue | None = None,
        align: int | None = None,
        bypass: bool = False,
    ) -> None:
        """Writes `lanes` adjacent elements at `pointer`, leaving out those that `mask` excludes.

        `bypass`: around the caches, where there is no mask and `align` is the size of the whole vector.
        """
        lanes = self.lanes if lanes is None else lanes
        align = align or value.dtype.bytes
        value = self.splat(value, lanes)
        if value.dtype is BOOL:
            value = self._to_byte(value)
        if mask is None:
            hint = f", {self._nontemporal()}" if bypass else ""
            self.line(f"  store {value}, ptr {pointer}, align {align}{hint}")
        elif lanes == 1:
            raise TypeMismatch("a masked store needs more than one lane")
        else:
            name = f"llvm.masked.store.{self.mangled(value)}.p0"
            self.declare(name, "void", (value.type_text, "ptr", "i32", f"<{lanes} x i1>"))
            self.line(f"  call void @{name}({value}, ptr {pointer}, i32 {align}, {self.splat(mask, lanes)})")

    def _nontemporal(self) -> str:
        self.declarations["!nontemporal"] = "!0 = !{i32 1}"
        return "!nontemporal !0"

    def gather(self, pointer: str, offsets: LLVMValue, dtype: DType, mask: LLVMValue | None = None) -> LLVMValue:
        """The elements at `offsets` (i64, in elements of `dtype`) from `pointer`, one for each lane.

        Lanes that `mask` excludes are not read and are 0. Uniform offsets give a uniform value.
        """
        stored = U8 if dtype is BOOL else dtype
        lanes = offsets.lanes
        if lanes == 1:
            place = self.instruction(f"getelementptr {element_type(stored)}, ptr {pointer}, {offsets}", I64, 1)
            return self.load(place.text, dtype, 1)
        places = self.instruction(f"getelementptr {element_type(stored)}, ptr {pointer}, {offsets}", I64, lanes)
        vector = llvm_type(stored, lanes)
        name = f"llvm.masked.gather.{self.mangled(LLVMValue('', stored, lanes))}.v{lanes}p0"
        self.declare(name, vector, (f"<{lanes} x ptr>", "i32", f"<{lanes} x i1>", vector))
        chosen = self.splat(mask or self.constant(True, BOOL), lanes)
        value = self.instruction(
            f"call {vector} @{name}(<{lanes} x ptr> {places.text}, i32 {stored.bytes}, {chosen}, "
            f"{vector} zeroinitializer)",
            stored,
            lanes,
            pure=False,
        )
        return self._to_bool(value) if dtype is BOOL else value

    def scatter(self, value: LLVMValue, pointer: str, offsets: LLVMValue, mask: LLVMValue | None = None) -> None:
        """Writes each lane to its place in `offsets` (i64, in elements) from `pointer`; all places differ.

        Lanes that `mask` excludes are not written.
        """
        lanes = offsets.lanes
        value = self.splat(value, lanes)
        if value.dtype is BOOL:
            value = self._to_byte(value)
        places = self.instruction(f"getelementptr {element_type(value.dtype)}, ptr {pointer}, {offsets}", I64, lanes)
        name = f"llvm.masked.scatter.{self.mangled(value)}.v{lanes}p0"
        self.declare(name, "void", (value.type_text, f"<{lanes} x ptr>", "i32", f"<{lanes} x i1>"))
        chosen = self.splat(mask or self.constant(True, BOOL), lanes)
        self.line(f"  call void @{name}({value}, <{lanes} x ptr> {places.text}, i32 {value.dtype.bytes}, {chosen})")

    def _to_bool(self, byte: LLVMValue) -> LLVMValue:
        zero = self.splat(self.constant(0, U8), byte.lanes)
        return self.instruction(f"icmp ne {byte}, {zero.text}", BOOL, byte.lanes)

    def _to_byte(self, value: LLVMValue) -> LLVMValue:
        return self.instruction(f"zext {value} to {llvm_type(U8, value.lanes)}", U8, value.lanes)
