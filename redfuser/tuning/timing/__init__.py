"""Compiling candidates and timing them: in a process of its own, on servers, or by a script that travels."""
