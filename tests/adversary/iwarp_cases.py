"""FPDUs (RFC 5044), DDP segments (RFC 5041) and RDMAP messages (RFC 5040) with every field wrong."""

import random
import socket
import struct

import rpc_messages as rpc
from attack import Case, Closed, Served, Terminated
from iwarp_peer import (READ_REQUEST, READ_RESPONSE, SEND, SEND_INVALIDATE, TERMINATE, WRITE, Ended, connect, control, fpdu,
                        mpa_frame, read_request, tagged, untagged)

# Terminate codes, as (layer, type, code).
UNSPECIFIED, RDMAP_VERSION_WRONG, OPCODE_UNEXPECTED = (0, 2, 0xFF), (0, 2, 5), (0, 2, 6)
SOURCE_STAG, CANNOT_INVALIDATE = (0, 1, 0), (0, 1, 9)
STAG, BOUNDS, WRAP, TAGGED_VERSION = (1, 1, 0), (1, 1, 1), (1, 1, 3), (1, 1, 4)
QUEUE, NO_BUFFER, MSN, OFFSET, TOO_LONG, UNTAGGED_VERSION = ((1, 2, code) for code in range(1, 7))
BAD_CRC = (2, 0, 2)
MAX32, MAX64 = (1 << 32) - 1, (1 << 64) - 1


def frames(*ulpdus):
    """Sends all octets at once."""
    return lambda client: client.endpoint.raw(b"".join(map(fpdu, ulpdus)))


def raw(data):
    return lambda client: client.endpoint.raw(data)


def after_a_good_one(data):
    """The server must not send before it has received a valid FPDU (RFC 5044 §7.1.2 rule 4)."""
    return raw(fpdu(tagged()) + data)


def call_in_parts(*cuts, **frame_fields):
    """Sends a valid NULL call in several DDP segments."""
    def act(client):
        message = rpc.rdma_call(rpc.call())
        edges = [0, *cuts, len(message)]
        for begin, end in zip(edges, edges[1:]):
            client.endpoint.raw(fpdu(untagged(offset=begin, payload=message[begin:end], last=end == len(message)),
                                     **frame_fields))
        client.endpoint.sent_msns[0] = 1
        client.reply_to(rpc.xid_of(message))
    return act


def octet_by_octet(client):
    message = rpc.rdma_call(rpc.call())
    for octet in fpdu(untagged(payload=message)):
        client.endpoint.raw(bytes([octet]))
    client.endpoint.sent_msns[0] = 1
    client.reply_to(rpc.xid_of(message))


def cut_off(size, abruptly):
    def act(client):
        client.endpoint.raw(fpdu(untagged(payload=rpc.rdma_call(rpc.call())))[:size])
        if abruptly:
            client.endpoint.reset()
            client.endpoint = connect(client.port)
        else:
            client.endpoint.socket.shutdown(socket.SHUT_WR)
    return act


def answered_with(*answers):
    """Makes the server read 64 octets of a WRITE's data, and sends `answers`, a function of its Read Request."""
    def act(client):
        endpoint = client.endpoint
        endpoint.answer_reads = False
        handle = client.offer(bytes(64))
        message = rpc.call(rpc.WRITE, rpc.opaque(client.root()) + rpc.hyper(0) + rpc.words(64, 0, 64))
        endpoint.send(rpc.rdma_call(message, reads=rpc.read_list((len(message), handle, 64))))
        while not endpoint.reads_seen:
            endpoint.take_segment()
        sink, sink_offset, size, source, source_offset = endpoint.reads_seen[0]
        assert (size, source, source_offset) == (64, handle, 0), "it reads something else than was offered"
        for answer in answers:
            endpoint.raw(fpdu(answer(sink, sink_offset)))
        return rpc.xid_of(message)
    return act


def unanswered_reads(client):
    """Sends more WRITEs than the server may have Reads under way, and answers none of the Reads."""
    client.endpoint.answer_reads = False
    root, handle = client.root(), client.offer(bytes(64))
    for _ in range(40):
        message = rpc.call(rpc.WRITE, rpc.opaque(root) + rpc.hyper(0) + rpc.words(64, 0, 64))
        client.endpoint.send(rpc.rdma_call(message, credits=64, reads=rpc.read_list((len(message), handle, 64))))


def unasked_reads(count, request=None):
    def act(client):
        if request:
            client.endpoint.close()
            client.endpoint = connect(client.port, request)
        client.endpoint.raw(b"".join(fpdu(untagged(READ_REQUEST, 1, n + 1, 0, read_request())) for n in range(count)))
    return act


def fpdu_cases():
    for size in range(14):
        yield Case(f"tagged ULPDU of {size} octets", "RFC 5041 §4.2",
                   after_a_good_one(fpdu(tagged()[:size])), Terminated(*UNSPECIFIED))
    for size in range(18):
        yield Case(f"untagged ULPDU of {size} octets", "RFC 5041 §4.3",
                   after_a_good_one(fpdu(untagged()[:size])), Terminated(*UNSPECIFIED))
    good = untagged(payload=rpc.rdma_call(rpc.call()))
    for bit in (0, 7, 16, 31):
        crc = bytearray(fpdu(good)[-4:])
        crc[bit // 8] ^= 1 << bit % 8
        yield Case(f"check value wrong in bit {bit}", "RFC 5044 §8", after_a_good_one(fpdu(good, crc=bytes(crc))),
                   Terminated(*BAD_CRC))
    for at in range(2, len(good), 7):
        broken = bytearray(fpdu(good))
        broken[at] ^= 1
        yield Case(f"octet {at} changed on its way", "RFC 5044 §8", after_a_good_one(bytes(broken)),
                   Terminated(*BAD_CRC))
    yield Case("no check value", "RFC 5044 §4.4", after_a_good_one(fpdu(good, crc=bytes(4))), Terminated(*BAD_CRC))
    yield Case("the first of all without check value", "RFC 5044 §7.1.2", raw(fpdu(good, crc=bytes(4))), Closed())
    yield Case("the first of all without room for a header", "RFC 5044 §7.1.2", raw(fpdu(bytes(4))), Closed())
    yield Case("padding that is not zero", "RFC 5044 §4.1",
               lambda client: client.endpoint.raw(fpdu(untagged(msn=client.endpoint.next_msn(0), payload=bytes(3)),
                                                       pad=b"\xff" * (-(2 + 18 + 3) % 4))), Served())
    yield Case("the longest ULPDU", "RFC 5044 §4.1", frames(untagged(payload=bytes(65535 - 18))), Terminated(*TOO_LONG))
    for size in range(len(fpdu(good))):
        yield Case(f"closed after {size} octets", "RFC 5044 §7.2", cut_off(size, False), Closed())
    for size in random.Random(20).sample(range(len(fpdu(good))), 20):
        yield Case(f"reset after {size} octets", "RFC 5044 §7.2", cut_off(size, True), Served())
    yield Case("octet by octet", "RFC 5044 §6", octet_by_octet, Served())


def ddp_cases():
    for version in (0, 2, 3):
        yield Case(f"tagged, DDP version {version}", "RFC 5041 §7.1", frames(tagged(ddp_version=version)),
                   Terminated(*TAGGED_VERSION))
        yield Case(f"untagged, DDP version {version}", "RFC 5041 §7.2", frames(untagged(ddp_version=version)),
                   Terminated(*UNTAGGED_VERSION))
    for queue in (3, 4, 1 << 31, MAX32):
        yield Case(f"queue {queue}", "RFC 5041 §7.2", frames(untagged(queue=queue)), Terminated(*QUEUE))
    for msn in (0, 2, 1 << 31, MAX32):
        yield Case(f"first MSN {msn}", "RFC 5041 §7.2", frames(untagged(msn=msn)), Terminated(*MSN))
    yield Case("MSN repeated", "RFC 5041 §7.2", frames(untagged(), untagged()), Terminated(*MSN))
    yield Case("MSN of a Terminate", "RFC 5041 §7.2", frames(untagged(TERMINATE, 2, 2)), Terminated(*MSN))
    for offset in (1, 4, 4096, MAX32):
        yield Case(f"first message offset {offset}", "RFC 5041 §7.2", frames(untagged(offset=offset)), Terminated(*OFFSET))
    for offset in (0, 4, 12, MAX32):
        yield Case(f"message offset {offset} after 8 octets", "RFC 5041 §7.2",
                   frames(untagged(payload=bytes(8), last=False), untagged(offset=offset, payload=bytes(8))),
                   Terminated(*OFFSET))
    yield Case("a message that never ends", "RFC 5041 §7.2",
               frames(*(untagged(offset=n * 1024, payload=bytes(1024), last=False) for n in range(5))),
               Terminated(*TOO_LONG))
    yield Case("a message one octet too long", "RFC 5041 §7.2", frames(untagged(payload=bytes(4097))), Terminated(*TOO_LONG))
    yield Case("a message of no octets, in parts", "RFC 5041 §5",
               lambda client: client.endpoint.raw(fpdu(untagged(last=False)) * 50 + fpdu(
                   untagged(msn=client.endpoint.next_msn(0)))), Served())
    yield Case("a call in segments of 4 octets", "RFC 5041 §5", call_in_parts(*range(4, 64, 4)), Served())
    yield Case("a call cut at odd places", "RFC 5041 §5", call_in_parts(1, 2, 5, 31), Served())
    for reserved in (1, 8, 15):
        yield Case(f"reserved bits {reserved:#x}", "RFC 5041 §4.1", frames(tagged(reserved=reserved)), Served())
    # The server never offers memory, so any tag is invalid.
    for stag in (0, 1, 0x1000, 0x12345678, MAX32):
        for offset in (0, MAX64):
            yield Case(f"Write of 8 octets to {stag:#x}+{offset:#x}", "RFC 5041 §7.1",
                       frames(tagged(WRITE, stag, offset, bytes(8))), Terminated(*STAG))
    yield Case("Write of no octets", "RFC 5041 §5.2", frames(tagged(WRITE, MAX32, MAX64)), Served())


def rdmap_cases():
    for version in (2, 3):
        yield Case(f"tagged, RDMAP version {version}", "RFC 5040 §8.2", frames(tagged(rdmap_version=version << 6)),
                   Terminated(*RDMAP_VERSION_WRONG))
        yield Case(f"untagged, RDMAP version {version}", "RFC 5040 §8.2", frames(untagged(rdmap_version=version << 6)),
                   Terminated(*RDMAP_VERSION_WRONG))
    yield Case("RDMAP version 0", "RFC 5040 §4.1", frames(tagged(rdmap_version=0)), Served())
    for opcode in (1, *range(3, 16)):
        yield Case(f"tagged, opcode {opcode}", "RFC 5040 §8.2", frames(tagged(opcode)), Terminated(*OPCODE_UNEXPECTED))
    for opcode in (0, 2, *range(8, 16)):
        yield Case(f"untagged, opcode {opcode}", "RFC 5040 §8.2", frames(untagged(opcode)), Terminated(*OPCODE_UNEXPECTED))
    for opcode, queue in ((SEND, 1), (SEND, 2), (READ_REQUEST, 0), (READ_REQUEST, 2), (TERMINATE, 0), (TERMINATE, 1)):
        yield Case(f"opcode {opcode} on queue {queue}", "RFC 5040 §8.2", frames(untagged(opcode, queue)),
                   Terminated(*OPCODE_UNEXPECTED))
    yield Case("another opcode within a message", "RFC 5040 §8.2",
               frames(untagged(last=False, payload=bytes(4)), untagged(5, offset=4, payload=bytes(4))),
               Terminated(*OPCODE_UNEXPECTED))
    for stag in (0, 1, MAX32):
        yield Case(f"Send that invalidates {stag:#x}", "RFC 5040 §7.2", frames(untagged(SEND_INVALIDATE, invalidate=stag)),
                   Terminated(*CANNOT_INVALIDATE))
    yield Case("Read Response without a Read Request", "RFC 5040 §8.2", frames(tagged(READ_RESPONSE, 1, 0, bytes(8))),
               Terminated(*OPCODE_UNEXPECTED))
    for size in range(0, 28, 9):
        yield Case(f"Read Request of {size} octets", "RFC 5040 §8.2",
                   frames(untagged(READ_REQUEST, 1, payload=read_request()[:size])), Terminated(*UNSPECIFIED))
    yield Case("Read Request of 29 octets", "RFC 5041 §7.2",
               frames(untagged(READ_REQUEST, 1, payload=read_request() + b"\0")), Terminated(*TOO_LONG))
    for source in (0, 1, 0x1000, MAX32):
        for size, offset in ((1, 0), (MAX32, MAX64), (4096, MAX64)):
            yield Case(f"Read of {size} octets of {source:#x}+{offset:#x}", "RFC 5040 §8.2",
                       frames(untagged(READ_REQUEST, 1, payload=read_request(1, 0, size, source, offset))),
                       Terminated(*SOURCE_STAG))
    yield Case("more Reads at once than the server takes", "RFC 5040 §6.1", unasked_reads(100), Terminated(*NO_BUFFER))
    no_ord = mpa_frame(revision=2, flags=0x50, private_data=struct.pack(">HH", 4, 0))
    yield Case("a Read by who has said to make none", "RFC 6581 §9.1", unasked_reads(1, no_ord), Terminated(*NO_BUFFER))
    for size in range(4):
        yield Case(f"Terminate of {size} octets", "RFC 5040 §4.8", frames(untagged(TERMINATE, 2, payload=bytes(size))),
                   Closed())
    for flags in (0, 0x40, 0x80, 0xE0, 0xFF):
        yield Case(f"Terminate with header bits {flags:#x} and no headers", "RFC 5040 §4.8",
                   frames(untagged(TERMINATE, 2, payload=bytes([0xFF, 0xFF, flags, 0xFF]))), Closed())
    yield Case("Terminate longer than any", "RFC 5041 §7.2", frames(untagged(TERMINATE, 2, payload=bytes(60))),
               Terminated(*TOO_LONG))
    yield Case("control bits without a header", "RFC 5041 §4.2",
               after_a_good_one(fpdu(control(True, WRITE) + bytes(11))),
               Terminated(*UNSPECIFIED))


def response_cases():
    """Sends a wrong response to a Read of the server."""
    def part(size, at=0, stag=0, last=True):
        return lambda sink, offset: tagged(READ_RESPONSE, sink + stag & MAX32, offset + at & MAX64, bytes(size), last=last)

    for name, answers, expect in (
            ("for another STag", [part(64, stag=1)], STAG),
            ("too long", [part(65)], BOUNDS),
            ("too short", [part(63)], BOUNDS),
            ("of nothing", [part(0)], BOUNDS),
            ("with a gap", [part(32, last=False), part(31, at=33)], BOUNDS),
            ("that goes back", [part(32, last=False), part(32)], BOUNDS),
            ("that runs on", [part(64, last=False), part(1, at=64)], BOUNDS),
            ("below its beginning", [part(64, at=-1)], WRAP),
            ("that wraps", [part(64, at=-32)], WRAP),
            ("far behind its end", [part(64, at=1 << 40)], BOUNDS),
            ("twice", [part(64), part(64)], OPCODE_UNEXPECTED)):
        yield Case(f"Read Response {name}", "RFC 5041 §7.1", answered_with(*answers), Terminated(*expect))
    yield Case("Reads beyond ORD that are not answered", "RFC 5040 §5.5 rule 13", unanswered_reads, Served())
    yield Case("a Write to the sink of a Read", "RFC 5041 §7.1",
               answered_with(lambda sink, offset: tagged(WRITE, sink, offset, bytes(8))), Terminated(*STAG))
    yield Case("a Read of the sink of a Read", "RFC 5040 §8.2",
               answered_with(lambda sink, offset: untagged(READ_REQUEST, 1, payload=read_request(9, 0, 8, sink, offset))),
               Terminated(*SOURCE_STAG))


def cases():
    yield from fpdu_cases()
    yield from ddp_cases()
    yield from rdmap_cases()
    yield from response_cases()
