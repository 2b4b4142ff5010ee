"""The side of the server of the links: requests as they arrive, their chunks, and replies."""

import struct
import threading

from links import Broken, PaddedReader, RdmaLink, TcpLink
from rdma_messages import RDMA_MSG, RDMA_MSGP, RDMA_NOMSG, Header
from rpc_messages import NO_CHUNKS, header, words, xid_of
from wire import Reader

CHUNK_LIMIT = 4 << 20
PULL_SINK = 0x5117
RDMA_READ_SIZE = 32 << 10


def is_call(message):
    return len(message) >= 8 and struct.unpack_from(">I", message, 4)[0] == 0


class Request:
    """A call over TCP. `prefix` holds the octets that are here at once; `room` bounds the reply, except for the data that go to the
    Write chunk, which has `chunk` octets."""

    header, chunk = None, 0

    def __init__(self, link, message):
        self.link, self.prefix, self.size, self.room = link, message, len(message), link.max_send

    def pull(self):
        """Returns the whole call."""
        return self.prefix

    def reader(self, octets):
        return Reader(octets)

    def answer(self, octets, payloads=()):
        """Sends the reply. `payloads` are the (position, size) of data that may go by RDMA Write."""
        self.link.send_reply(octets)


class RdmaRequest(Request):
    """A call over RPC-over-RDMA."""

    def __init__(self, link, head):
        self.link, self.header, self.prefix, self.size = link, head, head.body, 0
        if head.align is not None and (link.pad == 0 or head.align != link.pad or head.reads):
            raise Broken("padding that was not agreed")
        if any(length > CHUNK_LIMIT for _, (_, length, _) in head.reads):
            raise Broken("a Read chunk that is too large")
        self.room = head.length_of(head.reply) if head.reply else link.max_send - len(self.answer_header(RDMA_MSG))
        self.chunk = head.length_of(head.writes[0]) if head.writes else 0

    def pull(self):
        positions = sorted({position for position, _ in self.header.reads})
        inline, message = self.prefix, b""
        if self.header.kind == RDMA_NOMSG:
            inline = self.link.pull([segment for position, segment in self.header.reads if position == 0])
            positions = [position for position in positions if position]
        for position in positions:
            take = position - len(message)
            if not 0 <= take <= len(inline):
                raise Broken("a Read chunk without a place")
            data = self.link.pull([segment for each, segment in self.header.reads if each == position])
            message, inline = message + inline[:take] + data + bytes(-len(data) % 4), inline[take:]
        return message + inline

    def reader(self, octets):
        if self.header.align is None:
            return Reader(octets)
        return PaddedReader(octets, self.size - len(octets), self.header.align, self.header.threshold)

    def answer_header(self, kind, writes=None, reply=None):
        writes = self.header.writes if writes is None else writes
        reply = [(handle, 0, offset) for handle, _, offset in self.header.reply or []] if reply is None else reply
        lists = words(0) + b"".join(words(1, len(chunk)) + segments(chunk) for chunk in writes) + words(0)
        lists += words(1, len(reply)) + segments(reply) if self.header.reply else words(0)
        return header(self.header.xid, kind, credits=self.link.granted, chunks=lists)

    def answer(self, octets, payloads=()):
        octets, writes = self.place(octets, payloads)
        inline = self.answer_header(RDMA_MSG, writes)
        if len(inline) + len(octets) <= self.link.max_send:
            return self.link.endpoint.send(inline + octets)
        if not self.header.reply or len(octets) > self.header.length_of(self.header.reply):
            raise Broken("no room for the reply")
        used = self.fill(self.header.reply, octets)
        return self.link.endpoint.send(self.answer_header(RDMA_NOMSG, writes, used))

    def place(self, octets, payloads):
        """Writes data to the Write chunks, each to the next one. Returns the rest of the reply and the Write list."""
        writes, moved = [], 0
        for i, chunk in enumerate(self.header.writes):
            data = b""
            if i < len(payloads) and payloads[i][1] <= self.header.length_of(chunk):
                at, size = payloads[i][0] - moved, payloads[i][1]
                data, octets = octets[at:at + size], octets[:at] + octets[at + size + -size % 4:]
                moved += size + -size % 4
            writes.append(self.fill(chunk, data))
        return octets, writes

    def fill(self, chunk, data):
        used = []
        for handle, length, offset in chunk:
            part, data = data[:length], data[length:]
            if part:
                self.link.endpoint.write(handle, offset, part)
            used.append((handle, len(part), offset))
        return used


def segments(chunk):
    return b"".join(words(handle, length) + struct.pack(">Q", offset) for handle, length, offset in chunk)


class TcpServerLink(TcpLink):
    def take(self):
        """Returns the next Request, or the octets of a reply to a callback."""
        message = self.receive()
        return Request(self, message) if is_call(message) else message


class RdmaServerLink(RdmaLink):
    """`granted` is the number of credits that replies grant here."""

    def __init__(self, endpoint, max_send, max_receive, pad=0):
        super().__init__(endpoint, max_send)
        self.max_receive, self.pad, self.empty_sends, self.waiting = max_receive, pad, 0, []
        self.heard = threading.Event()

    def take(self):
        """Returns the next Request, or the octets of a reply to a callback. Messages of length zero only return credits."""
        while True:
            message = self.waiting.pop(0) if self.waiting else self.endpoint.receive(10**6)
            self.heard.set()
            if len(message) > self.max_receive:
                raise Broken("a Send that is too large")
            if message:
                break
            self.empty_sends += 1
        try:
            head = Header(message)
        except struct.error:
            raise Broken("a transport header that is cut short") from None
        if head.version != 1 or head.kind not in (RDMA_MSG, RDMA_NOMSG, RDMA_MSGP):
            raise Broken(f"RDMA procedure {head.kind}")
        if head.kind == RDMA_MSG and not is_call(head.body):
            return head.body
        if head.kind != RDMA_NOMSG and (not is_call(head.body) or xid_of(head.body) != head.xid):
            raise Broken("no call")
        request = RdmaRequest(self, head)
        request.size = len(message)
        return request

    def pull(self, chunk):
        """Reads a Read chunk. Messages that arrive meanwhile wait."""
        data = b""
        for handle, length, offset in chunk:
            for at in range(0, length, RDMA_READ_SIZE):
                data += self._read(handle, offset + at, min(RDMA_READ_SIZE, length - at))
        return data

    def _read(self, handle, offset, size):
        endpoint = self.endpoint
        endpoint.memory[PULL_SINK], endpoint.left_to_read[PULL_SINK] = bytearray(size), size
        endpoint.read(handle, offset, size, PULL_SINK)
        while endpoint.left_to_read[PULL_SINK] > 0:
            message = endpoint.take_segment(10**6)
            if message is not None:
                self.waiting.append(message)
        return bytes(endpoint.memory.pop(PULL_SINK))

    def send_call(self, message, payload=None, room=0, read_room=0):
        """Sends a callback, which must fit a Send. The first FPDU of a connection is the client's (RFC 5044 §7.1.2)."""
        if not self.heard.wait(60):
            raise OSError("the client has sent nothing")
        self.endpoint.send(header(xid_of(message), RDMA_MSG, credits=8, chunks=NO_CHUNKS) + message)
