"""Hostile datagrams at the port of MOUNT and at the port mapper's: malformed calls, floods of one host, and forged
senders. Loopback has many hosts: each address of 127.0.0.0/8 is one."""

import random
import select
import socket
import time

import rpc_messages as rpc
from attack import MAX_WAIT, Attacked, Case, Passed
from patience import SECONDS
from rpc_messages import AUTH_NONE, MOUNT, opaque, words

MNT, DUMP, EXPORT = 1, 2, 5
RQUOTA, NFS3 = (100011, 2), (100003, 3)
LONGEST_CALL, LONGEST_REPLY = 8 << 10, 1232  # rpc::udp::ServerOptions
BURST = 64 << 10  # rpc::udp::ReplyAllowance::Limits
SYSTEM_ERR = words(1, 0, 0, 0, rpc.SYSTEM_ERR)


class Host:
    """A socket of a host of its own."""

    def __init__(self, port, address="127.0.0.1"):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 0))
        self.socket.connect(("127.0.0.1", port))

    def send(self, message):
        self.socket.send(message)

    def received(self, seconds=0):
        """Returns the datagrams that arrive until none has come for this time."""
        found = []
        while select.select([self.socket], [], [], seconds)[0]:
            found.append(self.socket.recv(1 << 16))
        return found

    def ask(self, message):
        """Returns the reply. As a client does, it sends the call again until there is one."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            self.send(message)
            again = time.monotonic() + 1
            while select.select([self.socket], [], [], max(0, again - time.monotonic()))[0]:
                reply = self.socket.recv(1 << 16)
                if reply[:4] == message[:4]:
                    return reply
        raise AssertionError("no reply to a datagram")

    def close(self):
        self.socket.close()


def ignored(message):
    """The server does not answer this datagram, and answers the next one."""
    def act(host):
        host.send(message)
        good = rpc.call(program=MOUNT)
        reply = host.ask(good)
        assert reply == good[:4] + words(1, 0, 0, 0, 0), reply
        assert not [late for late in host.received(0.05) if late[:4] != good[:4]], "an answer to the bad datagram"
    return act


def answered(message, *expected):
    """The server answers with one of these, behind the XID."""
    def act(host):
        reply = host.ask(message)
        assert reply[4:] in expected, reply
    return act


def mnt(path, **how):
    return rpc.call(MNT, opaque(path), program=MOUNT, **how)


def cases():
    denied, accepted = words(1, 1), words(1, 0, 0, 0)
    yield Case("an empty datagram", "RFC 5531 §9", ignored(b""), Passed())
    yield Case("a datagram of one octet", "RFC 5531 §9", ignored(b"\0"), Passed())
    yield Case("a reply", "RFC 5531 §9", ignored(words(1, 1, 0, 0, 0, 0)), Passed())
    yield Case("a message of an unknown type", "RFC 5531 §9", ignored(rpc.call(program=MOUNT, message_type=2)), Passed())
    yield Case("a datagram that is too long", "limits.md", ignored(mnt(b"/") + bytes(LONGEST_CALL)), Passed())
    yield Case("another version of RPC", "RFC 5531 §9", answered(rpc.call(program=MOUNT, rpc_version=3), denied + words(0, 2, 2)), Passed())
    yield Case("NFS", "limits.md", answered(rpc.call(program=NFS3), accepted + words(rpc.PROG_UNAVAIL)), Passed())
    yield Case("a header that ends early", "RFC 5531 §9", answered(rpc.call(program=MOUNT)[:20], accepted + words(rpc.GARBAGE_ARGS)), Passed())
    yield Case("a record mark in front", "RFC 5531 §11", ignored(words(0x80000028, 0x7654321) + bytes(36)), Passed())
    for size in (3, 1025, 1 << 31):
        yield Case(f"a path of {size} octets that are not there", "RFC 4506 §4.11",
                   answered(rpc.call(MNT, words(size), program=MOUNT), accepted + words(rpc.GARBAGE_ARGS)), Passed())
    yield Case("octets behind the arguments", "RFC 4506", answered(mnt(b"/") + bytes(8), accepted + words(rpc.GARBAGE_ARGS)), Passed())
    yield Case("a quota without a path", "RFC 4506", answered(rpc.call(1, b"", program=RQUOTA), accepted + words(rpc.GARBAGE_ARGS)), Passed())
    yield Case("a quota for nobody", "RFC 5531 §9", answered(rpc.call(1, opaque(b"/") + words(0, 0), program=RQUOTA, credential=AUTH_NONE),
                                                             denied + words(1, 5)), Passed())
    noise = random.Random(20)
    for number in range(200):
        call = bytearray(mnt(b"/") if number % 2 else rpc.call(1, opaque(b"/") + words(0, 0), program=RQUOTA))
        for _ in range(noise.randrange(1, 6)):
            call[noise.randrange(8, len(call))] = noise.randrange(256)
        yield Case(f"a damaged call ({number})", "RFC 5531", lambda host, call=bytes(call): host.ask(call), Passed())


def flood(server):
    """One host sends as fast as it can; another one mounts at the same time, and waits no longer than a client waits
    for a lost datagram."""
    flooding, other = Host(server.mount, "127.0.0.2"), Host(server.mount, "127.0.0.3")
    longest = 0
    for round_ in range(30):
        for _ in range(1000):
            try:
                flooding.send(mnt(b"/dir"))
            except OSError:  # no room in our own socket
                break
        began = time.monotonic()
        other.ask(mnt(b"/dir"))
        longest = max(longest, time.monotonic() - began)
    flooding.close(), other.close()
    print(f"beside the flood a call took {longest:.1f} s at most", flush=True)
    assert longest < MAX_WAIT


def forged(server):
    """Calls of a forged sender make the server send it little more than they have themselves."""
    victim = Host(server.mount, "127.0.0.4")
    sent = received = 0
    began = time.monotonic()
    for _ in range(4000):
        # The shortest calls with the longest replies: with a credential of AUTH_NONE.
        for procedure in (DUMP, EXPORT):
            call = rpc.call(procedure, program=MOUNT, credential=AUTH_NONE)
            victim.send(call)
            sent += len(call)
        received += sum(map(len, victim.received()))
    received += sum(map(len, victim.received(0.5)))
    seconds = time.monotonic() - began
    print(f"sent {sent} octets and received {received} in {seconds:.1f} s", flush=True)
    assert received <= sent + 2 * BURST + seconds * (BURST / 4)
    victim.close()
    # Another host is served.
    bystander = Host(server.mount, "127.0.0.5")
    bystander.ask(rpc.call(EXPORT, program=MOUNT))
    bystander.close()


def long_list(server):
    """A list of mounts that is too long for a datagram is an error there, and not a part of the list."""
    host = Host(server.mount, "127.0.0.6")
    for number in range(40):
        host.ask(mnt(b"/" + b"/" * number + b"dir"))
    reply = host.ask(rpc.call(DUMP, program=MOUNT))
    assert reply[4:] == SYSTEM_ERR, len(reply)
    host.close()


def datagrams(scratch):
    with Attacked(scratch) as server:
        server.run(cases(), lambda _: Host(server.mount))
        long_list(server)
        flood(server)
        forged(server)
