"""Protocols, settings and the command line: everything that opens a socket."""

import os

# numpy's products here are small, and many calls make them at once: threads would wait for one another, for three times
# the time of a core. Read when numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
