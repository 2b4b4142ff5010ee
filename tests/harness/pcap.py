"""Classic pcap files of loopback TCP: reads packets, follows streams, and writes packets."""

import struct

ETHERNET = 14
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
LARGEST_SEGMENT = 60000
LOOPBACK = bytes([127, 0, 0, 1])
MODULUS = 1 << 32
CLIENT_PORTS = range(32768, 61000)  # the range of Linux's ephemeral ports; no test's server uses them


class BadCapture(Exception):
    """The capture is incomplete, so it proves nothing."""


def packets(path):
    """Yields (time, frame) of each packet."""
    with open(path, "rb") as file:
        data = file.read()
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<"}[data[:4]]
    at = 24
    while at + 16 <= len(data):
        seconds, fraction, length, original = struct.unpack_from(order + "IIII", data, at)
        if length != original:
            raise BadCapture(f"packet cut short in the capture ({length} of {original} bytes)")
        if at + 16 + length > len(data):
            break
        yield (seconds, fraction), data[at + 16:at + 16 + length]
        at += 16 + length
    if at != len(data):
        raise BadCapture("the capture ends in the middle of a packet")


def is_tcp(frame):
    """Whether an Ethernet frame has TCP over IPv4."""
    return frame[12:14] == b"\x08\x00" and frame[ETHERNET + 9] == 6


class Segment:
    """The relevant fields of a TCP segment."""

    def __init__(self, frame):
        start = ETHERNET + (frame[ETHERNET] & 15) * 4
        source, target, self.sequence, _, offset, self.flags = struct.unpack_from(">HHIIBB", frame, start)
        total = struct.unpack_from(">H", frame, ETHERNET + 2)[0]  # zero if the kernel left the segmentation to the device
        self.ports = (source, target)
        self.payload = frame[start + (offset >> 4) * 4:ETHERNET + total if total else len(frame)]


class Stream:
    """One direction of a connection: puts segments in order."""

    def __init__(self, sequence):
        self.first, self.expected, self.early = sequence, (sequence + 1) % MODULUS, {}

    def add(self, segment):
        """Returns the bytes that are in order now."""
        self.early[segment.sequence] = max(segment.payload, self.early.get(segment.sequence, b""), key=len)
        ready = bytearray()
        while True:
            for start in list(self.early):
                behind = (self.expected - start) % MODULUS
                if behind < MODULUS // 2:
                    fresh = self.early.pop(start)[behind:]
                    ready += fresh
                    self.expected = (self.expected + len(fresh)) % MODULUS
                    break
            else:
                return ready


class Writer:
    """Writes a pcap file of connections with new numbers; each `say` gets its own packets.

    Each connection gets its own client port. In a capture a port may be used again, and tshark 4.0 then takes the
    second connection for a part of the first.
    """

    def __init__(self, path, header_from):
        self.out = open(path, "wb")
        with open(header_from, "rb") as file:
            self.out.write(file.read(24))
        self.sequence, self.renamed, self.connections = {}, {}, 0

    def close(self):
        self.out.close()

    def packet(self, stamp, frame):
        self.out.write(struct.pack("<IIII", *stamp, len(frame), len(frame)) + frame)

    def segment(self, stamp, ports, flags, payload=b""):
        if flags & (SYN | ACK) == SYN:
            self._rename(*ports)
        ports = source, target = self.renamed[ports]
        if flags & SYN:
            self.sequence[ports] = 0
        tcp = struct.pack(">HHIIBBHHH", source, target, self.sequence[ports], self.sequence.get((target, source), 0),
                          5 << 4, flags, 65535, 0, 0)
        self.sequence[ports] = (self.sequence[ports] + len(payload) + bool(flags & (SYN | FIN))) % MODULUS
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0, 0, 64, 6, 0, LOOPBACK, LOOPBACK)
        self.packet(stamp, bytes(12) + b"\x08\x00" + ip + tcp + payload)

    def _rename(self, client, server):
        port = CLIENT_PORTS[self.connections % len(CLIENT_PORTS)]
        self.connections += 1
        self.renamed[client, server], self.renamed[server, client] = (port, server), (server, port)

    def open_connection(self, stamp, client, server):
        self.segment(stamp, (client, server), SYN)
        self.segment(stamp, (server, client), SYN | ACK)

    def say(self, stamp, ports, message):
        for at in range(0, len(message), LARGEST_SEGMENT):
            self.segment(stamp, ports, ACK | PSH, message[at:at + LARGEST_SEGMENT])
