"""The MPA frames in a capture of the RDMA port (RFC 5044), whatever TCP segments they came in."""

import struct

from pcap import ACK, FIN, RST, SYN, Segment, Stream, packets


class BadFraming(Exception):
    """The stream of the RDMA port is not a sequence of MPA frames."""


def frame_length(stream):
    """Length of the MPA frame at the head of the stream, 0 where its header is not complete."""
    if stream[:4] == b"MPA ":
        return 20 + struct.unpack_from(">H", stream, 18)[0] if len(stream) >= 20 else 0
    if len(stream) < 2:
        return 0
    body = 2 + struct.unpack_from(">H", stream)[0]
    return body + -body % 4 + 4


class MpaFrames:
    """Hands what it reads to a listener: packet(stamp, frame) of another port, and of the RDMA port opened(stamp, ports,
    flags), frame(stamp, ports, bytes), closed(stamp, ports, flags)."""

    def __init__(self, path, port):
        self.path, self.port = path, port
        self.streams, self.pending, self.count, self.left_over, self.missing = {}, {}, 0, 0, 0

    def read(self, listener):
        for stamp, packet in packets(self.path):
            segment = Segment(packet)
            if self.port in segment.ports:
                self._handle(stamp, segment, listener)
            else:
                listener.packet(stamp, packet)
        for ports in list(self.streams):
            self._forget(ports)

    def _handle(self, stamp, segment, listener):
        ports = segment.ports
        if segment.flags & SYN:
            self._forget(ports)
            self.streams[ports], self.pending[ports] = Stream(segment.sequence), bytearray()
            listener.opened(stamp, ports, segment.flags & (SYN | ACK))
            return
        if ports not in self.streams:
            if segment.flags & RST and not segment.payload:
                return  # nobody listened
            raise BadFraming(f"connection {ports[0]} -> {ports[1]} without its beginning")
        if segment.payload:
            pending = self.pending[ports]
            pending += self.streams[ports].add(segment)
            at = 0
            while (length := frame_length(pending[at:at + 20])) and len(pending) - at >= length:
                self.count += 1
                listener.frame(stamp, ports, bytes(pending[at:at + length]))
                at += length
            del pending[:at]
        if segment.flags & (FIN | RST):
            listener.closed(stamp, ports, ACK | segment.flags & (FIN | RST))

    def _forget(self, ports):
        if ports in self.streams:
            self.missing += len(self.streams.pop(ports).early)
            self.left_over += len(self.pending.pop(ports))

    def problems(self, may_break_off):
        """What is left of a direction must be nothing: or the connection broke off in the middle of a frame."""
        if self.missing:
            yield f"the capture lost packets: {self.missing} stand after a gap"
        if self.left_over and not may_break_off:
            yield f"{self.left_over} bytes at the end of a connection are no whole MPA frame"


class FramesView:
    """Listener: the same capture with every MPA frame in a TCP segment of its own.

    The kernel joins and cuts frames as it likes. tshark 4.0 then takes the beginning of a TCP segment for the beginning of
    a frame, and of several frames in a packet it keeps the payload of one alone.
    """

    def __init__(self, writer):
        self.packet, self.frame, self.writer = writer.packet, writer.say, writer

    def opened(self, stamp, ports, flags):
        self.writer.segment(stamp, ports, flags)

    def closed(self, stamp, ports, flags):
        self.writer.segment(stamp, ports, flags)


class Listeners:
    """Several listeners as one."""

    def __init__(self, *listeners):
        self.listeners = listeners

    def __getattr__(self, name):
        methods = [getattr(listener, name) for listener in self.listeners]

        def call(*arguments):
            for method in methods:
                method(*arguments)
        setattr(self, name, call)
        return call
