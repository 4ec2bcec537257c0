"""This machine: its processor, its threads, and the versions of its tools."""
