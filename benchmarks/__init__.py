"""Scripts that measure, and the programs they measure."""
