"""LLVM text to PTX, in a process that may die of it: `python -m tcp_eqsat.codegen.ptx_child sm_80 < text`.

LLVM's NVPTX back end ends the process on what it can't select. `translate` is therefore called only here (see
`ptx_compile`). Exit status 3 says that the text itself was rejected; the message is on standard error.
"""

from __future__ import annotations

import contextlib
import sys

import llvmlite.binding as llvm

with contextlib.suppress(ImportError):  # not on Windows
    import resource

TRIPLE = "nvptx64-nvidia-cuda"
REJECTED = 3
"""Exit status for text that LLVM does not take."""
EFFORT = 2


def initialize() -> None:
    """Makes LLVM's NVPTX back end available; raises RuntimeError where LLVM was built without it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.Target.from_triple(TRIPLE)


def translate(text: str, sm: str) -> str:
    """The PTX of an LLVM module; raises RuntimeError where LLVM rejects the text, and may end the process."""
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=sm, features="", opt=EFFORT)
    module = llvm.parse_assembly(text)
    module.triple = TRIPLE
    module.data_layout = str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=EFFORT)
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return str(machine.emit_assembly(module))


def main() -> int:
    with contextlib.suppress(NameError, OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a death here is expected, and says enough
    try:
        initialize()
        sys.stdout.write(translate(sys.stdin.read(), sys.argv[1]))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return REJECTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
