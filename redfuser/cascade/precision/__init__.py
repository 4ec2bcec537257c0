"""The precision a cascade is computed in (METHOD §4)."""
