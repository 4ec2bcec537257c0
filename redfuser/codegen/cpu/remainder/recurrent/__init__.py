"""Recurrent layers on a CPU."""
