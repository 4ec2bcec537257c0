"""The untuned schedule for CPUs: `default.py` chooses, by the kind of cascade."""
