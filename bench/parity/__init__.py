"""Parity with upstream CosyVoice3, checked against a folder of recorded numbers."""
