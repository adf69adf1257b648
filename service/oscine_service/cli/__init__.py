"""The `oscine` command."""

from oscine_service.cli.main import main

__all__ = ["main"]
