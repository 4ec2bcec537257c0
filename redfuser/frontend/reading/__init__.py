"""A model file, which may be hostile, as a checked and normalised graph: in a process of its own, with limits."""
