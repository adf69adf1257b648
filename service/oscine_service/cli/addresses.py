"""Addresses of services, as they are written on a command line."""

import argparse

from oscine_service.config import parse


def address(text: str, port: int) -> str:
    """HOST:PORT of HOST or HOST:PORT. port: where none is given. Raises ArgumentTypeError."""
    host, colon, given = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, given = text, str(port)
    if not host or "/" in host or (":" in host and not host.startswith("[")):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST or HOST:PORT; an IPv6 address stands in brackets")
    return f"{host}:{parse.port(given)}"
