"""A connection of the Python client: calls from any thread, and callbacks beside them."""

import socket
import struct
import threading
import time

import rpc_messages as rpc
from iwarp_peer import REJECTED, REPLY_KEY, Ended, mpa_frame, private_data
from links import INLINE, RdmaLink, SharedEndpoint, TcpLink, step_up
from patience import SECONDS

FIRST_SIZE = 4096  # of a Send over an RDMA connection before its bind


class Tapped:
    """A socket that tells `tell(direction, octets)` about its octets; the direction is "out" or "in"."""

    def __init__(self, sock, tell):
        self.sock, self.tell = sock, tell

    def sendall(self, data):
        self.tell("out", bytes(data))
        self.sock.sendall(data)

    def recv(self, size):
        data = self.sock.recv(size)
        self.tell("in", data)
        return data

    def __getattr__(self, name):
        return getattr(self.sock, name)


def rdma_link(endpoint):
    """The client's side of an MPA start-up with private data (RFC 8797)."""
    endpoint.raw(mpa_frame(private_data=private_data(FIRST_SIZE, FIRST_SIZE)))
    key, flags, _, theirs = endpoint.mpa()
    assert key == REPLY_KEY and not flags & REJECTED, "the connection was refused"
    known = len(theirs) >= 8 and theirs[:5] == private_data()[:5]
    return RdmaLink(endpoint, min(FIRST_SIZE, 1024 * (theirs[7] + 1)) if known else INLINE)


class Caller:
    """A connection. `on_call(caller, message)` answers callbacks: it returns a reply, and each call has its own thread."""

    def __init__(self, host, port, is_rdma, on_call=None, tap=None):
        sock = socket.create_connection((host, port), SECONDS)
        self.endpoint = SharedEndpoint(Tapped(sock, tap(sock)) if tap else sock)
        self.link = rdma_link(self.endpoint) if is_rdma else TcpLink(self.endpoint)
        self.on_call, self.changed = on_call, threading.Condition()
        self.replies, self.ended, self.steps_up_with = {}, None, None
        self.stepped_up = False
        self.thread = threading.Thread(target=self._receive, daemon=True)
        self.thread.start()

    def _receive(self):
        try:
            while True:
                message = self.link.receive()
                xid, kind = struct.unpack_from(">II", message)
                if kind == 0:
                    threading.Thread(target=self._answer, args=(message,), daemon=True).start()
                    continue
                if self.steps_up_with and xid == self.steps_up_with[0] and self.steps_up_with[1](message):
                    self.link, self.stepped_up = step_up(self.link), True
                with self.changed:
                    self.replies[xid] = message
                    self.changed.notify_all()
        except (Ended, OSError, AssertionError, struct.error, KeyError) as why:
            with self.changed:
                self.ended = why
                self.changed.notify_all()
            self.link.lose()

    def _answer(self, message):
        reply = self.on_call(self, message)
        if reply is not None:
            self.link.send_reply(reply)

    def send(self, message, **how):
        """Sends a call, and does not wait for the reply. `how` are arguments of the link's send_call."""
        self.link.send_call(message, **how)

    def wait(self, xid, seconds=SECONDS):
        """Returns the reply to a call. Raises Ended if the connection ends before."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while xid not in self.replies:
                if self.ended:
                    raise self.ended if isinstance(self.ended, Ended) else Ended(repr(self.ended))
                assert time.monotonic() < deadline, f"no reply to {xid:#x}"
                self.changed.wait(1)
            return self.replies.pop(xid)

    def call(self, message, seconds=SECONDS, **how):
        self.send(message, **how)
        return self.wait(rpc.xid_of(message), seconds)

    def null(self):
        """Calls NULL."""
        assert rpc.RpcReply(self.call(rpc.call(0, b"", (100003, 4)))).status == ("success",)

    def wait_for_end(self, seconds=SECONDS):
        with self.changed:
            assert self.changed.wait_for(lambda: self.ended, seconds), "the connection does not end"

    def close(self):
        """Ends the connection, and waits for the end of its thread."""
        try:
            self.endpoint.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        if threading.current_thread() is not self.thread:
            self.thread.join(10)
        self.endpoint.close()

    def lose(self):
        """Ends the connection by a reset."""
        self.endpoint.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()
