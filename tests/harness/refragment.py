"""Rewrites a capture so that every MPA frame of the RDMA port stands in a TCP segment of its own.

tshark 4.0 keeps what it knows of an RDMA segment per captured packet: where one packet carries several frames (and the
kernel joins them as it likes) it loses all but one of their payloads and then calls the NFS message malformed. The bytes
of the stream and their order stay; only the TCP boundaries move. A stream that does not divide into frames is refused
here, which is itself a check of the framing.
"""

import struct

ETHERNET, IP, TCP = 14, 20, 20
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
SEGMENT = 60000
LOOPBACK = bytes([127, 0, 0, 1])


class BadFraming(Exception):
    """The stream of the RDMA port is not a sequence of MPA frames."""


def packets(path):
    """(time, frame) of each packet of a classic pcap file."""
    with open(path, "rb") as file:
        data = file.read()
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<"}[data[:4]]
    at = 24
    while at < len(data):
        seconds, fraction, length, original = struct.unpack_from(order + "IIII", data, at)
        if length != original:
            raise BadFraming(f"packet cut short in the capture ({length} of {original} bytes)")
        yield (seconds, fraction), data[at + 16:at + 16 + length]
        at += 16 + length


def header_of(path):
    with open(path, "rb") as file:
        return file.read(24)


def mpa_frame_length(stream):
    """Length of the MPA frame at the head of the stream, 0 where its header is not complete."""
    if stream[:4] == b"MPA ":
        return 20 + struct.unpack_from(">H", stream, 18)[0] if len(stream) >= 20 else 0
    if len(stream) < 2:
        return 0
    body = 2 + struct.unpack_from(">H", stream)[0]
    return body + -body % 4 + 4


class Direction:
    """One half of a connection: what has arrived in order, and the sequence number of what is written out."""

    def __init__(self, ports, sequence):
        self.ports, self.expected, self.written = ports, sequence + 1, sequence
        self.stream, self.early = bytearray(), {}

    def add(self, sequence, payload):
        self.early[sequence] = max(payload, self.early.get(sequence, b""), key=len)
        while True:
            for start in list(self.early):
                behind = (self.expected - start) & 0xFFFFFFFF
                if behind < 0x80000000:
                    fresh = self.early.pop(start)[behind:]
                    self.stream += fresh
                    self.expected = (self.expected + len(fresh)) & 0xFFFFFFFF
                    break
            else:
                return

    def take_frames(self):
        while (length := mpa_frame_length(self.stream)) and len(self.stream) >= length:
            yield bytes(self.stream[:length])
            del self.stream[:length]


class Refragmenter:
    def __init__(self, port):
        self.port, self.directions, self.frames = port, {}, 0

    def _segment(self, direction, flags, payload=b""):
        source, target = direction.ports
        other = self.directions.get((target, source))
        tcp = struct.pack(">HHIIBBHHH", source, target, direction.written, other.written if other else 0, 5 << 4, flags,
                          65535, 0, 0)
        direction.written = (direction.written + len(payload) + bool(flags & (SYN | FIN))) & 0xFFFFFFFF
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, IP + TCP + len(payload), 0, 0, 64, 6, 0, LOOPBACK, LOOPBACK)
        return bytes(12) + b"\x08\x00" + ip + tcp + payload

    def handle(self, frame):
        """The packets to write for one that was captured."""
        start = ETHERNET + (frame[ETHERNET] & 15) * 4
        source, target, sequence, _, offset, flags = struct.unpack_from(">HHIIBB", frame, start)
        if self.port not in (source, target):
            return [frame]
        total = struct.unpack_from(">H", frame, ETHERNET + 2)[0]
        payload = frame[start + (offset >> 4) * 4:ETHERNET + total if total else len(frame)]
        ports = (source, target)
        if flags & SYN:
            self._end(ports)
            self.directions[ports] = Direction(ports, sequence)
            return [self._segment(self.directions[ports], flags & (SYN | ACK))]
        direction = self.directions.get(ports)
        if direction is None:
            raise BadFraming(f"connection {source} -> {target} without its beginning")
        written = []
        if payload:
            direction.add(sequence, payload)
        for mpa in direction.take_frames():
            self.frames += 1
            parts = [mpa[at:at + SEGMENT] for at in range(0, len(mpa), SEGMENT)]
            written += [self._segment(direction, ACK | PSH, part) for part in parts]
        if flags & (FIN | RST):
            written.append(self._segment(direction, ACK | (flags & (FIN | RST))))
        return written

    def _end(self, ports):
        """What is left of a direction must be nothing: or the connection broke off in the middle of a frame."""
        direction = self.directions.pop(ports, None)
        self.leftover = getattr(self, "leftover", 0) + (len(direction.stream) if direction else 0)

    def finish(self, may_break_off):
        missing = sum(len(direction.early) for direction in self.directions.values())
        for ports in list(self.directions):
            self._end(ports)
        if missing:
            raise BadFraming(f"the capture lost packets: {missing} stand after a gap")
        if getattr(self, "leftover", 0) and not may_break_off:
            raise BadFraming(f"{self.leftover} bytes at the end of a connection are no whole MPA frame")


def refragment(source, target, port, may_break_off=False):
    """Writes `target`; returns the number of MPA frames."""
    machine = Refragmenter(port)
    with open(target, "wb") as out:
        out.write(header_of(source))
        for stamp, frame in packets(source):
            for packet in machine.handle(frame):
                out.write(struct.pack("<IIII", *stamp, len(packet), len(packet)) + packet)
    machine.finish(may_break_off)
    return machine.frames
