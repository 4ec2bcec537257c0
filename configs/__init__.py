"""Device descriptions, read as data."""
