"""Fair timing of alternatives on a noisy machine: in turns, in random order, by medians and quartiles."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one call: the median and the quartiles of `rounds` samples."""

    median: float
    lower: float
    upper: float


def _timing(samples: Sequence[float]) -> Timing:
    if len(samples) < 2:
        return Timing(samples[0], samples[0], samples[0])
    lower, median, upper = statistics.quantiles(samples, n=4, method="inclusive")
    return Timing(median, lower, upper)


def sample_in_turns(functions: Sequence[Callable[[], object]], *, rounds: int = 31, slice_seconds: float = 2e-4,
                    seed: int = 0) -> list[list[float]]:
    """Seconds a call, `rounds` samples of each function, taken in turns.

    Each function is called twice to warm up; a sample is the mean of as many calls as fill `slice_seconds`.
    """
    counts = []
    for function in functions:
        function()
        start = time.perf_counter()
        function()
        counts.append(max(1, int(slice_seconds / max(time.perf_counter() - start, 1e-7))))
    order = list(range(len(functions)))
    shuffle = random.Random(seed).shuffle
    samples: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        shuffle(order)
        for index in order:
            function = functions[index]
            start = time.perf_counter()
            for _ in range(counts[index]):
                function()
            samples[index].append((time.perf_counter() - start) / counts[index])
    return samples


def interleaved(functions: Sequence[Callable[[], object]], *, rounds: int = 31, slice_seconds: float = 2e-4
                ) -> list[Timing]:
    """The timing of each function."""
    return [_timing(s) for s in sample_in_turns(functions, rounds=rounds, slice_seconds=slice_seconds)]


def ratios(ours: Callable[[], object], peers: Sequence[Callable[[], object]], *, rounds: int = 31,
           slice_seconds: float = 2e-3) -> tuple[Timing, list[tuple[Timing, Timing]]]:
    """Our timing, and for each peer its timing and the ratio peer / ours round by round (above 1: we are faster)."""
    own, *others = sample_in_turns([ours, *peers], rounds=rounds, slice_seconds=slice_seconds)
    return _timing(own), [
        (_timing(theirs), _timing([t / o for t, o in zip(theirs, own, strict=True)])) for theirs in others]
