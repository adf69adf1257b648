"""Sending datagrams from a thread that must not lose its turn."""

import ctypes
import errno
import socket
import sys
from collections.abc import Callable

_FLAGS = getattr(socket, "MSG_DONTWAIT", 0)


def sender(connected: socket.socket) -> Callable[[bytes], int]:
    """A function that sends a datagram through a connected socket that does not block, and gives 0 or the error's
    number.

    Python's own gives the interpreter's lock away for each datagram, and may get it back milliseconds later where other
    threads compute: of a hundred calls the last would be late by a hundred times that. The system takes microseconds.
    """
    if sys.platform == "win32":
        return lambda data: _plainly(connected, data)
    send = ctypes.PyDLL(None, use_errno=True).send
    send.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)
    send.restype = ctypes.c_ssize_t
    number = connected.fileno()

    def sent(data: bytes) -> int:
        return 0 if send(number, data, len(data), _FLAGS) >= 0 else ctypes.get_errno()

    return sent


def _plainly(connected: socket.socket, data: bytes) -> int:
    try:
        connected.send(data)
    except OSError as error:
        return error.errno or errno.EIO
    return 0
