"""Connections that carry RPC messages: records over TCP (RFC 5531 §11) and RPC-over-RDMA (RFC 8166) over iWARP.

A connection begins as a TcpLink or as an RdmaLink. `step_up` and `accept_step_up` make an RdmaLink of a TCP connection on which
a SESSION_BIND has granted RDMA mode (RFC 5044 §7.1.3).
"""

import struct
import threading
import time

from iwarp_peer import CRC, ENHANCED, MARKERS, REJECTED, REPLY_KEY, REQUEST_KEY, Ended, Endpoint, fpdu, mpa_frame, untagged
from patience import SECONDS
from rdma_messages import RDMA_MSG, RDMA_MSGP, RDMA_NOMSG, Header
from rpc_messages import NO_CHUNKS, header, read_list, reply_chunk, words, write_list, xid_of
from tcp_peer import LAST_FRAGMENT, fragment
from wire import BadXdr, Reader

FOREVER = 10**6
LARGEST_MESSAGE = 4 << 20
INLINE = 1024  # octets in a Send before anything else is agreed (RFC 8166 §3.3.2)
PAD_THRESHOLD = 512
LARGEST_SEGMENT = 32 << 10
READS = 8
PEER_TO_PEER, READY_BY_SEND = 0x8000, 0x4000  # RFC 6581 §4.1


class Broken(Exception):
    """The peer has broken the protocol of the connection."""


class SharedEndpoint(Endpoint):
    """An endpoint on which one thread receives while others send."""

    def __init__(self, sock):
        super().__init__(sock)
        self.sending = threading.RLock()
        self.left_to_read = {}  # by sink: octets that an RDMA Read still has to bring

    def raw(self, data):
        with self.sending:
            super().raw(data)

    def send(self, message, opcode=3, invalidate=0):
        """Sends a message in segments that an FPDU can hold."""
        with self.sending:
            msn = self.next_msn(0)
            for at in range(0, max(len(message), 1), LARGEST_SEGMENT):
                part = message[at:at + LARGEST_SEGMENT]
                self.raw(fpdu(untagged(opcode, 0, msn, at, part, invalidate, last=at + len(part) >= len(message))))

    def read(self, source, source_offset, size, sink=0x5117):
        with self.sending:
            super().read(source, source_offset, size, sink)

    def write(self, stag, offset, payload):
        for at in range(0, len(payload), LARGEST_SEGMENT):
            super().write(stag, offset + at, payload[at:at + LARGEST_SEGMENT])

    def place(self, opcode, stag, offset, payload):
        super().place(opcode, stag, offset, payload)
        if stag in self.left_to_read:
            self.left_to_read[stag] -= len(payload)


class TcpLink:
    is_rdma = False

    def __init__(self, endpoint):
        self.endpoint = endpoint
        self.max_send = self.max_receive = LARGEST_MESSAGE

    def receive(self, seconds=FOREVER):
        """Returns the next record."""
        deadline, record, last = time.monotonic() + seconds, b"", False
        while not last:
            self.endpoint.fill(4, deadline)
            (mark,) = struct.unpack(">I", self.endpoint.take(4))
            size, last = mark & ~LAST_FRAGMENT, bool(mark & LAST_FRAGMENT)
            if len(record) + size > LARGEST_MESSAGE:
                raise Broken("a record that is too large")
            self.endpoint.fill(size, deadline)
            record += self.endpoint.take(size)
        return record

    def send_call(self, message, payload=None, room=0, read_room=0):
        self.endpoint.raw(fragment(message))

    def send_reply(self, message):
        self.endpoint.raw(fragment(message))

    def lose(self):
        """The connection has ended."""


class RdmaLink:
    """The side that makes calls over RPC-over-RDMA. It may also receive calls (RFC 8167)."""

    is_rdma = True

    def __init__(self, endpoint, max_send=INLINE):
        self.endpoint, self.max_send, self.pad = endpoint, max_send, 0
        self.granted, self.outstanding, self.credit, self.is_lost = 1, 0, threading.Condition(), False
        self.wanted = 32  # the credits that each call asks for
        self.next_handle, self.offers = 0x1000, {}  # by XID: (handle of the Reply chunk, of the Write chunk)
        self.kinds = []  # the kinds of the messages that were sent

    def offer(self, contents):
        self.next_handle += 1
        self.endpoint.memory[self.next_handle] = bytearray(contents)
        return self.next_handle

    def take_credit(self):
        with self.credit:
            assert self.credit.wait_for(lambda: self.is_lost or self.outstanding < self.granted, SECONDS), "no credit for a call"
            if self.is_lost:
                raise Ended("closed before a call")
            self.outstanding += 1

    def lose(self):
        """The connection has ended: no call waits for a credit any more."""
        with self.credit:
            self.is_lost = True
            self.credit.notify_all()

    def send_call(self, message, payload=None, room=0, read_room=0):
        """Sends a call. `payload` is (position, size) of the data of a WRITE; `room` is the size of a Reply chunk, and
        `read_room` that of a Write chunk for the data of a READ, which must be the last item of the reply."""
        self.take_credit()
        xid, handles = xid_of(message), []
        fields = {"credits": self.wanted}
        reply = self.offer(bytes(room)) if room else None
        written = self.offer(bytes(read_room)) if read_room else None
        if reply:
            fields["reply"] = reply_chunk((reply, room))
        if written:
            fields["writes"] = write_list([(written, read_room)])
        lists = len(header(xid, **fields))
        if payload and self.pad and payload[1] >= PAD_THRESHOLD:
            chunks = words(self.pad, PAD_THRESHOLD) + header(xid, **fields)[16:]
            padding = bytes(-(16 + len(chunks) + payload[0]) % self.pad)
            padded = message[:payload[0]] + padding + message[payload[0]:]
            if 16 + len(chunks) + len(padded) <= self.max_send:
                return self._send(xid, (reply, written, handles), header(xid, RDMA_MSGP, credits=self.wanted, chunks=chunks) + padded)
        if payload and lists + len(message) > self.max_send:
            at, size = payload
            handles.append(self.offer(message[at:at + size]))
            fields["reads"] = read_list((at, handles[0], size))
            message = message[:at] + message[at + size + -size % 4:]
        if len(header(xid, **fields)) + len(message) <= self.max_send:
            return self._send(xid, (reply, written, handles), header(xid, **fields) + message)
        assert not payload, "neither the payload nor the rest fits a Send"
        handles.append(self.offer(message))
        fields["reads"] = read_list((0, handles[0], len(message)))
        return self._send(xid, (reply, written, handles), header(xid, RDMA_NOMSG, **fields))

    def _send(self, xid, offered, message):
        self.offers[xid] = offered
        self.kinds.append(struct.unpack_from(">I", message, 12)[0])
        self.endpoint.send(message)

    def send_reply(self, message):
        """Sends the reply to a call in the backward direction: it must fit a Send."""
        self.endpoint.send(header(xid_of(message), RDMA_MSG, credits=32, chunks=NO_CHUNKS) + message)

    def return_credit(self):
        """Sends a message of length zero, which consumes a receive of the peer (§2.4 of the draft)."""
        self.endpoint.send(b"")

    def receive(self, seconds=FOREVER):
        """Returns the next RPC message, a reply or a call. The memory of a call is withdrawn with its reply."""
        answer = Header(self.endpoint.receive(seconds))
        assert answer.kind in (RDMA_MSG, RDMA_NOMSG), f"RDMA procedure {answer.kind}"
        if answer.kind == RDMA_MSG and struct.unpack_from(">I", answer.body, 4)[0] == 0:
            assert not (answer.reads or answer.writes or answer.reply), "a callback with chunks (§2.6)"
            return answer.body
        assert answer.credits > 0, "a grant of no credits"
        assert not answer.reads, "a reply with a Read list (§2.2.5)"
        reply, written, others = self.offers.pop(answer.xid)
        memory, body = self.endpoint.memory, answer.body
        if answer.kind == RDMA_NOMSG:
            assert answer.reply and all(handle == reply for handle, _, _ in answer.reply), "a reply in memory that was not offered"
            body = b"".join(bytes(memory[handle][offset:offset + length]) for handle, length, offset in answer.reply)
        for (handle, length, _), in answer.writes:
            assert handle == written, "a Write chunk that was not offered"
            if length:
                assert body[-4:] == words(length), "a Write chunk whose length is not that of the data"
                body += bytes(memory[handle][:length]) + bytes(-length % 4)
        for handle in [reply, written, *others]:
            memory.pop(handle, None)
        with self.credit:
            self.granted = answer.credits
            self.outstanding -= 1
            self.credit.notify_all()
        return body


class PaddedReader(Reader):
    """Reads a call of RDMA_MSGP: pads stand before the data of payloads. `pads` has the (position, size) of those that were
    read; `base` is the position of the message in its Send."""

    def __init__(self, data, base, align, threshold):
        super().__init__(data)
        self.base, self.align, self.threshold, self.pads = base, align, threshold, []

    def payload(self):
        size = self.u32()
        if size >= self.threshold:
            pad = -(self.base + self.at) % self.align
            self.pads.append((self.at, pad))
            if any(self.fixed(pad)):
                raise BadXdr("a pad that is not zero")
        data = self.fixed(size)
        if any(self.fixed(-size % 4)):
            raise BadXdr("padding that is not zero")
        return data


def step_up(link):
    """The client's side: enters RDMA mode on the connection of a TcpLink. Returns an RdmaLink."""
    endpoint = link.endpoint
    endpoint.raw(mpa_frame())
    key, flags, _, _ = endpoint.mpa()
    assert key == REPLY_KEY and not flags & REJECTED, "the server refused to step up"
    return RdmaLink(endpoint)


def accept_mpa(endpoint, private_data=b"", seconds=5):
    """The server's side: answers an MPA Request, which must come in time. Returns the client's private data. RFC 6581: a request of
    revision 2 tells the client's depths of RDMA Read; we let it read nothing."""
    endpoint.fill(len(REQUEST_KEY), time.monotonic() + seconds)
    if endpoint.pending[:len(REQUEST_KEY)] != REQUEST_KEY:
        raise Broken("no MPA Request")
    _, flags, revision, theirs = endpoint.mpa(seconds)
    enhanced = revision == 2 and flags & ENHANCED
    if revision not in (1, 2) or flags & (REJECTED | MARKERS) or enhanced and len(theirs) < 4:
        raise Broken("an MPA Request of another kind")
    if enhanced:
        depth = struct.unpack(">H", theirs[:2])[0]
        ours = struct.pack(">HH", PEER_TO_PEER | READY_BY_SEND if depth & PEER_TO_PEER else 0, min(depth & 0x3FFF, READS))
        private_data, theirs = ours + private_data, theirs[4:]
    endpoint.raw(mpa_frame(REPLY_KEY, CRC | enhanced, revision, private_data))
    return theirs
