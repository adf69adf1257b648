"""Checks and timings of the parts that run on a GPU; each module prints a table and OK or FAILED."""
