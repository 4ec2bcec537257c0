"""Phases of a tile program as loops: what is staged, what lies in lanes, which loops are shared."""
