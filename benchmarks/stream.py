"""The yardstick of a network: one plain TCP stream, one way, of as many bytes as asked.

    python -m benchmarks.stream receive ADDRESS PORT BYTES REPEATS
    python -m benchmarks.stream send ADDRESS PORT BYTES REPEATS

``ADDRESS`` is that of the receiver, in both. One connection serves all repeats; in each the sender
gives the kernel all bytes and waits for one byte that says they are there. It prints the seconds of
every repeat as JSON, without those of the first, in which the connection finds its pace.
"""

from __future__ import annotations

import json
import socket
import sys
import time

PIECE_BYTES = 1 << 20
MEET_WITHIN_S = 20.0


def receive(address: str, port: int, count: int, repeats: int) -> None:
    """Take ``count`` bytes as often as they come and say so each time."""
    piece = bytearray(PIECE_BYTES)
    with socket.create_server((address, port)) as server:
        server.settimeout(MEET_WITHIN_S)
        connection, _ = server.accept()
        with connection:
            for _ in range(repeats + 1):
                left = count
                while left:
                    got = connection.recv_into(piece, min(left, PIECE_BYTES))
                    if not got:
                        sys.exit("the sender went away")
                    left -= got
                connection.sendall(b"!")


def send(address: str, port: int, count: int, repeats: int) -> list[float]:
    """Seconds of each time that ``count`` bytes took to arrive."""
    piece, seconds = bytes(PIECE_BYTES), []
    with _connected(address, port) as connection:
        for _ in range(repeats + 1):
            started_s, left = time.perf_counter(), count
            while left:
                connection.sendall(memoryview(piece)[: min(left, PIECE_BYTES)])
                left -= min(left, PIECE_BYTES)
            connection.recv(1)
            seconds.append(time.perf_counter() - started_s)
    return seconds[1:]


def _connected(address: str, port: int) -> socket.socket:
    deadline_s = time.monotonic() + MEET_WITHIN_S
    while True:
        try:
            return socket.create_connection((address, port), timeout=MEET_WITHIN_S)
        except ConnectionRefusedError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)


def main() -> None:
    """One end of the stream."""
    end, address, *rest = sys.argv[1:]
    port, count, repeats = map(int, rest)
    if end == "receive":
        receive(address, port, count, repeats)
    else:
        print(json.dumps(send(address, port, count, repeats)))


if __name__ == "__main__":
    main()
