"""Reassembles RPC messages from RPC-over-RDMA (RFC 8166), as an observer of the wire.

tshark 4.0 reads the header, but its reassembly of chunks is wrong if a READ ends within an XDR word or a Send spans two
DDP segments (the kernel's own traffic looks malformed to it). So this module reassembles the chunks, strictly, and
writes the complete messages as if they had come over TCP: tshark then checks every byte of RPC and NFS.
"""

import struct

from frames import mpa_frame_length, rpc_fragment_length
from pcap import SYN

TAGGED, LAST = 0x80, 0x40
WRITE, READ_REQUEST, READ_RESPONSE, SENDS, TERMINATE = 0, 1, 2, (3, 4, 5, 6), 7
# The Terminate by which Linux's siw (6.1) reports a wrong CRC of a frame (RFC 5044 §8: layer 2, error 2; its bit fields
# are in another order). It computes the CRC over the memory where it has placed the frame, and was seen to compute one
# that does not match the octets on the wire. tshark decides whether those were correct.
SIW_CRC_ERROR = b"\x02\x02"
RDMA_MSG, RDMA_NOMSG, RDMA_MSGP, RDMA_DONE, RDMA_ERROR = range(5)


class Words:
    """XDR words, in order."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def word(self):
        (value,) = struct.unpack_from(">I", self.data, self.at)
        self.at += 4
        return value

    def segment(self):
        handle, length = self.word(), self.word()
        return handle, length, self.word() << 32 | self.word()

    def segments(self):
        return [self.segment() for _ in range(self.word())]

    def rest(self):
        return self.data[self.at:]


class Header:
    """Parses the transport header and the message after it (RFC 8166 §4.1, RFC 5666 §4)."""

    def __init__(self, message):
        words, self.size = Words(message), len(message)
        self.xid, self.version, self.credits, self.kind = (words.word() for _ in range(4))
        self.reads, self.writes, self.reply, self.align, self.threshold = [], [], None, None, None
        if self.kind == RDMA_MSGP:  # RFC 5666 §4.2
            self.align, self.threshold = words.word(), words.word()
        if self.kind in (RDMA_MSG, RDMA_NOMSG, RDMA_MSGP):
            while words.word():
                self.reads.append((words.word(), words.segment()))
            while words.word():
                self.writes.append(words.segments())
            if words.word():
                self.reply = words.segments()
        self.body = words.rest()

    def length_of(self, chunk):
        return sum(length for _, length, _ in chunk)


class Region:
    """A segment that a requester has offered, and the bytes that were seen moving from or into it."""

    def __init__(self, segment):
        self.handle, self.length, self.offset = segment
        self.bytes, self.moved, self.missing = bytearray(self.length), bytearray(self.length), self.length

    def place(self, offset, payload):
        at = offset - self.offset
        if at < 0 or at + len(payload) > self.length:
            return False
        self.bytes[at:at + len(payload)] = payload
        self.missing -= self.moved.count(0, at, at + len(payload))
        self.moved[at:at + len(payload)] = b"\x01" * len(payload)
        return True

    def is_moved(self, length):
        return self.moved.count(1, 0, length) == length


class Connection:
    """One connection. The side that connected makes the calls. `unpad` is a function of a header of RDMA_MSGP that returns its message
    without pads: where they are depends on the program."""

    def __init__(self, tell, distrust, client, server, unpad=None):
        self.tell, self.distrust, self.client, self.server, self.unpad = tell, distrust, client, server, unpad
        self.sends, self.regions, self.read_requests = {}, {}, {}
        self.offered, self.waiting = {}, {}  # by XID: the call's header and regions; the calls whose chunks are not yet read

    def frame(self, stamp, ports, frame):
        """Returns the messages that this frame completes: (ports, RPC message)."""
        if frame[:4] == b"MPA ":
            return []
        length, ddp, rdmap = struct.unpack_from(">HBB", frame)
        opcode, ulpdu = rdmap & 15, frame[2:2 + length]
        if ddp & TAGGED:
            stag, offset = struct.unpack_from(">IQ", ulpdu, 2)
            return self._tagged(opcode, stag, offset, ulpdu[14:], ddp & LAST)
        queue, msn, message_offset = struct.unpack_from(">III", ulpdu, 6)
        if opcode == READ_REQUEST:
            sink, sink_offset, size, source, source_offset = struct.unpack_from(">IQIIQ", ulpdu, 18)
            self.read_requests.setdefault(sink, []).append([sink_offset, size, source, source_offset])
        elif opcode == TERMINATE and ulpdu[18:20] == SIW_CRC_ERROR:
            self.distrust()
        elif opcode == TERMINATE:
            self.tell(f"a Terminate from port {ports[0]}")
        elif opcode in SENDS:
            message = self.sends.setdefault((ports, queue, msn), bytearray())
            if message_offset != len(message):
                self.tell(f"Send {msn}: a segment at {message_offset} where {len(message)} was next")
            message += ulpdu[18:]
            if ddp & LAST:
                return self._message(ports, bytes(self.sends.pop((ports, queue, msn))))
        return []

    def _tagged(self, opcode, stag, offset, payload, last):
        if opcode == READ_RESPONSE:
            request = next((each for each in self.read_requests.get(stag, []) if each[0] <= offset and
                            offset + len(payload) <= each[0] + each[1]), None)
            if request is None:
                self.tell(f"a Read Response for STag {stag:#x} without a Read Request")
                return []
            if last:
                self.read_requests[stag].remove(request)
            stag, offset = request[2], offset - request[0] + request[3]
        region = self.regions.get(stag)
        if payload and (region is None or not region.place(offset, payload)):
            self.tell(f"{len(payload)} bytes at {offset:#x} of STag {stag:#x}: no chunk offers that")
        return self._complete_calls() if opcode == READ_RESPONSE and region and not region.missing else []

    def _offer(self, segment):
        region = self.regions[segment[0]] = Region(segment)
        return region

    def _message(self, ports, message):
        if not message:
            return []  # it only returns a credit
        header = Header(message)
        if header.kind == RDMA_MSGP:
            if not self.unpad or ports[0] != self.client:
                self.tell(f"XID {header.xid:#x}: RDMA_MSGP, which nobody expects")
                return []
            header.body = self.unpad(header)
        if header.kind == RDMA_ERROR:
            self.tell(f"XID {header.xid:#x}: RDMA_ERROR")
            return []
        if header.kind == RDMA_MSG and len(header.body) >= 8:
            is_call = struct.unpack_from(">I", header.body, 4)[0] == 0
            if is_call != (ports[0] == self.client):
                return self._backward(ports, header)
        if ports[0] == self.client:
            return self._call(header)
        return self._reply(header)

    def _backward(self, ports, header):
        """RFC 8167: the server calls and the client answers. Without chunks there is nothing to reassemble."""
        if header.reads or header.writes or header.reply:
            self.tell(f"XID {header.xid:#x}: chunks in the backward direction")
        return [(ports, header.body)]

    def _call(self, header):
        reads = [(position, self._offer(segment)) for position, segment in header.reads]
        writes = [[self._offer(segment) for segment in chunk] for chunk in header.writes]
        reply = [self._offer(segment) for segment in header.reply or []]
        self.offered[header.xid] = (header, writes, reply)
        if not reads:
            return [((self.client, self.server), header.body)]
        self.waiting[header.xid] = (header, reads)
        return self._complete_calls()

    def _complete_calls(self):
        complete = []
        for xid, (header, reads) in list(self.waiting.items()):
            if not any(region.missing for _, region in reads):
                del self.waiting[xid]
                complete.append(((self.client, self.server), self._restore_call(header, reads)))
        return complete

    def _restore_call(self, header, reads):
        """RFC 8166 §3.4.5: puts each Read chunk at its position, with the padding that it may leave out."""
        inline, message = header.body, bytearray()
        if header.kind == RDMA_NOMSG:
            inline = b"".join(bytes(region.bytes) for position, region in reads if position == 0)
            reads = [each for each in reads if each[0] != 0]
        for position in sorted({position for position, _ in reads}):
            take = position - len(message)
            if take < 0 or take > len(inline):
                self.tell(f"XID {header.xid:#x}: no place for a Read chunk at position {position}")
            message += inline[:take]
            inline = inline[take:]
            chunk = b"".join(bytes(region.bytes) for each, region in reads if each == position)
            message += chunk + bytes(-len(chunk) % 4)
        return bytes(message) + inline

    def _reply(self, header):
        call, writes, reply = self.offered.pop(header.xid, (None, [], []))
        if call is None:
            self.tell(f"XID {header.xid:#x}: a reply to no call")
            return []
        if self.waiting.pop(header.xid, None):
            self.tell(f"XID {header.xid:#x}: answered before its Read chunks were read")
        if header.reads:
            self.tell(f"XID {header.xid:#x}: a reply with a Read list")
        self._check_returned(header, "Write list", header.writes, writes)
        if header.kind == RDMA_NOMSG:
            self._check_returned(header, "Reply chunk", [header.reply or []], [reply])
            return [((self.server, self.client), self._returned(header.xid, header.reply or [], reply))]
        if header.reply and header.length_of(header.reply):
            self.tell(f"XID {header.xid:#x}: RDMA_MSG with a Reply chunk that was used")
        return [((self.server, self.client), self._restore_reply(header, writes))]

    def _restore_reply(self, header, writes):
        """The single payload of a reply (READ, READLINK) is its last item, also in the COMPOUNDs of the clients under
        test: appends it."""
        message = bytearray(header.body)
        for chunk, regions in zip(header.writes, writes):
            payload = self._returned(header.xid, chunk, regions)
            if payload:
                (said,) = struct.unpack_from(">I", message, len(message) - 4)
                if said != len(payload):
                    self.tell(f"XID {header.xid:#x}: a Write chunk of {len(payload)} bytes for a payload of {said}")
                message += payload + bytes(-len(payload) % 4)
        return bytes(message)

    def _returned(self, xid, chunk, regions):
        """Returns the bytes of a chunk by the lengths in the reply; all of them must have been written before."""
        for (_, length, _), region in zip(chunk, regions):
            if not region.is_moved(length):
                self.tell(f"XID {xid:#x}: {length} bytes said to be written to STag {region.handle:#x} were not")
        return b"".join(bytes(region.bytes[:length]) for (_, length, _), region in zip(chunk, regions))

    def _check_returned(self, header, what, chunks, offered):
        """RFC 8166 §4.3: the reply returns the chunks of the call, with lengths no larger, and used in order."""
        if len(chunks) != len(offered):
            self.tell(f"XID {header.xid:#x}: {what} of {len(chunks)} chunks, offered {len(offered)}")
        for chunk, regions in zip(chunks, offered):
            same = [(handle, offset) for handle, _, offset in chunk] == [(each.handle, each.offset) for each in regions]
            if not same or any(length > region.length for (_, length, _), region in zip(chunk, regions)):
                self.tell(f"XID {header.xid:#x}: {what} is not the one that was offered")


class MessagesView:
    """A listener of Frames: writes each complete RPC message as a record on a TCP connection to `port`."""

    def __init__(self, writer, rdma_port, port, unpad=None):
        self.writer, self.rdma_port, self.port, self.unpad = writer, rdma_port, port, unpad
        self.connections, self.problems, self.count = {}, [], 0  # a connection by its client's port, the last one of that port
        self.distrusted = False  # siw ended one, because it took a frame for a broken one

    def _distrust(self):
        self.distrusted = True

    def closed(self, stamp, ports, flags):
        pass

    def opened(self, stamp, ports, flags):
        if flags == SYN:
            client, server = ports
            self.connections[client] = Connection(lambda what: self.problems.append(f"port {client}: {what}"),
                                                  self._distrust, client, server, self.unpad)
            self.writer.open_connection(stamp, client, self.port)

    def frame(self, stamp, ports, frame):
        client = ports[1] if ports[0] == self.rdma_port else ports[0]
        for (source, _), message in self.connections[client].frame(stamp, ports, frame):
            self.count += 1
            record = struct.pack(">I", 0x80000000 | len(message)) + message
            self.writer.say(stamp, (client, self.port) if source == client else (self.port, client), record)


class StepUpView:
    """A listener of Frames for a port whose TCP connections may enter RDMA mode (RFC 5044 §7.1.3): RPC records, then MPA frames. Writes
    both as records of one connection. `length_of` is the function of their lengths for Frames."""

    def __init__(self, writer, port, unpad=None):
        self.messages, self.writer, self.stepped = MessagesView(writer, port, port, unpad), writer, set()

    def length_of(self, stream, ports):
        if stream[:4] == b"MPA ":
            self.stepped.add(ports)
        return (mpa_frame_length if ports in self.stepped else rpc_fragment_length)(stream)

    def opened(self, stamp, ports, flags):
        self.stepped.discard(ports)
        self.messages.opened(stamp, ports, flags)

    def closed(self, stamp, ports, flags):
        pass

    def frame(self, stamp, ports, frame):
        if ports in self.stepped:
            self.messages.frame(stamp, ports, frame)
        else:
            self.writer.say(stamp, ports, frame)
