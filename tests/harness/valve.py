"""A relay in front of a server's port that holds back the octets of one side after a limit, until it is opened. It can keep a copy
of all octets."""

import contextlib
import socket
import threading

from patience import SECONDS

ADDRESS = "127.0.0.1"
PIECE = 1 << 16


class Valve:
    def __init__(self, port, limit=1 << 62, holds_clients=False, records=False, connections=None, after=None):
        """Passes `limit` octets of the server at `port`, or of its clients, summed over all connections. With `connections`,
        instead each connection passes `limit` octets until there are so many, and when each of so many has passed `limit`, all are held
        back. With `after`, counts only the octets that arrive while that valve holds back octets. With `records`, see octets()."""
        self.server, self.left, self.holds_clients = port, limit, holds_clients
        self.limit, self.connections, self.after = limit, connections, after
        self.is_closed, self.is_open, self.is_complete = threading.Event(), threading.Event(), threading.Event()
        self.lock, self.sockets = threading.Lock(), []
        self.passed = []  # the octets of each connection
        self.recorded = [] if records else None  # a bytearray for each direction of each connection

    def __enter__(self):
        self.listener = socket.create_server((ADDRESS, 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends all connections, and refuses new ones."""
        self.open()
        with self.lock:
            for each in [self.listener, *self.sockets]:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()

    def shut(self):
        """Holds back all octets from now on."""
        with self.lock:
            self.left = 0

    def wait(self):
        """Waits until the valve holds back octets."""
        assert self.is_closed.wait(SECONDS), "nobody has sent that much"

    def cut(self, connection=None):
        """Ends all connections, or only this one; they are counted from zero. New ones are possible."""
        with self.lock:
            for each in self.sockets if connection is None else self.sockets[2 * connection:2 * connection + 2]:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def accepted(self):
        """The number of connections that there were."""
        with self.lock:
            return len(self.passed)

    def open(self):
        self.is_complete.set()
        self.is_open.set()

    def octets(self):
        """Returns what it has passed on: the octets of each direction of each connection, one after the other."""
        return b"".join(map(bytes, list(self.recorded)))

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                try:
                    server = socket.create_connection((ADDRESS, self.server))
                except OSError:
                    client.close()
                    continue
                with self.lock:
                    self.sockets += [client, server]
                    self.passed.append(0)
                    number = len(self.passed) - 1
                    if len(self.passed) == self.connections:
                        self.is_complete.set()
                for ends, is_held in (((client, server), self.holds_clients), ((server, client), not self.holds_clients)):
                    held = [lambda octets, number=number: self._hold(number, octets)] if is_held else []
                    threading.Thread(target=self._pass_on, args=(*ends, *held), daemon=True).start()

    def _hold(self, number, octets):
        if self.after and not self.after.is_closed.is_set():
            return
        with self.lock:
            self.left -= octets
            self.passed[number] += octets
            is_first = self.connections is not None and self.passed[number] >= self.limit
        if is_first:
            self.is_complete.wait()
        with self.lock:
            if self.connections is None:
                holds = self.left < 0
            else:
                holds = self.is_closed.is_set() or sum(each >= self.limit for each in self.passed) >= self.connections
            if not holds:
                return
        self.is_closed.set()
        self.is_open.wait()

    def _pass_on(self, source, target, before=lambda octets: None):
        record = bytearray()
        if self.recorded is not None:
            self.recorded.append(record)
        with contextlib.suppress(OSError):
            while piece := source.recv(PIECE):
                before(len(piece))
                if self.recorded is not None:
                    record += piece
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
