"""Fused kernels in Triton. Each module has a twin of its kernel in plain torch, which runs where there is no GPU."""
