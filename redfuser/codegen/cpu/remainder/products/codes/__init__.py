"""Right factors that were quantised: found again, packed as codes of a few bits, decoded in products."""
