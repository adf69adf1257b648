"""Logs on standard error: a line each, for people or as JSON.

A line is an event with fields. Fields may be bound to a context, such as the number of a call, and are then part of
whatever is logged in it. At info and above no line has any of a user's text in it.
"""

import json
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_bound: ContextVar[dict[str, Any]] = ContextVar("oscine_log_fields", default={})  # noqa: B039  (never written to)


class TextFormatter(logging.Formatter):
    """The event, and its fields as name=value."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_shown(value)}" for name, value in _fields(record).items())
        return super().formatMessage(record) + fields


class JsonFormatter(logging.Formatter):
    """One object: time (UTC), level, logger, event, the fields, and what was raised."""

    def format(self, record: logging.LogRecord) -> str:
        line = _head(record.created, record.levelname, record.name, record.getMessage())
        line |= _fields(record)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up(level: str, format: str) -> None:
    """Log from `level` on, in `format`: "text" or "json"; what was set up before is replaced."""
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each, _Stderr)]:
        root.removeHandler(handler)
    ours = _Stderr()
    ours.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root.addHandler(ours)
    root.setLevel(level.upper())
    # What it finds in a form is told to whoever sent that.
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)


class _Stderr(logging.Handler):
    """Writes to what is standard error at that time."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


def format_now() -> str:
    """The format that was set up."""
    handlers = logging.getLogger().handlers
    return "json" if any(isinstance(each.formatter, JsonFormatter) for each in handlers) else "text"


def event(log: logging.Logger, level: int, name: str, **fields: Any) -> None:
    """Log an event with fields; those that are None are left out."""
    if log.isEnabledFor(level):
        log.log(level, "%s", name, extra={"fields": {key: value for key, value in fields.items() if value is not None}})


@contextmanager
def bound(**fields: Any) -> Iterator[None]:
    """Fields of whatever is logged in the block, and in tasks that are started in it."""
    token = _bound.set(_bound.get() | fields)
    try:
        yield
    finally:
        _bound.reset(token)


def relay(lines: Sequence[bytes], name: str) -> bytes:
    """Lines of another process's standard error as this one prints them: behind its `name`, or as objects where this
    one logs JSON."""
    if format_now() == "text":
        prefix = f"{name}: ".encode()
        return b"".join(prefix + line + b"\n" for line in lines)
    return b"".join(_named(line, name) + b"\n" for line in lines)


def _named(line: bytes, name: str) -> bytes:
    """A line as an object that says which process it is of."""
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        found = _head(time.time(), "ERROR", "stderr", line.decode(errors="replace"))
    return json.dumps({**found, "process": name}, ensure_ascii=False).encode()


def _head(seconds: float, level: str, logger: str, event: str) -> dict[str, Any]:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"
    return {"time": stamp, "level": level.lower(), "logger": logger, "event": event}


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {**_bound.get(), **getattr(record, "fields", {})}


def _shown(value: Any) -> str:
    """In quotes if it would not be one word: what clients call themselves must not look like a line of ours."""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    plain = text and all(each.isprintable() and not each.isspace() and each != '"' for each in text)
    return text if plain else json.dumps(text)
