"""Artifacts carried out in the interpreter of PTX, as a driver would carry them out on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from ptx_interpreter import Machine, parse

from tcp_eqsat.codegen.ptx import PtxArtifact, PtxCopy, PtxKernel
from tcp_eqsat.lang.dims import evaluate, value
from tcp_eqsat.lang.op import bind_sizes


def run_artifact(artifact: PtxArtifact, arrays: Sequence[np.ndarray], sizes: Mapping[str, int]) -> list[np.ndarray]:
    """The results of the program on arrays; constants come from the artifact."""
    given = {p.buffer: a for p, a in zip(artifact.parameters, arrays, strict=True)}
    counts = {b.name: evaluate(b.size, sizes) * b.dtype.bytes for b in artifact.buffers.values()}
    machine = Machine(sum(count + 1024 for count in counts.values()) + 4096)
    places = {}
    for buffer in artifact.buffers.values():
        initial = buffer.data.array if buffer.data is not None else given.get(buffer.name)
        places[buffer.name] = machine.allocate(counts[buffer.name], initial)
    entries = parse(artifact.text)
    for step in artifact.steps:
        match step:
            case PtxKernel():
                arguments = [places[name] for name in step.buffers] + [value(size, sizes) for size in step.sizes]
                machine.launch(entries[step.name], step.blocks(sizes, artifact.target), step.block, arguments)
            case PtxCopy(source, target):
                content = machine.read(places[source], counts[source])
                places[target] = machine.allocate(counts[target], np.frombuffer(content, np.uint8))
    results = []
    for port in artifact.results:
        shape = bind_sizes(port.type, sizes).shape
        content = machine.read(places[port.buffer], counts[port.buffer])
        results.append(np.frombuffer(content, port.type.dtype.numpy).reshape(shape))
    return results
