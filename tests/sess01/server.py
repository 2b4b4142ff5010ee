#!/usr/bin/python3
"""A small server of the sessions of 2004, written from draft-talpey-nfsv4-rdma-sess-01. It keeps its files in memory.

    server.py [--tcp PORT] [--rdma PORT] [--no-step-up] [--no-delegations]

Over TCP, a SESSION_BIND with mode RDMA makes an RDMA connection of the TCP connection. The other port takes RDMA connections.
"""

import argparse
import os
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import wire  # noqa: E402
from callbacks import Callbacks, Unreachable  # noqa: E402
from core import Core  # noqa: E402
from iwarp_peer import Ended, Silence, private_data  # noqa: E402
from links import INLINE, Broken, SharedEndpoint, accept_mpa  # noqa: E402
from server_links import RdmaServerLink, TcpServerLink  # noqa: E402
from wire import BadXdr, Reader, u32  # noqa: E402

PROGRAM = (100003, 4)
PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL, GARBAGE_ARGS = 1, 2, 3, 4
AUTH_NONE, AUTH_SYS = 0, 1
FIRST_SIZE = 4096  # of a Send over an RDMA connection before its bind


class Rejected(Exception):
    """The RPC call is answered without results: `rest` follows the verifier."""

    def __init__(self, rest):
        super().__init__()
        self.rest = rest


class RpcCall:
    """The header of a call; its arguments begin at `at`. The principal is the uid of AUTH_SYS."""

    def __init__(self, octets):
        reader = Reader(octets)
        self.xid, _, version = reader.u32(), reader.u32(), reader.u32()
        program, self.version, self.procedure = reader.u32(), reader.u32(), reader.u32()
        flavor, body = reader.u32(), reader.opaque(400)
        reader.u32(), reader.opaque(400)
        self.at = reader.at
        if version != 2 or flavor not in (AUTH_NONE, AUTH_SYS):
            raise Broken("an RPC version or flavor that we do not have")
        self.principal = flavor, self._uid(body) if flavor == AUTH_SYS else None
        if program != PROGRAM[0]:
            raise Rejected(u32(PROG_UNAVAIL))
        if self.version != PROGRAM[1]:
            raise Rejected(u32(PROG_MISMATCH) + u32(4) + u32(4))
        if self.procedure > 1:
            raise Rejected(u32(PROC_UNAVAIL))

    @staticmethod
    def _uid(body):
        reader = Reader(body)
        reader.u32(), reader.opaque(255)
        return reader.u32()


class Connection:
    """A connection of a client. Its thread answers one request at a time, in the order of arrival."""

    def __init__(self, server, link):
        self.server, self.core, self.link = server, server.core, link
        self.session, self.channels, self.created, self.is_cut = None, {}, None, False
        self.is_spent = False  # its session was destroyed
        self.stepping = None

    def cut(self):
        """Ends the connection, from any thread."""
        self.is_cut = True
        try:
            self.link.endpoint.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def unbind(self):
        self.session, self.channels = None, {}

    def limit(self, channel, steps_up):
        """Applies the limits of a new channel, once its bind has been answered."""
        if channel.kind == wire.OPERATION:
            if self.link.is_rdma:
                self._limit_rdma(channel)
            else:
                self.link.max_send = channel.limits["maxresponsesize"]
        if steps_up:
            self.stepping = channel

    def _limit_rdma(self, channel):
        limits = channel.limits
        self.link.max_send, self.link.max_receive = limits["maxresponsesize"], limits["maxrequestsize"]
        self.link.pad, self.link.granted = limits["headerpadsize"], limits["maxrequests"]

    def run(self):
        try:
            while not self.is_cut:
                self._serve_one()
                if self.stepping:
                    channel, self.stepping = self.stepping, None
                    self.server.accept_step_up(self.link.endpoint)
                    self.link = RdmaServerLink(self.link.endpoint, INLINE, FIRST_SIZE)
                    if channel.kind == wire.OPERATION:
                        self._limit_rdma(channel)
        except (Ended, Silence, Broken, BadXdr, OSError, AssertionError, struct.error) as why:
            self.server.say(f"a connection ends: {why!r}")
        finally:
            self.core.forget(self)
            self.core.callbacks.forget()
            self.link.endpoint.close()

    def _serve_one(self):
        request = self.link.take()
        if isinstance(request, bytes):
            return self.core.callbacks.handle_reply(request)
        if not request.prefix:
            request.prefix = request.pull()
            request.pull = lambda: request.prefix
        xid = request.prefix[:4]
        try:
            call = RpcCall(request.prefix)
        except Rejected as why:
            return request.answer(xid + struct.pack(">IIII", 1, 0, 0, 0) + why.rest)
        head = xid + struct.pack(">IIIII", 1, 0, 0, 0, 0)
        if call.procedure == 0:
            return request.answer(head)
        try:
            answer = self.core.compound(self, request, call)
        except BadXdr:
            return request.answer(head[:-4] + u32(GARBAGE_ARGS))
        request.answer(head + answer.octets, [(len(head) + at, size) for at, size in answer.payloads])
        if answer.after:
            answer.after()


class Server:
    """Listens on a TCP port and an RDMA port; either may be 0 for any port, or None. `recalls`: the server recalls half of the streamids
    of each session that has a back channel, after a request, and gives the client this time in seconds to return them."""

    def __init__(self, tcp=0, rdma=0, steps_up=True, delegates=True, say=lambda what: None, recalls=None):
        self.core = Core(Callbacks(), steps_up, delegates)
        if recalls:
            self.core.after_request = lambda session: self._recall_half(session, recalls)
        self.say, self.listeners, self.connections = say, [], []
        self.tcp = self._listen(tcp, self._tcp_link)
        self.rdma = self._listen(rdma, self._rdma_link)

    def _listen(self, port, make):
        if port is None:
            return None
        listener = socket.create_server(("127.0.0.1", port))
        self.listeners.append(listener)
        threading.Thread(target=self._accept, args=(listener, make), daemon=True).start()
        return listener.getsockname()[1]

    def _accept(self, listener, make):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock, make), daemon=True).start()

    def _serve(self, sock, make):
        try:
            connection = Connection(self, make(SharedEndpoint(sock)))
        except (Ended, Silence, Broken, OSError) as why:
            self.say(f"no connection: {why!r}")
            return sock.close()
        self.connections.append(connection)
        connection.run()
        self.connections.remove(connection)

    @staticmethod
    def accept_step_up(endpoint):
        """Enters RDMA mode on a connection whose SESSION_BIND has granted it."""
        accept_mpa(endpoint)

    @staticmethod
    def _tcp_link(endpoint):
        return TcpServerLink(endpoint)

    @staticmethod
    def _rdma_link(endpoint):
        """RFC 8797: the client's private data tell how much it receives; without them it is the smallest size."""
        theirs = accept_mpa(endpoint, private_data(FIRST_SIZE, FIRST_SIZE), seconds=60)
        size = INLINE
        if len(theirs) >= 8 and theirs[:5] == private_data()[:5]:
            size = 1024 * (theirs[7] + 1)
        return RdmaServerLink(endpoint, min(size, FIRST_SIZE), FIRST_SIZE)

    def stop(self):
        for listener in self.listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for connection in list(self.connections):
            connection.cut()

    def _recall_half(self, session, seconds):
        """Recalls half of the streamids of a session, once. If the client does not return them in time, its connections end."""
        if session.recalled or not session.live(wire.BACK) or not session.live(wire.OPERATION):
            return
        session.recalled = True

        def cut():
            with self.core.lock:
                for channel in list(session.channels.values()):
                    channel.connection.cut()
        over = threading.Timer(seconds, cut)

        def run():
            try:
                if self.recall_credits(session.number, max(1, session.limit // 2)) == wire.OK:
                    over.cancel()
            except (Unreachable, KeyError):  # KeyError: the session has ended
                pass
        over.start()
        threading.Thread(target=run, daemon=True).start()

    # ---- for tests ----

    def recall_credits(self, session, target):
        """Asks the client of a session to use fewer streamids; returns its answer."""
        core = self.core
        with core.lock:
            session = core.sessions()[session]
            links = [channel.connection.link for channel in session.live(wire.OPERATION) if channel.connection.link.is_rdma]
            for link in links if target else ():
                link.granted = min(link.granted, target)  # a hint, beside the call
        status = core.callbacks.recall_credits(session, target)
        if status == wire.OK:
            with core.lock:
                session.lower(target)
        return status


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tcp", type=int, default=2049)
    parser.add_argument("--rdma", type=int, default=20049)
    parser.add_argument("--no-step-up", action="store_true")
    parser.add_argument("--no-delegations", action="store_true")
    options = parser.parse_args()
    server = Server(options.tcp, options.rdma, not options.no_step_up, not options.no_delegations, lambda what: print(what, flush=True))
    print(f"ready: TCP port {server.tcp}, RDMA port {server.rdma}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
