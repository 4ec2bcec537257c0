"""Tiles that a mask hides: what may be skipped, the proof, and the phases that look first."""
