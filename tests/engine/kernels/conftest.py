"""Kernels run on the GPU if there is one, else in Triton's interpreter, which must be asked for before its import."""

import os
import sys

import torch

if not torch.cuda.is_available():
    assert "triton" not in sys.modules or os.environ.get("TRITON_INTERPRET") == "1", "triton was imported too early"
    os.environ["TRITON_INTERPRET"] = "1"
