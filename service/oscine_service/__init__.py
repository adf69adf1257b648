"""Protocols, settings and the command line: everything that opens a socket."""

import os

# numpy's products here are small, and many calls make them at once: threads would wait for one another, for three times
# the time of a core. Read when numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# gRPC runs in every child that is forked, before it becomes another program, and some die there (one in a hundred,
# under load): engines and readers of recordings, whose start then fails. Nothing here uses gRPC behind a fork.
# Read when grpc is set up.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
