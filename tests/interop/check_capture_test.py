#!/usr/bin/python3
"""Tests the capture checker with hand-made captures: it accepts a valid conversation and finds each error."""

import os
import shutil
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cases import Skip, main  # noqa: E402
from check_capture import check  # noqa: E402

PORTS = {"tcp": 12049, "rdma": 12050, "mount": 12048}
CLIENT, ACK, SYN, RST, PSH = 40000, 16, 2, 4, 8
XID = 0x5EED0001


def words(*values):
    return struct.pack(f">{len(values)}I", *values)


NULL_CALL = words(XID, 0, 2, 100003, 3, 0, 0, 0, 0, 0)
NULL_REPLY = words(XID, 1, 0, 0, 0, 0)


def mpa_setup(reply):
    """Revision 2, no markers, no CRC, four bytes of enhanced set-up data (RFC 6581 §4)."""
    return (b"MPA ID Rep Frame" if reply else b"MPA ID Req Frame") + struct.pack(">BBH", 0x10, 2, 4) + words(0x00800000)


def send_frame(message, msn=1):
    """One FPDU: an untagged, last DDP segment of an RDMAP Send on queue 0 (RFC 5041 §4.2, RFC 5040 §4)."""
    ulpdu = bytes([0x41, 0x43]) + words(0, 0, msn, 0) + message
    frame = struct.pack(">H", len(ulpdu)) + ulpdu
    return frame + bytes(-len(frame) % 4) + bytes(4)


def rdma_msg(rpc, xid=XID):
    return words(xid, 1, 32, 0, 0, 0, 0) + rpc


def record(rpc):
    return words(0x80000000 | len(rpc)) + rpc


class Conversation:
    """Writes a pcap file of one TCP connection: the octets of each side, in turn."""

    def __init__(self, port, client=CLIENT, sequence=1000):
        self.ports, self.next, self.frames = (client, port), {False: sequence, True: sequence + 8000}, []
        self._add(False, SYN, b"")
        self._add(True, SYN | ACK, b"")

    def _add(self, from_server, flags, payload):
        source, target = reversed(self.ports) if from_server else self.ports
        tcp = struct.pack(">HHIIBBHHH", source, target, self.next[from_server], self.next[not from_server], 5 << 4, flags,
                          65535, 0, 0)
        self.next[from_server] += len(payload) + bool(flags & SYN)
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0, 0, 64, 6, 0, b"\x7f\0\0\1", b"\x7f\0\0\1")
        self.frames.append(bytes(12) + b"\x08\x00" + ip + tcp + payload)

    def client(self, payload):
        self._add(False, ACK | PSH, payload)
        return self

    def server(self, payload):
        self._add(True, ACK | PSH, payload)
        return self


class Datagrams:
    """UDP between the server and the status monitor of a client."""

    def __init__(self, *messages):
        self.frames = []
        for from_server, message in messages:
            udp = struct.pack(">HHHH", *((800, 701) if from_server else (701, 800)), 8 + len(message), 0) + message
            ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, b"\x7f\0\0\1", b"\x7f\0\0\1")
            self.frames.append(bytes(12) + b"\x08\x00" + ip + udp)


def problems_of(scratch, *conversations, wanted=(), cut=0, restarted=False, others=False):
    """Returns the findings in a capture of the connections, one after the other, without the last `cut` octets."""
    if not shutil.which("tshark"):
        raise Skip("tshark is not installed")
    path = f"{scratch}/made.pcap"
    frames = [frame for conversation in conversations for frame in conversation.frames]
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for at, frame in enumerate(frames):
            out.write(struct.pack("<IIII", 1, at, len(frame), len(frame)) + frame)
    os.truncate(path, os.path.getsize(path) - cut)
    problems, summary = check(path, {**PORTS, "others": others}, wanted, restarted)
    print(summary, *problems, sep="\n  ")
    return problems


def set_up(client=CLIENT, sequence=1000):
    return Conversation(PORTS["rdma"], client, sequence).client(mpa_setup(False)).server(mpa_setup(True))


def assert_found(problems, *parts):
    for part in parts:
        assert any(part in problem for problem in problems), f"{part!r} not found in {problems}"


def good(scratch):
    """Every layer over both transports; also with two MPA frames in one TCP segment."""
    second = XID + 1
    calls = send_frame(rdma_msg(NULL_CALL)) + send_frame(rdma_msg(words(second) + NULL_CALL[4:], second), 2)
    rdma = set_up().client(calls).server(send_frame(rdma_msg(NULL_REPLY)))
    rdma.server(send_frame(rdma_msg(words(second) + NULL_REPLY[4:], second), 2))
    tcp = Conversation(PORTS["tcp"]).client(record(NULL_CALL)).server(record(NULL_REPLY))
    assert problems_of(scratch, rdma, tcp, wanted=("mpa", "rdma-nfs", "tcp-nfs")) == []


def nothing_to_see(scratch):
    problems = problems_of(scratch, Conversation(PORTS["rdma"]), wanted=("mpa", "rdma-nfs"))
    assert_found(problems, "no RPC reply", "no mpa", "no rdma-nfs")


def reply_without_call(scratch):
    stray = words(0xBAD) + NULL_REPLY[4:]
    rdma = set_up().client(send_frame(rdma_msg(NULL_CALL))).server(send_frame(rdma_msg(stray, 0xBAD)))
    assert_found(problems_of(scratch, rdma), "a call without a reply", "a reply to no call")
    tcp = Conversation(PORTS["tcp"]).client(record(NULL_CALL)).server(record(stray))
    assert_found(problems_of(scratch, tcp), "a call without a reply")


def cut_short(scratch):
    """A LOOKUP whose name is longer than the message."""
    lookup = NULL_CALL[:20] + words(3, 0, 0, 0, 0) + words(4, 0x01020304, 200) + b"name"
    rdma = set_up().client(send_frame(rdma_msg(lookup))).server(send_frame(rdma_msg(NULL_REPLY)))
    assert_found(problems_of(scratch, rdma), "Malformed")
    tcp = Conversation(PORTS["tcp"]).client(record(lookup)).server(record(NULL_REPLY))
    assert_found(problems_of(scratch, tcp), "Malformed")


def refused_connection(scratch):
    """An unanswered connection attempt, as during a restart of the server, is no error of a later connection."""
    refused = Conversation(PORTS["rdma"])
    del refused.frames[1:]
    refused._add(True, ACK | RST, b"")
    good = set_up().client(send_frame(rdma_msg(NULL_CALL))).server(send_frame(rdma_msg(NULL_REPLY)))
    assert problems_of(scratch, refused, good) == []
    assert problems_of(scratch, good, refused) == []  # from a port that an earlier connection had


def sent_again(scratch):
    """Duplicate SYNs belong to one connection."""
    tcp = Conversation(PORTS["tcp"])
    tcp.frames += tcp.frames
    rdma = Conversation(PORTS["rdma"])
    rdma.frames += rdma.frames
    rdma.client(mpa_setup(False)).server(mpa_setup(True))
    assert problems_of(scratch, rdma.client(send_frame(rdma_msg(NULL_CALL))).server(send_frame(rdma_msg(NULL_REPLY))),
                       tcp.client(record(NULL_CALL)).server(record(NULL_REPLY))) == []


def port_used_again(scratch):
    """Two connections from the same client port, one after the other. The second one uses the same XID again."""
    def first_and(second_reply):
        made = []
        for port, start, framed in ((PORTS["rdma"], set_up, lambda rpc: send_frame(rdma_msg(rpc))),
                                    (PORTS["tcp"], lambda **more: Conversation(PORTS["tcp"], **more), record)):
            made.append(start().client(framed(NULL_CALL)).server(framed(NULL_REPLY)))
            made.append(start(sequence=500000).client(framed(NULL_CALL)))
            if second_reply:
                made[-1].server(framed(NULL_REPLY))
        return made

    assert problems_of(scratch, *first_and(True), wanted=("mpa", "rdma-nfs", "tcp-nfs")) == []
    assert len(problems_of(scratch, *first_and(False))) == 2
    assert_found(problems_of(scratch, *first_and(False)), "records, packet", "messages, packet")


def chunks(scratch):
    """The server reads the payload of a WRITE, and writes the payload of a READ; neither is a whole number of words."""
    handle, payload, stag = words(4, 0x01020304), b"hello", 0x5EED00
    write = words(XID, 0, 2, 100003, 3, 7, 0, 0, 0, 0) + handle + words(0, 0, 5, 2, 5)
    wrote = words(XID, 1, 0, 0, 0, 0) + words(0, 0, 0, 5, 2, 1, 2)
    read = words(XID + 1, 0, 2, 100003, 3, 6, 0, 0, 0, 0) + handle + words(0, 0, 8)
    was_read = words(XID + 1, 1, 0, 0, 0, 0) + words(0, 0, 5, 1, 5)

    def with_lists(rpc, xid, *lists):
        return words(xid, 1, 32, 0, *lists) + rpc

    def tagged(opcode, stag, payload):
        ulpdu = bytes([0xC1, 0x40 | opcode]) + words(stag, 0, 0) + payload
        frame = struct.pack(">H", len(ulpdu)) + ulpdu
        return frame + bytes(-len(frame) % 4) + bytes(4)

    def conversation(length_written):
        ulpdu = bytes([0x41, 0x41]) + words(0, 1, 1, 0) + words(0x99, 0, 0, 5, stag, 0, 0)
        request = struct.pack(">H", len(ulpdu)) + ulpdu
        made = set_up().client(send_frame(with_lists(write, XID, 1, len(write), stag, 5, 0, 0, 0, 0, 0)))
        made.server(request + bytes(-len(request) % 4) + bytes(4)).client(tagged(2, 0x99, payload))
        made.server(send_frame(with_lists(wrote, XID, 0, 0, 0)))
        made.client(send_frame(with_lists(read, XID + 1, 0, 1, 1, stag + 1, 8, 0, 0, 0, 0), 2))
        made.server(tagged(0, stag + 1, payload[:length_written]))
        return made.server(send_frame(with_lists(was_read, XID + 1, 0, 1, 1, stag + 1, 5, 0, 0, 0, 0), 2))

    assert problems_of(scratch, conversation(5), wanted=("rdma-read", "rdma-write", "rdma-nfs")) == []
    assert_found(problems_of(scratch, conversation(4)), "said to be written")


def broken_frame(scratch):
    """A length that exceeds the end of the connection."""
    frame = send_frame(rdma_msg(NULL_REPLY))
    rdma = set_up().client(send_frame(rdma_msg(NULL_CALL))).server(b"\x40" + frame[1:])
    assert_found(problems_of(scratch, rdma), "no whole MPA frame")


def distrusted(scratch):
    """A Terminate is an error, unless siw reports a wrong CRC that tshark finds correct."""
    def terminated(control):
        ulpdu = bytes([0x41, 0x47]) + words(0, 2, 1, 0) + control + bytes(2)
        frame = struct.pack(">H", len(ulpdu)) + ulpdu
        return set_up().client(send_frame(rdma_msg(NULL_CALL))).server(frame + bytes(-len(frame) % 4) + bytes(4))

    call, reply = (words(XID + 1) + message[4:] for message in (NULL_CALL, NULL_REPLY))
    later = set_up(CLIENT + 1).client(send_frame(rdma_msg(call, XID + 1))).server(send_frame(rdma_msg(reply, XID + 1)))
    assert problems_of(scratch, terminated(b"\x02\x02"), later) == []
    assert_found(problems_of(scratch, terminated(b"\x01\x00"), later), "a Terminate from port", "a call without a reply")


def lost_packet(scratch):
    rdma = set_up().client(send_frame(rdma_msg(NULL_CALL)))
    rdma.next[True] += 100
    assert_found(problems_of(scratch, rdma.server(send_frame(rdma_msg(NULL_REPLY)))), "lost packets")
    tcp = Conversation(PORTS["tcp"]).client(record(NULL_CALL))
    tcp.next[True] += 100
    assert_found(problems_of(scratch, tcp.server(record(NULL_REPLY))), "lost packets", "a call without a reply")


def out_of_order(scratch):
    """A reply over TCP in three packets: the last one first, and the first one repeated."""
    tcp, reply = Conversation(PORTS["tcp"]).client(record(NULL_CALL)), record(NULL_REPLY)
    for part in (reply[:6], reply[6:20], reply[20:]):
        tcp.server(part)
    tcp.frames[-3:] = [tcp.frames[-1], tcp.frames[-3], tcp.frames[-3], tcp.frames[-2]]
    assert problems_of(scratch, tcp, wanted=("tcp-nfs",)) == []


def broken_record(scratch):
    """A record that is longer than the received octets: its call has no reply."""
    tcp = Conversation(PORTS["tcp"]).client(record(NULL_CALL)).server(record(NULL_REPLY)[:-4])
    assert_found(problems_of(scratch, tcp), "no whole RPC record", "a call without a reply")


def without_beginning(scratch):
    """A connection older than the capture: the checker reports it, and ignores its contents."""
    for port, message in ((PORTS["tcp"], record(NULL_CALL)), (PORTS["rdma"], send_frame(rdma_msg(NULL_CALL)))):
        for missing in (1, 2):  # the SYN, and the answer to it
            made = Conversation(port).client(message)
            del made.frames[:missing]
            assert_found(problems_of(scratch, made), "without its beginning")


NOTIFY = words(XID, 0, 2, 100024, 1, 6, 0, 0, 0, 0) + words(4) + b"name" + words(3)


def other_ports(scratch):
    """The server's calls to a client are read as well, if the capture has them."""
    tcp = Conversation(PORTS["tcp"]).client(record(NULL_CALL)).server(record(NULL_REPLY))
    granted = words(XID, 0, 2, 100021, 4, 5, 0, 0, 0, 0) + words(0, 1, 0, 0, 0, 1) + bytes(16)
    back = Conversation(30000).client(record(granted)).server(record(NULL_REPLY + words(0, 0)))
    notice = Datagrams((True, NOTIFY), (False, NULL_REPLY))
    wanted = ("tcp-nfs", "granted", "nsm")
    assert problems_of(scratch, tcp, back, notice, wanted=wanted, others=True) == []
    assert_found(problems_of(scratch, tcp, notice, wanted=wanted, others=True), "no granted")
    assert_found(problems_of(scratch, tcp, back, wanted=wanted, others=True), "no nsm")
    assert_found(problems_of(scratch, tcp, back, notice), "neither of which")


def broken_datagram(scratch):
    tcp = Conversation(PORTS["tcp"]).client(record(NULL_CALL)).server(record(NULL_REPLY))
    assert_found(problems_of(scratch, tcp, Datagrams((True, NOTIFY[:-6]), (False, NULL_REPLY)), others=True), "Malformed")
    assert_found(problems_of(scratch, tcp, Datagrams((True, NOTIFY)), others=True), "a call without a reply")


def unreadable(scratch):
    """Captures that cannot be read completely, and a record that would hide everything after it."""
    whole = Conversation(PORTS["tcp"]).client(record(NULL_CALL)).server(record(NULL_REPLY))
    assert_found(problems_of(scratch, whole, cut=7), "in the middle of a packet")
    assert_found(problems_of(scratch, whole, Conversation(PORTS["tcp"] + 7)), "neither of which")
    huge = Conversation(PORTS["tcp"]).client(record(NULL_CALL)).server(words(0x80FFFFFF) + NULL_REPLY)
    assert_found(problems_of(scratch, huge, restarted=True), "a fragment of 16777215 bytes")


main({case.__name__: case for case in
      (good, nothing_to_see, reply_without_call, cut_short, refused_connection, port_used_again, chunks, broken_frame,
       distrusted, lost_packet, out_of_order, broken_record, sent_again, without_beginning, unreadable, other_ports,
       broken_datagram)})
