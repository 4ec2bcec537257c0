"""The compiled artifact: layout, manifest, atomic write, verification, loading."""
