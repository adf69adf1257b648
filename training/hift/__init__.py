"""Adversarial training of the vocoder."""
