"""Tile programs as TileLang scripts."""
