"""An iWARP peer that can send anything: MPA (RFC 5044, 6581), DDP (RFC 5041) and RDMAP (RFC 5040) over a TCP socket.

It parses received messages strictly: Penstock must send correct messages, whatever this peer sends.
"""

import socket
import struct
import time

from frames import mpa_frame_length
from patience import SECONDS
from rdma_messages import LAST, READ_REQUEST, READ_RESPONSE, SENDS, TAGGED, TERMINATE, WRITE

SEND, SEND_INVALIDATE = 3, 4
DDP_VERSION, RDMAP_VERSION = 1, 0x40
REQUEST_KEY, REPLY_KEY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
MARKERS, CRC, REJECTED, ENHANCED = 0x80, 0x40, 0x20, 0x10


def crc_table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


CRC_TABLE = tuple(crc_table())


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return struct.pack("<I", crc ^ 0xFFFFFFFF)


def mpa_frame(key=REQUEST_KEY, flags=CRC, revision=1, private_data=b"", length=None):
    return key + struct.pack(">BBH", flags, revision, len(private_data) if length is None else length) + private_data


def fpdu(ulpdu, length=None, pad=None, crc=None):
    """Makes an FPDU. Each part may be replaced by another value than the correct one."""
    covered = struct.pack(">H", len(ulpdu) if length is None else length) + ulpdu
    covered += bytes(-len(covered) % 4) if pad is None else pad
    return covered + (crc32c(covered) if crc is None else crc)


def control(tagged, opcode, last=True, ddp_version=DDP_VERSION, rdmap_version=RDMAP_VERSION, reserved=0):
    first = (TAGGED if tagged else 0) | (LAST if last else 0) | ddp_version | reserved << 2
    return struct.pack(">BB", first, rdmap_version | opcode)


def untagged(opcode=SEND, queue=0, msn=1, offset=0, payload=b"", invalidate=0, **bits):
    return control(False, opcode, **bits) + struct.pack(">IIII", invalidate, queue, msn, offset) + payload


def tagged(opcode=WRITE, stag=0, offset=0, payload=b"", **bits):
    return control(True, opcode, **bits) + struct.pack(">IQ", stag, offset) + payload


def read_request(sink=1, sink_offset=0, size=0, source=0, source_offset=0):
    return struct.pack(">IQIIQ", sink, sink_offset, size, source, source_offset)


class Ended(Exception):
    """The connection has ended: `terminate` is (layer, type, code) if a Terminate came; `how` is "closed" or "reset"."""

    def __init__(self, how, terminate=None):
        super().__init__(f"{how}, Terminate {terminate}" if terminate else how)
        self.how, self.terminate = how, terminate


class Silence(Exception):
    """Nothing arrived in time."""


class Endpoint:
    """One connection, as either side of it. `memory` is the memory that the peer may access: {STag: bytearray}, from
    offset 0 on."""

    def __init__(self, sock):
        self.socket, self.pending = sock, bytearray()
        self.ports = sock.getsockname()[1], sock.getpeername()[1]
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent_msns, self.memory, self.terminate = [0, 0, 0], {}, None
        self.answer_reads, self.reads_seen = True, []
        self.partial = bytearray()

    def close(self):
        self.socket.close()

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    # ---- sending ----

    def raw(self, data):
        try:
            self.socket.sendall(data)
        except (ConnectionResetError, BrokenPipeError):
            pass  # the messages before give the reason

    def send(self, message, opcode=SEND, invalidate=0):
        """Sends a correct message."""
        self.raw(fpdu(untagged(opcode, 0, self.next_msn(0), 0, message, invalidate)))

    def next_msn(self, queue):
        self.sent_msns[queue] += 1
        return self.sent_msns[queue]

    def write(self, stag, offset, payload):
        self.raw(fpdu(tagged(WRITE, stag, offset, payload)))

    def read(self, source, source_offset, size, sink=0x5117):
        self.raw(fpdu(untagged(READ_REQUEST, 1, self.next_msn(1), 0, read_request(sink, 0, size, source, source_offset))))

    # ---- receiving ----

    def fill(self, size, deadline):
        """Waits until `size` octets are pending."""
        while len(self.pending) < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Silence()
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(1 << 18)
            except socket.timeout:
                raise Silence() from None
            except ConnectionResetError:
                raise Ended("reset", self.terminate) from None
            if not data:
                raise Ended("closed", self.terminate)
            self.pending += data

    def take(self, size):
        taken = bytes(self.pending[:size])
        del self.pending[:size]
        return taken

    def mpa(self, seconds=SECONDS):
        """Returns the peer's MPA frame: (key, flags, revision, private data)."""
        deadline = time.monotonic() + seconds
        self.fill(20, deadline)
        self.fill(size := mpa_frame_length(self.pending[:20]), deadline)
        frame = self.take(size)
        return frame[:16], frame[16], frame[17], frame[20:]

    def frame(self, seconds=SECONDS):
        """Returns the next ULPDU."""
        deadline = time.monotonic() + seconds
        self.fill(2, deadline)
        self.fill(size := mpa_frame_length(self.pending[:20]), deadline)
        data = self.take(size)
        assert crc32c(data[:-4]) == data[-4:], "an FPDU with a wrong check value"
        return data[2:2 + struct.unpack_from(">H", data)[0]]

    def receive(self, seconds=SECONDS):
        """Returns the next message to us. Meanwhile executes the peer's Writes and Reads."""
        while True:
            message = self.take_segment(seconds)
            if message is not None:
                return message

    def take_segment(self, seconds=SECONDS):
        """Executes the next segment; returns the message that it completes, if any."""
        ulpdu = self.frame(seconds)
        opcode = ulpdu[1] & 15
        if ulpdu[0] & TAGGED:
            self.place(opcode, *struct.unpack_from(">IQ", ulpdu, 2), ulpdu[14:])
        elif opcode in SENDS:
            assert struct.unpack_from(">I", ulpdu, 14)[0] == len(self.partial), "a Send not in order"
            self.partial += ulpdu[18:]
            if ulpdu[0] & LAST:
                message, self.partial = bytes(self.partial), bytearray()
                return message
        elif opcode == READ_REQUEST:
            self.reads_seen.append(struct.unpack_from(">IQIIQ", ulpdu, 18))
            if self.answer_reads:
                self.answer_read(*self.reads_seen[-1])
        else:
            assert opcode == TERMINATE, f"opcode {opcode} in an untagged segment"
            kind, code = ulpdu[18:20]
            self.terminate = (kind >> 4, kind & 15, code)
        return None

    def place(self, opcode, stag, offset, payload):
        assert opcode in (WRITE, READ_RESPONSE), f"opcode {opcode} in a tagged segment"
        region = self.memory.get(stag)
        if payload:
            assert region is not None and offset + len(payload) <= len(region), \
                f"{len(payload)} octets to {stag:#x}+{offset:#x}, which was not offered"
            region[offset:offset + len(payload)] = payload

    def answer_read(self, sink, sink_offset, size, source, source_offset):
        region = self.memory.get(source)
        assert region is not None and source_offset + size <= len(region), f"a Read of {source:#x}, which was not offered"
        step = 32 << 10
        for at in range(0, max(size, 1), step):
            part = bytes(region[source_offset + at:source_offset + min(at + step, size)])
            self.raw(fpdu(tagged(READ_RESPONSE, sink, sink_offset + at, part, last=at + step >= size)))

    def end_of_stream(self, seconds=SECONDS):
        """Waits for the end of the connection after any messages; works for streams other than iWARP, too."""
        deadline = time.monotonic() + seconds
        try:
            while True:
                self.pending.clear()
                self.fill(1, deadline)
        except Ended:
            pass

    def end(self, seconds=SECONDS):
        """Requires that the connection ends, and returns how. Ignores messages before the end."""
        try:
            while True:
                self.receive(seconds)
        except Ended as ended:
            return ended


def private_data(send=4096, receive=4096, remote_invalidation=False):
    """Returns the private data of RPC-over-RDMA (RFC 8797 §4)."""
    return struct.pack(">IBBBB", 0xF6AB0E18, 1, remote_invalidation, send // 1024 - 1, receive // 1024 - 1)


def dial(port, receive_buffer=None, source=None):
    """Opens a TCP connection to the server, from the address `source` if given. With a small receive buffer, few
    replies suffice to fill it."""
    sock = socket.socket()
    if source:
        sock.bind((source, 0))
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.settimeout(SECONDS)
    sock.connect(("127.0.0.1", port))
    return Endpoint(sock)


def connect(port, request=None, receive_buffer=None, source=None):
    """Returns a connection that is set up. See dial()."""
    peer = dial(port, receive_buffer, source)
    peer.raw(mpa_frame(private_data=private_data()) if request is None else request)
    key, flags, _, peer.private_data = peer.mpa()
    assert key == REPLY_KEY and not flags & REJECTED, "the connection was refused"
    return peer
