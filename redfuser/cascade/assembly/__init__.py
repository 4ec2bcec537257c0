"""From a group of reductions to a cascade in coordinates of its own."""
