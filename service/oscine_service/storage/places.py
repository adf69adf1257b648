"""Where the voices of some settings lie: a folder of this machine, or the copy of what is shared."""

import hashlib
import os
from pathlib import Path

from oscine_service.config.model import Engine
from oscine_service.storage.address import Address


def shared(engine: Engine) -> Address | None:
    """What is shared with other machines; None for a store of this one, or none."""
    return engine.voices if isinstance(engine.voices, Address) else None


def folder(engine: Engine) -> Path | None:
    """What engines read; None without voices of a store."""
    return copy_of(engine.voices, engine.voices_copy) if isinstance(engine.voices, Address) else engine.voices


def copy_of(source: Address, named: Path | None) -> Path:
    """This machine's copy of `source`: where it was named, or among what may be deleted and is made again."""
    if named is not None:
        return named
    short = hashlib.sha256(str(source).encode()).hexdigest()[:16]
    # The first is what systemd gives a service.
    cache = os.environ.get("CACHE_DIRECTORY", "").split(":")[0]
    if cache:
        return Path(cache) / f"voices-{short}"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oscine" / f"voices-{short}"
