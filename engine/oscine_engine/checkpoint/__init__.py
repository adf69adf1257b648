"""Model directories: layout, loading, the embedded voice, and synthetic ones for tests."""

from oscine_engine.checkpoint.load import Checkpoint, load

__all__ = ["Checkpoint", "load"]
