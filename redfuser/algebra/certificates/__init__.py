"""Certificates: a derivation held against its cascade in float64, on data chosen to break it."""
