"""Strategies: from a cascade and its derivation to the statements of a tile program (METHOD §5)."""
