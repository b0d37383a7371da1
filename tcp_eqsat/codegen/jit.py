"""LLVM text to machine code in this process."""

from __future__ import annotations

import functools
import itertools
import threading
import weakref

import llvmlite.binding as llvm

from tcp_eqsat.codegen.target import CpuTarget, host_target
from tcp_eqsat.errors import VerificationError

_LOCK = threading.RLock()
_NUMBERS = itertools.count()


class Module:
    """Machine code that is loaded and stays so for as long as this object lives."""

    def __init__(self, object_bytes: bytes, symbols: tuple[str, ...]) -> None:
        """Links object code and looks `symbols` up; raises VerificationError if one is missing."""
        self.object_bytes = object_bytes
        self.symbols = symbols
        library = llvm.JITLibraryBuilder().add_object_img(object_bytes).add_current_process()
        for symbol in symbols:
            library.export_symbol(symbol)
        with _LOCK:
            try:
                self._tracker = library.link(_linker(), f"module{next(_NUMBERS)}")
            except RuntimeError as error:
                raise VerificationError(f"object code can't be linked: {error}") from None

    def address(self, name: str) -> int:
        """The address of the function `name`, valid while this module lives."""
        return self._tracker[name]


class CompiledModule(Module):
    """A module compiled here, with what it was compiled from."""

    def __init__(self, module: llvm.ModuleRef, target: CpuTarget, effort: int = 2) -> None:
        self._module = module
        self.target = target
        self.effort = effort
        symbols = tuple(
            function.name
            for function in module.functions
            if not function.is_declaration and function.linkage.name == "external"
        )
        with _LOCK:
            object_bytes = target_machine(target, effort).emit_object(module)
        super().__init__(object_bytes, symbols)

    @property
    def text(self) -> str:
        """The LLVM text after the passes that ran."""
        return str(self._module)

    @functools.cached_property
    def assembly(self) -> str:
        """The machine code as assembly text."""
        with _LOCK:
            return target_machine(self.target, self.effort).emit_assembly(self._module)


def compile_module(text: str, target: CpuTarget, optimize: bool = False, effort: int = 2, optimized: str = ""
                   ) -> CompiledModule:
    """Compiles LLVM text for `target` and loads it.

    No optimisation passes run unless `optimize` is true (level 2): code with explicit vectors gains nothing
    from them. They run on `optimized`, text of functions that `text` calls. `effort` is LLVM's level of code
    generation; 0 is several times quicker and enough for code that checks and calls. Raises VerificationError if LLVM
    rejects the text.
    """
    with _LOCK:
        machine = target_machine(target, effort)
        module = _parse(text, machine)
        if optimize:
            _run_passes(module, machine)
        if optimized:
            part = _parse(optimized, machine)
            _run_passes(part, machine)
            called = [function.name for function in part.functions if not function.is_declaration]
            module.link_in(part)
            for name in called:
                module.get_function(name).linkage = "internal"
    return CompiledModule(module, target, effort)


_SHARED: weakref.WeakValueDictionary[str, Module] = weakref.WeakValueDictionary()


def shared_module(text: str) -> Module:
    """The machine code, for this processor, of a text that checks and calls; one for all who have the same text."""
    module = _SHARED.get(text)
    if module is None:
        module = _SHARED[text] = compile_module(text, host_target(), effort=0)
    return module


def _parse(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """The module of a text, verified."""
    try:
        module = llvm.parse_assembly(text)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise VerificationError(f"LLVM rejects the generated code: {error}") from None
    return module


def _run_passes(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """LLVM's optimisation at level 2, vectors included."""
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


@functools.cache
def target_machine(target: CpuTarget, effort: int = 2) -> llvm.TargetMachine:
    """LLVM's code generator for `target`, position independent, at a level of 0 to 3."""
    _initialize()
    triple = llvm.get_process_triple()
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=target.name, features=target.features, opt=effort, reloc="pic", codemodel="small"
    )


@functools.cache
def _linker() -> llvm.LLJIT:
    """The one linker of this process. It only ever gets object code, so any target machine will do."""
    _initialize()
    return llvm.create_lljit_compiler(use_jit_link=True)


@functools.cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
