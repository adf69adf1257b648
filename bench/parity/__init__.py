"""Parity with upstream CosyVoice3, checked against a folder of recorded numbers."""

import os

# In quiet bins a log filterbank shows the rounding of the float32 transform under it, and MKL's differs from processor
# to processor by up to 7e-4. This mode is the same on all of them. Read once, before torch is first imported.
os.environ.setdefault("MKL_CBWR", "COMPATIBLE")
