"""Finds the frames in a capture: MPA frames (RFC 5044) or fragments of RPC records (RFC 5531 §11), in any TCP segments."""

import struct

from pcap import ACK, FIN, RST, SYN, BadCapture, Segment, Stream, is_tcp, packets


LARGEST_FRAGMENT = 4 << 20  # no test transfers more than 1 MiB at once


class BadFraming(Exception):
    """The stream of a port is not a sequence of its frames."""


def mpa_frame_length(stream, ports=None):
    """Returns the length of the MPA frame at the head of the stream, or 0 if its header is incomplete."""
    if stream[:4] == b"MPA ":
        return 20 + struct.unpack_from(">H", stream, 18)[0] if len(stream) >= 20 else 0
    if len(stream) < 2:
        return 0
    body = 2 + struct.unpack_from(">H", stream)[0]
    return body + -body % 4 + 4


def rpc_fragment_length(stream, ports=None):
    """Returns the length of the RPC record fragment at the head of the stream, or 0 if its header is incomplete."""
    if len(stream) < 4:
        return 0
    length = struct.unpack_from(">I", stream)[0] & 0x7fffffff
    if length > LARGEST_FRAGMENT:
        raise BadFraming(f"a fragment of {length} bytes in an RPC record")
    return 4 + length


class Frames:
    """Passes the frames on some ports to listeners: {port: (function of the head of a stream and its
    ports that returns the length of the frame there, name of a frame, listener)}. A listener has opened(stamp, ports, flags), frame(stamp, ports, bytes) and closed(stamp, ports, flags)."""

    def __init__(self, path, kinds, others=None):
        """`others` gets (stamp, packet) of each packet on no such port, and of all UDP packets. Without it, there must be none."""
        self.path, self.kinds, self.others = path, kinds, others
        self.streams, self.pending, self.left_over, self.missing = {}, {}, {}, 0

    def read(self):
        for stamp, packet in packets(self.path):
            if self.others and not is_tcp(packet):
                self.others(stamp, packet)
                continue
            segment = Segment(packet)
            port = next((port for port in segment.ports if port in self.kinds), None)
            if port is None:
                if self.others:
                    self.others(stamp, packet)
                    continue
                raise BadCapture(f"a packet from port {segment.ports[0]} to {segment.ports[1]}, neither of which is a server's")
            self._handle(stamp, segment, *self.kinds[port])
        for ports in list(self.streams):
            self._forget(ports)

    def _handle(self, stamp, segment, length_of, _, listener):
        ports = segment.ports
        if segment.flags & SYN:
            self._open(stamp, segment, listener)
            return
        if ports not in self.streams:
            if not segment.payload:
                return  # no listener accepted it, or an earlier connection ends
            raise BadFraming(f"connection {ports[0]} -> {ports[1]} without its beginning")
        if segment.payload:
            pending = self.pending[ports]
            pending += self.streams[ports].add(segment)
            at = 0
            while (length := length_of(pending[at:at + 20], ports)) and len(pending) - at >= length:
                listener.frame(stamp, ports, bytes(pending[at:at + length]))
                at += length
            del pending[:at]
        if segment.flags & (FIN | RST):
            listener.closed(stamp, ports, ACK | segment.flags & (FIN | RST))

    def _open(self, stamp, segment, listener):
        """Records a connection, or its second direction. A client's port may be used again, and a SYN may be repeated."""
        ports, flags = segment.ports, segment.flags & (SYN | ACK)
        if ports in self.streams and self.streams[ports].first == segment.sequence:
            return
        if flags == SYN:
            self._forget(ports[::-1])
        elif ports[::-1] not in self.streams:
            raise BadFraming(f"connection {ports[1]} -> {ports[0]} without its beginning")
        self._forget(ports)
        self.streams[ports], self.pending[ports] = Stream(segment.sequence), bytearray()
        listener.opened(stamp, ports, flags)

    def _forget(self, ports):
        if ports in self.streams:
            self.missing += len(self.streams.pop(ports).early)
            kind = next(kind for port, (_, kind, _) in self.kinds.items() if port in ports)
            self.left_over[kind] = self.left_over.get(kind, 0) + len(self.pending.pop(ports))

    def problems(self, may_break_off):
        """Checks that nothing is left of a direction; otherwise the connection ended in the middle of a frame."""
        if self.missing:
            yield f"the capture lost packets: {self.missing} stand after a gap"
        for kind, count in self.left_over.items():
            if count and not may_break_off:
                yield f"{count} bytes at the end of a connection are no whole {kind}"


class FramesView:
    """A listener that writes the same connections, with each frame in its own TCP segments.

    The kernel joins and splits frames. tshark 4.0 then takes the beginning of a TCP segment for the beginning of an MPA
    frame, and of several frames in a packet it keeps the payload of only one. TCP also retransmits, and reorders, when
    a receiver is slow: tshark then loses RPC records.
    """

    def __init__(self, writer):
        self.frame, self.writer = writer.say, writer

    def opened(self, stamp, ports, flags):
        self.writer.segment(stamp, ports, flags)

    def closed(self, stamp, ports, flags):
        self.writer.segment(stamp, ports, flags)


class Listeners:
    """Combines several listeners."""

    def __init__(self, *listeners):
        self.listeners = listeners

    def __getattr__(self, name):
        methods = [getattr(listener, name) for listener in self.listeners]

        def call(*arguments):
            for method in methods:
                method(*arguments)
        setattr(self, name, call)
        return call
