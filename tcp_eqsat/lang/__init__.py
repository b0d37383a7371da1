"""The language: types, sizes, scalar functions, programs, operations and their meaning."""
