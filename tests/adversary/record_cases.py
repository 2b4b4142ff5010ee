"""Malformed record marking on the TCP ports (RFC 5531 §11)."""

import random
import socket

import rpc_messages as rpc
from attack import Case
from iwarp_peer import dial
from patience import SECONDS
from tcp_peer import fragment

MAX_RECORD = 2 << 20  # rpc::tcp::ServerOptions::max_record


class Answered:
    """The server answers the NULL call that follows, and nothing before it."""

    def check(self, client, _):
        message = rpc.call()
        client.raw(fragment(message))
        client.expect_reply_to(message)


class Ends:
    def __init__(self, within=SECONDS):
        self.within = within

    def check(self, client, _):
        client.endpoint.end_of_stream(self.within)


def raw(data):
    return lambda client: client.raw(data)


def call_in_fragments(size, empty=0):
    """A NULL call in fragments of `size` octets, with `empty` empty fragments before each."""
    def act(client):
        message = rpc.call()
        parts = [message[at:at + size] for at in range(0, len(message), size)]
        lasts = [False] * (len(parts) - 1) + [True]
        client.raw(b"".join(fragment(b"", False) * empty + fragment(part, last) for part, last in zip(parts, lasts)))
        client.expect_reply_to(message)
    return act


def cut_off(size, abruptly):
    def act(client):
        client.raw(fragment(rpc.call())[:size])
        if abruptly:
            client.endpoint.reset()
            client.endpoint = dial(client.port)
        else:
            client.endpoint.socket.shutdown(socket.SHUT_WR)
    return act


def noise(seed):
    """Random octets. The length of the first fragment is too large, so that the result does not depend on the rest."""
    data = bytearray(random.Random(seed).randbytes(4096))
    data[0] |= 0x40
    return bytes(data)


def cases():
    for length in (MAX_RECORD + 1, 1 << 24, (1 << 31) - 1):
        for last in (False, True):
            yield Case(f"fragment of {length} octets{' and last' * last}", "RFC 5531 §11",
                       raw(fragment(bytes(64), last, length)), Ends())
    yield Case("fragments that are too much together", "RFC 5531 §11",
               raw(fragment(bytes(1 << 20), False) * 2 + fragment(b"\0")), Ends())
    yield Case("another protocol", "RFC 5531 §11", raw(b"GET / HTTP/1.1\r\n\r\n"), Ends())
    for seed in range(20):
        yield Case(f"noise {seed}", "RFC 5531 §11", raw(noise(seed)), Ends())
    for size in (1, 2, 3, 7):
        yield Case(f"a call in fragments of {size} octets", "RFC 5531 §11", call_in_fragments(size), Answered())
    yield Case("twenty thousand empty fragments before each eight octets", "RFC 5531 §11",
               call_in_fragments(8, 20_000), Answered())
    for size in range(4):
        yield Case(f"a record of {size} octets", "RFC 5531 §8", raw(fragment(bytes(size)) * 100), Answered())
    yield Case("a record that is no call", "RFC 5531 §9", raw(fragment(rpc.call(message_type=1))), Answered())
    yield Case("a record as large as may be that is no call", "RFC 5531 §9", raw(fragment(rpc.words(1, 1) + bytes(MAX_RECORD - 8))),
               Answered())
    whole = fragment(rpc.call())
    for size in range(0, len(whole), 3):
        yield Case(f"closed after {size} octets", "RFC 5531 §11", cut_off(size, False), Ends())
        yield Case(f"reset after {size} octets", "RFC 5531 §11", cut_off(size, True), Answered())


def stalls(within):
    """Transfers that a stalled peer may leave unfinished until the server ends it."""
    for name, data in (("half a record header", b"\x80\0"), ("half a record", fragment(rpc.call())[:30]),
                       ("a record without its last fragment", fragment(rpc.call(), False)),
                       ("empty fragments without an end", fragment(b"", False) * 1000)):
        yield Case(name, "RFC 5531 §11", raw(data), Ends(within))
