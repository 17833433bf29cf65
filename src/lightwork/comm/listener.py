"""A listening socket for a store that only this machine can reach."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


def listen(port: int = 0) -> int:
    """Listen on the loopback interface; returns the file descriptor, for the store to own.

    Whoever connects before the store answers waits in the queue, so ranks may start first.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((LOOPBACK, port))
    listener.listen(1024)
    return listener.detach()


def port_of(listener: int) -> int:
    """The port that a descriptor from :func:`listen` listens on."""
    view = socket.socket(fileno=listener)
    try:
        return int(view.getsockname()[1])
    finally:
        view.detach()
