"""Whether the benchmarks run at all: small sizes, few rounds, outputs compared.

    python -m benchmarks.smoke
"""

from __future__ import annotations

from benchmarks import contractions, programs
from benchmarks.harness import pin_to_one_core


def main() -> None:
    pin_to_one_core()
    programs.run(quick=True)
    contractions.run(quick=True)


if __name__ == "__main__":
    main()
