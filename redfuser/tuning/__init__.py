"""Choosing a kernel's schedule: the space of candidates, what they should cost, what they do cost, what was chosen."""
