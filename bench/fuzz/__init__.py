"""Nonsense for every parser, and what came of it."""
