"""Telephone calls: what carriers and exchanges open is a sink, which an agent's conversation speaks into by name."""
