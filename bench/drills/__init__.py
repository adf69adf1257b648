"""Failure drills: a real service, something that goes wrong, and what was promised for that. See `__main__`."""
