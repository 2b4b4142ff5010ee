"""A client of RPC over TCP (RFC 5531 §11) that can send anything."""

import struct
import time

import rpc_messages as rpc
from iwarp_peer import dial
from patience import SECONDS
from rpc_messages import RpcReply

LAST_FRAGMENT = 1 << 31


def fragment(data, last=True, length=None):
    return struct.pack(">I", (len(data) if length is None else length) | (LAST_FRAGMENT if last else 0)) + data


class TcpClient:
    """A TCP connection. `endpoint` only provides its buffered reading."""

    def __init__(self, port, **how):
        self.port, self.endpoint = port, dial(port, **how)

    def raw(self, data):
        self.endpoint.raw(data)

    def record(self, seconds=SECONDS):
        deadline = time.monotonic() + seconds
        self.endpoint.fill(4, deadline)
        (length,) = struct.unpack(">I", self.endpoint.take(4))
        assert length & LAST_FRAGMENT, "a reply in fragments"
        self.endpoint.fill(length & ~LAST_FRAGMENT, deadline)
        return self.endpoint.take(length & ~LAST_FRAGMENT)

    def send_call(self, message, payload=None, room=0):
        """Like rpc_messages.Client. Here payloads stay inline, and replies need no room."""
        self.raw(fragment(message))

    take_reply = record

    def expect_reply_to(self, message):
        reply = RpcReply(self.record())
        assert reply.xid == rpc.xid_of(message) and reply.status == ("success",), f"{reply.xid:#x} {reply.status}"

    def close(self):
        self.endpoint.close()
