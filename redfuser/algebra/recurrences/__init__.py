"""Recurrences written from what was proved: base points, corrections, elements."""
