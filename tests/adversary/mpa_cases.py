"""MPA connection set-up (RFC 5044 §7.1, RFC 6581): every field of the request is wrong, truncated or repeated."""

import socket
import struct

import rpc_messages as rpc
from attack import GOOD_REQUEST, Case, Closed, Dialled, Served
from iwarp_peer import CRC, ENHANCED, MARKERS, REJECTED, REPLY_KEY, REQUEST_KEY, fpdu, mpa_frame, private_data, untagged


def send(data):
    return lambda dialled: dialled.endpoint.raw(data)


def set_up(request):
    return lambda dialled: dialled.set_up(request)


def cut_off(size, abruptly=False):
    def act(dialled):
        dialled.endpoint.raw(GOOD_REQUEST[:size])
        if abruptly:
            dialled.endpoint.reset()
            dialled.endpoint = Dialled(dialled.port).endpoint
            return dialled.set_up(GOOD_REQUEST)  # the next peer is served
        dialled.endpoint.socket.shutdown(socket.SHUT_WR)
    return act


def octet_by_octet(dialled):
    for i in range(len(GOOD_REQUEST)):
        dialled.endpoint.raw(GOOD_REQUEST[i:i + 1])
    dialled.take_reply()


def at_once_with_a_call(dialled):
    message = rpc.call()
    dialled.endpoint.sent_msns[0] = 1
    dialled.endpoint.raw(GOOD_REQUEST + fpdu(untagged(payload=rpc.rdma_call(message))))
    dialled.take_reply()
    dialled.client.reply_to(rpc.xid_of(message))


def request_again(dialled):
    """Sends a second request in place of FPDUs: its key reads as an FPDU with a wrong check value, or as half of one."""
    dialled.set_up(GOOD_REQUEST)
    dialled.endpoint.raw(GOOD_REQUEST)
    dialled.endpoint.socket.shutdown(socket.SHUT_WR)


def enhanced(ird, ord_, more=b"", **fields):
    return mpa_frame(revision=2, flags=fields.pop("flags", CRC | ENHANCED),
                     private_data=struct.pack(">HH", ird, ord_) + more, **fields)


def cases():
    for i in range(16):
        key = bytearray(REQUEST_KEY)
        key[i] ^= 0x20
        yield Case(f"key wrong in octet {i}", "RFC 5044 §7.1.1", send(mpa_frame(key=bytes(key))), Closed())
    yield Case("a reply for a request", "RFC 5044 §7.1.1", send(mpa_frame(key=REPLY_KEY)), Closed())
    yield Case("zeros", "RFC 5044 §7.1.1", send(bytes(64)), Closed())
    yield Case("another protocol", "RFC 5044 §7.1.1", send(b"GET / HTTP/1.1\r\nHost: penstock\r\n\r\n"), Closed())
    for revision in (0, 3, 4, 128, 255):
        yield Case(f"revision {revision}", "RFC 5044 §7.1.1", send(mpa_frame(revision=revision)), Closed())
    for length in (513, 514, 1024, 32768, 65535):
        yield Case(f"{length} octets of private data", "RFC 5044 §7.1.1",
                   send(mpa_frame(private_data=bytes(length))), Closed())
    for size in range(len(GOOD_REQUEST)):
        yield Case(f"closed after {size} octets", "RFC 5044 §7.1.2", cut_off(size), Closed())
        yield Case(f"reset after {size} octets", "RFC 5044 §7.1.2", cut_off(size, abruptly=True), Served())
    for size in range(4):
        yield Case(f"enhanced with {size} octets of private data", "RFC 6581 §9",
                   send(mpa_frame(revision=2, flags=ENHANCED | CRC, private_data=bytes(size))), Closed())
    # Fields that must not be checked, and unusual but valid requests.
    for flags in (REJECTED, 0x0F, ENHANCED, REJECTED | 0x1F, 0):
        yield Case(f"flags {flags:#x}", "RFC 5044 §7.1.1", set_up(mpa_frame(flags=flags | CRC)), Served())
    yield Case("octet by octet", "RFC 5044 §7.1.2", octet_by_octet, Served())
    yield Case("a call at once with the request", "RFC 5044 §7.1.2", at_once_with_a_call, Served())
    for ird, ord_ in ((0, 0), (1, 0), (0, 1), (0x3FFF, 0x3FFF), (0x3FFE, 0x3FFE), (0x4000, 0xC000), (0x3FFF, 0)):
        yield Case(f"IRD {ird:#x}, ORD {ord_:#x}", "RFC 6581 §9.1", set_up(enhanced(ird, ord_)), Served())
    for model in (0x8000, 0xC000):
        for readiness in (0, 0x4000, 0x8000, 0xC000):
            yield Case(f"peer-to-peer {model:#x}/{readiness:#x}", "RFC 6581 §9.2",
                       set_up(enhanced(model | 4, readiness | 4)), Served())
    good = private_data()
    for name, data in (("cut off", good[:7]), ("of another version", good[:4] + b"\x02" + good[5:]),
                       ("of unknown flags", good[:5] + b"\xff" + good[6:]), ("of the largest sizes", good[:6] + b"\xff\xff"),
                       ("of the smallest sizes", good[:6] + b"\0\0"), ("not the first", bytes(504) + good),
                       ("that only begins", bytes(508) + good[:4]), ("twice", good + good), ("of all ones", b"\xff" * 512)):
        yield Case(f"private data {name}", "RFC 8797 §4", set_up(mpa_frame(private_data=data)), Served())
    yield Case("the request again", "RFC 5044 §7.1.2", request_again, Closed())
    yield Case("markers asked for", "RFC 5044 §7.1.1", send(mpa_frame(flags=MARKERS | CRC) + fpdu(untagged(msn=2))[:10]),
               ClosedAfterReply())


class ClosedAfterReply(Closed):
    """The server accepts; then the client vanishes in the middle of a frame, and the server ends the connection."""

    def check(self, client, xid):
        client.endpoint.mpa()
        client.endpoint.socket.shutdown(socket.SHUT_WR)
        super().check(client, xid)
