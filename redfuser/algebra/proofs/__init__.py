"""Proofs about one reduction: its map separates, closes, selects or rounds (METHOD §2-4)."""
