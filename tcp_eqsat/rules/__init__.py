"""Rewrite rules: how they are written, what they may claim, how they are checked, and the ones that ship."""
