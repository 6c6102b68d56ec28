"""A crowd of connections that never become clients: `silent_crowd.py PORTS NUMBER SECONDS HEX`.

It dials the named ports of this machine, keeps the number of connections up when some are closed,
and sends the bytes on each. It ends after the seconds.
"""

import resource
import selectors
import socket
import sys
import time

AT_ONCE = 200  # connections to make before looking at the others


class Crowd:
    """Open connections to some ports of this machine."""

    def __init__(self, ports: list[int], number: int, words: bytes) -> None:
        self.opened = self.ended = 0
        self._ports, self._number, self._words = ports, number, words
        self._selector = selectors.DefaultSelector()

    def turn(self) -> None:
        """Dial those that are missing, and see to the others."""
        missing = self._number - (self.opened - self.ended)
        for _ in range(min(missing, AT_ONCE)):
            self._dial(self._ports[self.opened % len(self._ports)])
        for key, events in self._selector.select(0.01):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            if events & selectors.EVENT_READ and not self._hears(connection):
                self._selector.unregister(connection)
                connection.close()
                self.ended += 1
            elif events & selectors.EVENT_WRITE:
                self._selector.modify(connection, selectors.EVENT_READ)
                self._says(connection)

    def _dial(self, port: int) -> None:
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex(("127.0.0.1", port))
        self._selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
        self.opened += 1

    def _says(self, connection: socket.socket) -> None:
        try:
            connection.send(self._words)
        except OSError:
            return  # it is gone: the next look closes it

    def _hears(self, connection: socket.socket) -> bool:
        try:
            return bool(connection.recv(4096))
        except BlockingIOError:
            return True
        except OSError:
            return False


def main(ports: str, number: str, seconds: str, words: str = "") -> None:
    """Attack, and print how many connections were made and ended."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    crowd = Crowd([int(port) for port in ports.split(",")], int(number), bytes.fromhex(words))
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        crowd.turn()
    print(f"{crowd.opened} connections, {crowd.ended} of them ended by the other side")


if __name__ == "__main__":
    main(*sys.argv[1:])
