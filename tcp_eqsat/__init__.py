"""Tensor programs, made cheaper by equality saturation and compiled to native code."""
