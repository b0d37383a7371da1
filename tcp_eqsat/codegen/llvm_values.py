"""The builder of scalar expressions in LLVM text, for one lane or many."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tcp_eqsat.codegen.llvm_memory import LLVMMemory
from tcp_eqsat.codegen.llvm_text import LLVMValue, element_type, format_constant, llvm_type
from tcp_eqsat.codegen.narrow_floats import narrow, odd_f32, odd_f64, widen
from tcp_eqsat.codegen.vector_math import FUNCTIONS
from tcp_eqsat.errors import TypeMismatch, UnknownName, VerificationError
from tcp_eqsat.lang.narrow import by_f32, convert_array
from tcp_eqsat.lang.types import BOOL, F16, F32, F64, I8, I32, I64, U8, DType, Kind, integer_range

_FLOAT_PREDICATE = {
    "equal": "oeq",
    "not_equal": "une",
    "less": "olt",
    "less_equal": "ole",
    "greater": "ogt",
    "greater_equal": "oge",
}
_INTEGER_PREDICATE = {
    "equal": "eq",
    "not_equal": "ne",
    "less": "{}lt",
    "less_equal": "{}le",
    "greater": "{}gt",
    "greater_equal": "{}ge",
}


class LLVMBuilder(LLVMMemory):
    """Implements `lang.builder.Builder` and what the vector math needs for LLVMValue."""

    @property
    def has_fma(self) -> bool:
        return self.target.has_fma

    @property
    def has_scale(self) -> bool:
        return self.target.has_scale

    # arithmetic

    @by_f32
    def add(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        return self._binary("or" if x.dtype is BOOL else _arithmetic("add", x), x, y, True)

    @by_f32
    def subtract(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        return self._binary(_arithmetic("sub", x), x, y)

    def multiply(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        return self._binary("and" if x.dtype is BOOL else _arithmetic("mul", x), x, y, True)

    def divide(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        if x.dtype.is_float:
            return self._binary("fdiv", x, y)
        quotient = self._quotient(x, self._safe_divisor(x, y))
        if y.literal is not None and y.literal != 0:
            return quotient
        zero = self.compare("equal", y, self.constant(0, y.dtype))
        return self.select(zero, self.constant(-1, x.dtype), quotient)

    def remainder(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        if x.dtype.is_float:
            return self.function("fmod", x, y)
        divisor = self._safe_divisor(x, y)
        rest = self.subtract(x, self.multiply(self._quotient(x, divisor), divisor))
        if y.literal is not None and y.literal != 0:
            return rest
        zero = self.compare("equal", y, self.constant(0, y.dtype))
        return self.select(zero, x, rest)

    def _safe_divisor(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        """`y`, but 1 where x / y is not defined by the processor."""
        if y.literal is not None and y.literal not in (0, -1):
            return y
        unsafe = self.compare("equal", y, self.constant(0, y.dtype))
        if x.dtype.is_signed:
            least = self.constant(-1 << (x.dtype.bits - 1), x.dtype)
            overflow = self.bitwise_and(
                self.compare("equal", x, least),
                self.compare("equal", y, self.constant(-1, y.dtype)),
            )
            unsafe = self.bitwise_or(unsafe, overflow)
        return self.select(unsafe, self.constant(1, y.dtype), y)

    def _quotient(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        """x / y truncated, for operands where that is defined.

        Processors have no vector division of integers. Up to 32 bits the quotient of doubles is exact after
        truncation: two integers below 2**32 have a quotient that is an integer or at least 2**-32 away.
        """
        lanes = max(x.lanes, y.lanes)
        if lanes == 1 or y.literal is not None or x.dtype.bits > 32:
            return self._binary("sdiv" if x.dtype.is_signed else "udiv", x, y)
        through = F64 if x.dtype.bits == 32 else F32
        quotient = self.divide(self.convert(x, through), self.convert(y, through))
        return self.convert_in_range(quotient, x.dtype)

    @by_f32
    def negate(self, x: LLVMValue) -> LLVMValue:
        if x.dtype.is_float:
            return self.instruction(f"fneg {x}", x.dtype, x.lanes)
        return self.subtract(self.constant(0, x.dtype), x)

    @by_f32
    def absolute(self, x: LLVMValue) -> LLVMValue:
        if x.dtype.is_float:
            return self.intrinsic("fabs", x)
        return self.intrinsic("abs", x, also=("i1 false",)) if x.dtype.is_signed else x

    def fma(self, x: LLVMValue, y: LLVMValue, z: LLVMValue) -> LLVMValue:
        if self.has_fma:
            return self.intrinsic("fma", x, y, z)
        return self.add(self.multiply(x, y), z)

    def maximum(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        return self._extremum("greater", x, y)

    def minimum(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        return self._extremum("less", x, y)

    def _extremum(self, better: str, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        """The operand that is `better`; see `Builder.maximum`."""
        greatest = better == "greater"
        if x.dtype is BOOL:
            return self.bitwise_or(x, y) if greatest else self.bitwise_and(x, y)
        if x.dtype.is_integer:
            sign = "s" if x.dtype.is_signed else "u"
            return self.intrinsic(f"{sign}{'max' if greatest else 'min'}", x, y)
        if x.literal is not None:
            x, y = y, x
        if y.literal is not None and y.literal == y.literal:
            # One instruction on x86, and it gives x for NaN and where both are zero.
            chosen = self.select(self.compare(better, y, x), y, x)
            if y.literal != 0 or (format_constant(y.literal, F64) == "0x0000000000000000") != greatest:
                return chosen
            if greatest:  # -0 + 0 is 0
                return self.add(chosen, self.constant(0.0, x.dtype))
            # minimum with -0: 0 becomes -0, and nothing else changes
            return self.select(self.compare("equal", chosen, y), y, chosen)
        chosen = self.select(self.compare(better, x, y), x, y)
        bits = _bits_dtype(x.dtype)
        join = self.bitwise_and if greatest else self.bitwise_or
        joined = self.bitcast(join(self.bitcast(x, bits), self.bitcast(y, bits)), x.dtype)
        chosen = self.select(self.compare("equal", x, y), joined, chosen)
        return self.select(self.is_nan(x), x, chosen)

    def is_nan(self, x: LLVMValue) -> LLVMValue:
        return self.instruction(f"fcmp uno {x}, {x.text}", BOOL, x.lanes)

    def sqrt(self, x: LLVMValue) -> LLVMValue:
        return self.intrinsic("sqrt", x)

    def floor(self, x: LLVMValue) -> LLVMValue:
        if self.target.has_round:
            return self.intrinsic("floor", x)
        near = self.round_even(x)
        below = self.subtract(near, self.constant(1.0, x.dtype))
        return self.select(self.compare("greater", near, x), below, near)

    def ceil(self, x: LLVMValue) -> LLVMValue:
        if self.target.has_round:
            return self.intrinsic("ceil", x)
        return self.negate(self.floor(self.negate(x)))

    def trunc(self, x: LLVMValue) -> LLVMValue:
        if self.target.has_round:
            return self.intrinsic("trunc", x)
        return self.copysign(self.floor(self.absolute(x)), x)

    def round_even(self, x: LLVMValue) -> LLVMValue:
        if self.target.has_round:
            return self.intrinsic("roundeven", x)
        # Adding 2**(mantissa bits) leaves no room for a fraction; larger numbers have none.
        whole = self.constant(2.0 ** (23 if x.dtype is F32 else 52), x.dtype)
        size = self.absolute(x)
        near = self.subtract(self.add(size, whole), whole)
        return self.copysign(self.select(self.compare("less", size, whole), near, size), x)

    @by_f32
    def copysign(self, magnitude: LLVMValue, sign: LLVMValue) -> LLVMValue:
        return self.intrinsic("copysign", magnitude, sign)

    # comparison and choice

    def compare(self, direction: str, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        if x.dtype.is_narrow_float:
            x, y = self.convert(x, F32), self.convert(y, F32)
        x, y = self._level(x, y)
        if x.dtype.is_float:
            text = f"fcmp {_FLOAT_PREDICATE[direction]} {x}, {y.text}"
        else:
            sign = "s" if x.dtype.kind is Kind.INT else "u"
            text = f"icmp {_INTEGER_PREDICATE[direction].format(sign)} {x}, {y.text}"
        return self.instruction(text, BOOL, x.lanes)

    def select(self, condition: LLVMValue, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        if condition.lanes == 1:
            x, y = self._level(x, y)
        else:
            condition, x, y = self._level(condition, x, y)
        return self.instruction(f"select {condition}, {x}, {y}", x.dtype, x.lanes)

    # bits

    def bitwise_and(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        return self._binary("and", x, y, True)

    def bitwise_or(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        return self._binary("or", x, y, True)

    def bitwise_xor(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        return self._binary("xor", x, y, True)

    def bitwise_not(self, x: LLVMValue) -> LLVMValue:
        return self._binary("xor", x, self.constant(True if x.dtype is BOOL else -1, x.dtype))

    def shift_left(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        return self._shift("shl", x, y)

    def shift_right(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        if not x.dtype.is_signed:
            return self._shift("lshr", x, y)
        most = self.constant(x.dtype.bits - 1, y.dtype)
        if y.literal is not None:
            inside = 0 <= y.literal < x.dtype.bits
            return self._binary("ashr", x, y if inside else most)
        return self._binary("ashr", x, self.intrinsic("umin", y, most))

    def _shift(self, opcode: str, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        """A shift that fills with zeros."""
        zero = self.constant(0, x.dtype)
        if y.literal is not None:
            return self._binary(opcode, x, y) if 0 <= y.literal < x.dtype.bits else zero
        x, y = self._level(x, y)
        width = self.splat(self.constant(x.dtype.bits, y.dtype), y.lanes)
        inside = self.instruction(f"icmp ult {y}, {width.text}", BOOL, y.lanes)
        return self.select(inside, self._binary(opcode, x, y), zero)

    def count_ones(self, x: LLVMValue) -> LLVMValue:
        return self.intrinsic("ctpop", x)

    def count_leading_zeros(self, x: LLVMValue) -> LLVMValue:
        return self.intrinsic("ctlz", x, also=("i1 false",))

    def bitcast(self, x: LLVMValue, dtype: DType) -> LLVMValue:
        if dtype.bytes != x.dtype.bytes:
            raise TypeMismatch(f"a bitcast needs equal widths, got {x.dtype} and {dtype}")
        if BOOL in (dtype, x.dtype):
            return self.convert(x, dtype)
        if element_type(dtype) == element_type(x.dtype):
            literal = x.literal if dtype.is_integer and x.dtype.is_integer else None
            return LLVMValue(x.text, dtype, x.lanes, literal)
        return self.instruction(f"bitcast {x} to {llvm_type(dtype, x.lanes)}", dtype, x.lanes)

    def convert(self, x: LLVMValue, dtype: DType) -> LLVMValue:
        source = x.dtype
        if source == dtype:
            return x
        if _is_small(source):
            return self.convert(self._widened(x), dtype)
        if source.bits < 8:
            return self.convert(self._expanded(x), dtype)
        if _is_small(dtype):
            return self._to_small(x, dtype)
        if dtype.bits < 8 and not source.is_float:
            low = self.bitwise_and(self.convert(x, U8), self.constant((1 << dtype.bits) - 1, U8))
            return LLVMValue(low.text, dtype, low.lanes)
        if dtype is BOOL:
            return self.compare("not_equal", x, self.constant(0, source))
        if source.is_float and dtype.is_float:
            return self._cast("fpext" if dtype.bits > source.bits else "fptrunc", x, dtype)
        if dtype.is_float:
            return self._cast("sitofp" if source.kind is Kind.INT else "uitofp", x, dtype)
        if source.is_float:
            return self._saturate(x, dtype)
        if source is BOOL or dtype.bits > source.bits:
            return self._cast("sext" if source.kind is Kind.INT else "zext", x, dtype)
        if dtype.bits < source.bits:
            return self._cast("trunc", x, dtype)
        return LLVMValue(x.text, dtype, x.lanes, x.literal)

    def _expanded(self, x: LLVMValue) -> LLVMValue:
        """An integer of less than 8 bits in 8 of its kind, whatever stands in the byte above it."""
        byte = LLVMValue(x.text, I8 if x.dtype.is_signed else U8, x.lanes)
        if x.literal is not None:
            return self.splat(self.constant(x.literal, byte.dtype), x.lanes)
        places = self.constant(8 - x.dtype.bits, byte.dtype)
        return self.shift_right(self.shift_left(byte, places), places)

    def _widened(self, x: LLVMValue) -> LLVMValue:
        """A float of less than 32 bits as f32."""
        known = self._wide.get(x.text)
        if known is not None:
            return known
        if x.literal is not None:
            rounded = float(convert_array(x.literal, x.dtype).astype(np.float32))
            return self.splat(self.constant(rounded, F32), x.lanes)
        if x.dtype == F16 and self.target.has_half:
            half = self.instruction(f"bitcast {x} to {_half(x.lanes)}", F16, x.lanes)
            return self._from_half(half)
        return widen(self, x)

    def _from_half(self, half: LLVMValue) -> LLVMValue:
        return self.instruction(
            f"fpext {_half(half.lanes)} {half.text} to {llvm_type(F32, half.lanes)}", F32, half.lanes)

    def _to_small(self, x: LLVMValue, dtype: DType) -> LLVMValue:
        """A number rounded once to a float of less than 32 bits; the f32 of the result is remembered."""
        if x.dtype.is_integer and x.dtype.bits > 16:
            x = self.convert(x, F64) if x.dtype.bits == 32 else odd_f64(self, x)
        x = odd_f32(self, x) if x.dtype == F64 else self.convert(x, F32)
        if dtype == F16 and self.target.has_half:
            half = self.instruction(f"fptrunc {x} to {_half(x.lanes)}", F16, x.lanes)
            text = f"bitcast {_half(x.lanes)} {half.text} to {llvm_type(F16, x.lanes)}"
            result, wide = self.instruction(text, F16, x.lanes), self._from_half(half)
        else:
            result, found = narrow(self, x, dtype)
            if found is None:
                return result
            wide = found
        self._wide[result.text] = wide
        return result

    def _saturate(self, x: LLVMValue, dtype: DType) -> LLVMValue:
        """Float to integer. LLVM's own saturating conversion is taken apart lane by lane on x86."""
        least, most = integer_range(dtype)
        low = self.constant(float(least), x.dtype)
        top = _greatest_float(most, x.dtype)
        high = self.constant(top, x.dtype)
        inside = self.select(self.compare("less", x, high), x, high)  # high for NaN
        inside = self.select(self.compare("greater", inside, low), inside, low)
        result = self.convert_in_range(inside, dtype)
        if top < most:
            above = self.compare("greater", x, high)
            result = self.select(above, self.constant(most, dtype), result)
        return self.select(self.is_nan(x), self.constant(0, dtype), result)

    def convert_in_range(self, x: LLVMValue, dtype: DType) -> LLVMValue:
        """Float to integer, truncated, for values known to fit (else undefined)."""
        through = I32 if dtype.bits < 32 else dtype
        number = self._cast("fptosi" if through.is_signed else "fptoui", x, through)
        return self.convert(number, dtype)

    def _cast(self, opcode: str, x: LLVMValue, dtype: DType) -> LLVMValue:
        return self.instruction(f"{opcode} {x} to {llvm_type(dtype, x.lanes)}", dtype, x.lanes)

    # functions

    def ldexp(self, x: LLVMValue, exponent: LLVMValue) -> LLVMValue:
        x, exponent = self._level(x, exponent)
        if self.target.has_scale:
            count = self.mangled(LLVMValue("", exponent.dtype, exponent.lanes))
            name = f"llvm.ldexp.{self.mangled(x)}.{count}"
            self.declare(name, x.type_text, (x.type_text, exponent.type_text))
            return self.instruction(f"call {x.type_text} @{name}({x}, {exponent})", x.dtype, x.lanes)
        return self._ldexp_by_steps(x, exponent)

    def _ldexp_by_steps(self, x: LLVMValue, exponent: LLVMValue) -> LLVMValue:
        """Three multiplications by powers of two, of which only the last one rounds.

        A step down leaves so much to go that a product it rounds (a subnormal) ends as 0 in any case.
        """
        mantissa, bias = (23, 127) if x.dtype is F32 else (52, 1023)
        integer = exponent.dtype
        down = bias - 1 - (mantissa + 1)

        def power(number: LLVMValue) -> LLVMValue:
            biased = self.add(number, self.constant(bias, integer))
            return self.bitcast(self.shift_left(biased, self.constant(mantissa, integer)), x.dtype)

        most, least = self.constant(bias, integer), self.constant(1 - bias, integer)
        result, rest = x, exponent
        for _ in range(2):
            step = self.select(
                self.compare("greater", rest, most),
                most,
                self.select(
                    self.compare("less", rest, least),
                    self.constant(-down, integer),
                    self.constant(0, integer),
                ),
            )
            result = self.multiply(result, power(step))
            rest = self.subtract(rest, step)
        return self.multiply(result, power(self.maximum(self.minimum(rest, most), least)))

    def function(self, name: str, *operands: LLVMValue) -> LLVMValue:
        try:
            implementation = FUNCTIONS[name]
        except KeyError:
            known = ", ".join(sorted(FUNCTIONS))
            raise UnknownName(f"no vector function {name!r}; known are {known}") from None
        return implementation(self, *operands)

    def lookup(self, name: str, values: tuple[int | float, ...], dtype: DType, index: LLVMValue) -> LLVMValue:
        """values[index] from a constant table called `name`; the index (an integer) is within bounds."""
        self.declarations[name] = (
            f"@{name} = internal unnamed_addr constant [{len(values)} x {element_type(dtype)}] "
            f"[{', '.join(f'{element_type(dtype)} {format_constant(value, dtype)}' for value in values)}]"
        )
        return self.gather(f"@{name}", self.convert(index, I64), dtype)

    def outlined(self, name: str, body: Callable[..., LLVMValue], *operands: LLVMValue) -> LLVMValue:
        """A call of the internal function that holds `body(builder, *operands)`, for what is large or branches.

        The result has the dtype of the operands. The function's text joins the declarations.
        """
        operands = self._level(*operands)
        first = operands[0]
        symbol = f"tcp.{name}.{'.'.join(self.mangled(operand) for operand in operands)}"
        if symbol not in self.declarations:
            inner = LLVMBuilder(self.target, first.lanes, self.declarations)
            inner._block = "entry"
            parameters = [
                LLVMValue(f"%x{number}", operand.dtype, operand.lanes) for number, operand in enumerate(operands)
            ]
            result = inner.splat(body(inner, *parameters))
            self.declarations[symbol] = "\n".join(
                [
                    f"define internal {first.type_text} @{symbol}({', '.join(map(str, parameters))}) {{",
                    "entry:",
                    *inner.lines,
                    f"  ret {result}",
                    "}",
                ]
            )
        return self.instruction(
            f"call {first.type_text} @{symbol}({', '.join(map(str, operands))})", first.dtype, first.lanes
        )

    def where_any(
        self,
        condition: LLVMValue,
        rare: Callable[[], tuple[LLVMValue, ...]],
        usual: tuple[LLVMValue, ...],
    ) -> tuple[LLVMValue, ...]:
        """`rare()` in the lanes where `condition` holds and `usual` elsewhere, skipping `rare` if no lane needs it.

        It branches, so it may be used only in the body of an outlined function.
        """
        if self._block is None:
            raise VerificationError("a branch within an expression needs an outlined function")
        usual = tuple(self.splat(value, condition.lanes) for value in usual)
        needed = self._any(condition)
        before, inside, after = self._block, self.fresh("rare")[1:], self.fresh("join")[1:]
        self.line(f"  br i1 {needed}, label %{inside}, label %{after}")
        self.line(f"{inside}:")
        self._block = inside
        with self.scope():
            chosen = tuple(self.select(condition, x, y) for x, y in zip(rare(), usual, strict=True))
        self.line(f"  br label %{after}")
        self.line(f"{after}:")
        inside, self._block = self._block, after
        return tuple(
            self.instruction(
                f"phi {x.type_text} [{y.text}, %{before}], [{x.text}, %{inside}]", x.dtype, x.lanes, pure=False
            )
            for x, y in zip(chosen, usual, strict=True)
        )

    def iterate(
        self,
        limit: int,
        step: Callable[..., tuple[LLVMValue, ...]],
        *state: LLVMValue,
    ) -> tuple[LLVMValue, ...]:
        """`step(*state)` gives a bool, whether to go on, and the next state; at most `limit` (from 1) times.

        A lane keeps the state that its last step gave, whatever other lanes do. It branches, as `where_any`.
        """
        if self._block is None:
            raise VerificationError("a loop within an expression needs an outlined function")
        start = [self.splat(value, self.lanes) for value in (self.constant(True, BOOL), *state)]
        before, inside, after = self._block, self.fresh("loop")[1:], self.fresh("done")[1:]
        count, following = self.fresh("count"), self.fresh("count")
        self.line(f"  br label %{inside}")
        self.line(f"{inside}:")
        place = len(self.lines)
        going, *kept = (LLVMValue(self.fresh(), value.dtype, value.lanes) for value in start)
        self._block = inside
        with self.scope():
            more, *found = step(*kept)
            result = [self.select(going, new, old) for new, old in zip(found, kept, strict=True)]
            next_going = self.bitwise_and(going, more)
            self.line(f"  {following} = add i32 {count}, 1")
            within = self.instruction(f"icmp ult i32 {following}, {limit}", BOOL, 1)
            again = self.bitwise_and(LLVMValue(self._any(next_going), BOOL, 1), within)
        self.line(f"  br {again}, label %{inside}, label %{after}")
        self.line(f"{after}:")
        phis = [f"  {count} = phi i32 [0, %{before}], [{following}, %{self._block}]"]
        for old, first, last in zip((going, *kept), start, (next_going, *result), strict=True):
            phis.append(
                f"  {old.text} = phi {old.type_text} [{first.text}, %{before}], [{last.text}, %{self._block}]"
            )
        self.lines[place:place] = phis
        self._block = after
        return tuple(result)

    def _any(self, condition: LLVMValue) -> str:
        """Whether some lane holds, as the text of an i1."""
        if condition.lanes == 1:
            return condition.text
        packed = self.instruction(f"bitcast {condition} to i{condition.lanes}", I64, 1)
        return self.instruction(f"icmp ne i{condition.lanes} {packed.text}, 0", BOOL, 1).text

    def _binary(self, opcode: str, x: LLVMValue, y: LLVMValue, commutative: bool = False) -> LLVMValue:
        if x.dtype != y.dtype:
            raise TypeMismatch(f"{opcode} needs equal dtypes, got {x.dtype} and {y.dtype}")
        x, y = self._level(x, y)
        if commutative and y.text < x.text:
            x, y = y, x
        return self.instruction(f"{opcode} {x}, {y.text}", x.dtype, x.lanes)


def _arithmetic(stem: str, x: LLVMValue) -> str:
    return f"f{stem}" if x.dtype.is_float else stem


def _is_small(dtype: DType) -> bool:
    """Whether values are floats that are kept as bits."""
    return dtype.is_float and dtype.bits < 32


def _half(lanes: int) -> str:
    """LLVM's type of f16 as a number."""
    return "half" if lanes == 1 else f"<{lanes} x half>"


def _bits_dtype(dtype: DType) -> DType:
    return I32 if dtype.bits == 32 else I64


def _greatest_float(most: int, dtype: DType) -> float:
    """The greatest number of the float `dtype` that is not above `most`."""
    digits = 24 if dtype is F32 else 53
    excess = max(0, most.bit_length() - digits)
    return float(most >> excess << excess)
