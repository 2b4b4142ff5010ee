"""A server that behaves correctly except for given procedures: MOUNT over TCP, and NFS version 3 over RDMA."""

import socket
import struct
import threading
import time

import rpc_messages as rpc
from iwarp_peer import CRC, REPLY_KEY, Ended, Endpoint, Silence, mpa_frame, private_data
from rdma_messages import RDMA_MSG, Header, Words
from rpc_messages import hyper, opaque, take_opaque, words

FILE_SIZE = 10240
FILE, FOLDER = b"the file", b"the folder"
CONTENTS = bytes(i * 7 & 255 for i in range(FILE_SIZE))
EXPORT, MNT = 5, 1


def attributes(kind=1, size=FILE_SIZE):
    return words(kind, 0o644, 1, 0, 0) + hyper(size) + hyper(size) + words(0, 0) + hyper(1) + hyper(2) + bytes(24)


def accepted(results=b"", status=0):
    """Returns the part of a reply after the XID."""
    return words(1, 0, 0, 0, status) + results


class Call:
    """A received call."""

    def __init__(self, message):
        self.header = Header(message)
        reader = Words(self.header.body)
        self.xid = reader.word()
        _, _, self.program, self.version, self.procedure = (reader.word() for _ in range(5))
        for _ in range(2):
            reader.word()
            take_opaque(reader)
        self.arguments = reader


class Peer(Endpoint):
    """The server's end of a connection."""

    def reply(self, call, body, filled=0, **fields):
        """Sends a reply that uses the offered chunks, with `filled` octets in the first Write chunk."""
        writes = []
        for chunk in call.header.writes:
            used = []
            for handle, length, offset in chunk:
                used.append((handle, min(length, filled), offset))
                filled -= min(length, filled)
            writes.append(used)
        good = {"writes": rpc.write_list(*writes)}
        if call.header.reply is not None:
            good["reply"] = rpc.reply_chunk(*[(handle, 0, offset) for handle, _, offset in call.header.reply])
        self.send(rpc.header(fields.pop("xid", call.xid), **{"kind": RDMA_MSG, **good, **fields}) + body)

    def good_reply(self, call, **fields):
        """Sends a correct reply. Keywords change fields of the transport header."""
        self.reply(call, words(call.xid) + accepted(self.results_of(call, **fields)), filled=self.filled, **fields)

    def results_of(self, call, **_):
        self.filled = 0
        if call.procedure == rpc.FSINFO:
            return words(0, 0, 1 << 20, 1 << 20, 1, 1 << 20, 1 << 20, 1, 1 << 16) + hyper(1 << 40) + words(0, 1, 0)
        if call.procedure == rpc.LOOKUP:
            return words(0) + opaque(FILE) + words(1) + attributes() + words(0)
        if call.procedure == rpc.GETATTR:
            folder = take_opaque(call.arguments) == FOLDER
            return words(0) + attributes(2 if folder else 1)
        if call.procedure == rpc.READ:
            return self.read_results(call)
        if call.procedure == rpc.CREATE:
            return words(0, 1) + opaque(FILE) + words(1) + attributes(size=0) + words(0, 0)
        if call.procedure == rpc.WRITE:
            take_opaque(call.arguments)
            call.arguments.word(), call.arguments.word()
            return words(0, 0, 0, call.arguments.word(), 2) + bytes(8)
        if call.procedure == rpc.COMMIT:
            return words(0, 0, 0) + bytes(8)
        if call.procedure in (rpc.SETATTR, rpc.REMOVE):
            return words(0, 0, 0)
        if call.procedure in (rpc.READDIR, rpc.READDIRPLUS):
            return words(0, 0) + bytes(8) + words(0, 1)
        return b""

    def read_results(self, call):
        take_opaque(call.arguments)
        offset = call.arguments.word() << 32 | call.arguments.word()
        data = CONTENTS[offset:offset + call.arguments.word()]
        end = words(offset + len(data) >= FILE_SIZE)
        results = words(0, 0, len(data)) + end
        if not call.header.writes:
            return results + opaque(data)
        handle, length, at = call.header.writes[0][0]
        assert len(data) <= length
        if data:
            self.write(handle, at, data)
        self.filled = len(data)
        return results + words(len(data))


def serve_each(listener, serve):
    """Calls serve(socket) for each connection, on a thread of its own, until the listener is closed."""
    while True:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=serve, args=(sock,), daemon=True).start()


class HostileServer:
    """`behave` maps procedures to function(peer, call); `greet`, function(peer), replaces the MPA reply."""

    def __init__(self, behave=None, greet=None):
        self.behave, self.greet = behave or {}, greet
        self.sockets, self.terminates, self.connections, self.closing = [], [], 0, False
        self.rdma, self.mount = (self.listen(serve) for serve in (self.serve_rdma, self.serve_mount))

    def listen(self, serve):
        listener = socket.create_server(("127.0.0.1", 0))
        self.sockets.append(listener)
        threading.Thread(target=serve_each, args=(listener, serve), daemon=True).start()
        return listener.getsockname()[1]

    def serve_rdma(self, sock):
        self.connections += 1
        peer = Peer(sock)
        try:
            peer.mpa()
            if self.greet:
                return self.greet(peer)
            peer.raw(mpa_frame(REPLY_KEY, CRC, 1, private_data()))
            while True:
                call = Call(peer.receive(60))
                self.behave.get(call.procedure, Peer.good_reply)(peer, call)
        except (Ended, Silence, OSError):
            pass
        finally:
            if peer.terminate:
                self.terminates.append(peer.terminate)
            peer.close()

    def serve_mount(self, sock):
        endpoint = Endpoint(sock)
        try:
            while True:
                endpoint.fill(4, time.monotonic() + 600)
                (length,) = struct.unpack(">I", endpoint.take(4))
                endpoint.fill(length & 0x7FFFFFFF, time.monotonic() + 600)
                record = endpoint.take(length & 0x7FFFFFFF)
                xid, procedure = struct.unpack_from(">I16xI", record)
                results = {EXPORT: words(1) + opaque(b"/") + words(0, 0),
                           MNT: words(0) + opaque(FOLDER) + words(1, 1)}.get(procedure, b"")
                reply = words(xid) + accepted(results)
                endpoint.raw(struct.pack(">I", 0x80000000 | len(reply)) + reply)
        except (Ended, Silence, OSError):
            endpoint.close()

    def url(self, path, seconds):
        return f"nfs://127.0.0.1:{self.rdma}{path}?vers=3&proto=rdma&mountport={self.mount}&timeout={seconds}"

    def close(self):
        for listener in self.sockets:
            listener.close()
