"""How fast a machine is, and what a kernel should take on it."""
