"""A relay in front of a server's port that holds back the server's octets after a limit, until it is opened."""

import contextlib
import socket
import threading

from patience import SECONDS

ADDRESS = "127.0.0.1"
PIECE = 1 << 16


class Valve:
    def __init__(self, port, limit):
        """Passes `limit` octets of the server at `port`, summed over all connections."""
        self.server, self.left = port, limit
        self.is_closed, self.is_open = threading.Event(), threading.Event()
        self.lock, self.sockets = threading.Lock(), []

    def __enter__(self):
        self.listener = socket.create_server((ADDRESS, 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.open()
        with self.lock:
            for each in [self.listener, *self.sockets]:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()

    def wait(self):
        """Waits until the valve holds back octets of the server."""
        assert self.is_closed.wait(SECONDS), "the server has not sent that much"

    def open(self):
        self.is_open.set()

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
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(server, client, self._hold), daemon=True).start()

    def _hold(self, octets):
        with self.lock:
            self.left -= octets
            if self.left >= 0:
                return
        self.is_closed.set()
        self.is_open.wait()

    def _pass_on(self, source, target, before=lambda octets: None):
        with contextlib.suppress(OSError):
            while piece := source.recv(PIECE):
                before(len(piece))
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
