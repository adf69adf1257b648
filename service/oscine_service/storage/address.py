"""Where voices lie that several machines share: s3://bucket/prefix, or file:///folder of a shared file system. Pure."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


@dataclass(frozen=True, slots=True)
class Address:
    """scheme: "s3" or "file". place: the bucket, "" for a folder. path: a prefix without slashes at its ends, or
    the folder."""

    scheme: str
    place: str
    path: str

    def __str__(self) -> str:
        """As it is written; `read` reads it."""
        return f"{self.scheme}://{self.place}/{quote(self.path).lstrip('/')}".rstrip("/")

    @property
    def folder(self) -> Path:
        """Of one with the scheme "file"."""
        return Path(self.path)


def read(written: str) -> Address:
    """Raises ValueError, which says what is legal."""
    parts = urlsplit(written)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(f"{written!r} has more than a place and a path; keys of a bucket belong to the environment")
    path = unquote(parts.path)
    if parts.scheme == "s3" and _BUCKET.fullmatch(parts.netloc):
        return Address("s3", parts.netloc, path.strip("/"))
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and path.strip("/"):
        return Address("file", "", str(Path(path)))
    raise ValueError(f"{written!r} is no store: use a folder, s3://BUCKET/PREFIX or file:///FOLDER")
