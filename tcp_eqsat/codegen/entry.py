"""The function that runs a plan: it finds every buffer, computes the sizes and calls the steps in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tcp_eqsat.codegen.interrupts import INTERRUPTED, call_watched
from tcp_eqsat.codegen.memory import Layout, byte_count
from tcp_eqsat.codegen.size_ir import COPY, INTRINSICS, CheckedText, SizeText
from tcp_eqsat.lang.dims import Size
from tcp_eqsat.lang.plan import Plan, Port, Role

NAME = "entry"
"""`void entry(ptr parameters, ptr results, ptr constants, ptr workspace, ptr sizes)`, see `call.make_call`; with a loop
inside `i32 entry(..., ptr watch)`, see `interrupts`.

Bodies of control flow are functions of the same kind.
"""


@dataclass(frozen=True, slots=True)
class StepCall:
    """A call of the function `symbol` with arrays (buffers, or scratch arrays by their place) and sizes.

    `constants` says that the address of the constants comes first: the function runs plans. `is_watched`: it may be
    interrupted.
    """

    symbol: str
    arrays: tuple[str, ...]
    sizes: tuple[Size, ...]
    constants: bool = False
    is_watched: bool = False


def result_owners(plan: Plan) -> dict[str, int]:
    """The buffers that lie in a result's own memory, with the number of the result."""
    owners: dict[str, int] = {}
    for number, port in enumerate(plan.results):
        root = plan.root(port.buffer)
        if root.role not in (Role.PARAMETER, Role.CONSTANT):
            owners.setdefault(root.name, number)
    return owners


def emit_entry(plan: Plan, calls: Sequence[StepCall], constants: Mapping[str, int], workspace: Layout,
               declarations: dict[str, str], symbol: str = NAME) -> str:
    """The text of the function `symbol`, internal but for the entry. It may be interrupted if one of its calls may.

    `constants` gives byte offsets by buffer, `declarations` collects what it calls.
    """
    text = CheckedText("leave")
    sizes = SizeText(text)
    for number, each in enumerate(plan.symbols):
        sizes.bind(each, text.load("i64", "%sizes", 8 * number))
    addresses = _Addresses(plan, text, sizes, constants, workspace)
    for call in calls:
        arguments = ["ptr %constants"] if call.constants else []
        arguments += [f"ptr {addresses.of(name)}" for name in call.arrays]
        arguments += [f"i64 {sizes.value(size)}" for size in call.sizes]
        call_watched(text, call.symbol, arguments, call.is_watched)
    owners = result_owners(plan)
    in_place = {number for _, number in plan.in_place}
    for number, port in enumerate(plan.results):
        if number not in in_place and owners.get(plan.root(port.buffer).name) != number:
            source = addresses.of(plan.root(port.buffer).name)
            target = text.load("ptr", "%results", 8 * number)
            text.copy(target, source, sizes.value(byte_count(port.type)))
    text.line("br label %leave")
    text.label("leave")
    is_watched = any(call.is_watched for call in calls)
    text.line("ret i32 0" if is_watched else "ret void")
    if is_watched:
        text.label(INTERRUPTED)
        text.line("ret i32 1")
    linkage = "" if symbol == NAME else "internal "
    given = ["parameters", "results", "constants", "workspace", "sizes", *(["watch"] if is_watched else [])]
    kind = "i32" if is_watched else "void"
    head = f"define {linkage}{kind} @{symbol}({', '.join(f'ptr %{x}' for x in given)}) nounwind {{"
    for line in (*INTRINSICS.splitlines(), COPY):
        declarations.setdefault(line.split("@")[1].split("(")[0], line)
    return "\n".join((head, *text.lines, "}"))


class _Addresses:
    """Where buffers are, each found once."""

    def __init__(self, plan: Plan, text: CheckedText, sizes: SizeText, constants: Mapping[str, int],
                 workspace: Layout) -> None:
        self.plan = plan
        self.text = text
        self.sizes = sizes
        self.constants = constants
        self.workspace = workspace
        self.parameters = _numbers(plan, plan.parameters)
        self.results = result_owners(plan)
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The address of a buffer that owns its memory, or of a scratch array."""
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def _find(self, name: str) -> str:
        if name in self.workspace.offsets:
            return self.text.at("%workspace", self.sizes.value(self.workspace.offsets[name]))
        if name in self.results:
            return self.text.load("ptr", "%results", 8 * self.results[name])
        if name in self.parameters:
            return self.text.load("ptr", "%parameters", 8 * self.parameters[name])
        return self.text.at("%constants", self.constants[name])


def _numbers(plan: Plan, ports: Sequence[Port]) -> dict[str, int]:
    return {plan.root(port.buffer).name: number for number, port in enumerate(ports)}
