"""A hostile server of version 4.0 that refers our client to other servers. The client must end with a clear message and exit code 1, or
reach the file system. It must never hang or crash."""

import concurrent.futures
import os
import socket
import struct
import subprocess
import threading
import time
from typing import Callable, NamedTuple

import nfs4_messages as nfs4
from client_cases import BOUND, SECONDS, SIDE_BY_SIDE, is_clear, wrong_exit
from hostile_server import Call, accepted, serve_each
from iwarp_cases import MAX32
from iwarp_peer import Ended, Endpoint, Silence
from penstock import penstock
from rdma_messages import Words
from rpc_messages import NOENT, hyper, opaque, take_opaque, words

LOCATIONS = 24  # the number of the attribute fs_locations
VALUES = {1: words(2), 3: hyper(1), 4: hyper(0), 8: hyper(1) + hyper(2), 10: words(90), 20: hyper(3), 30: hyper(1 << 20), 31: hyper(1 << 20),
          33: words(0o755), 35: words(2), 36: opaque(b"0"), 37: opaque(b"0"), 41: words(0, 0), 45: hyper(0), 47: hyper(1) + words(0),
          52: hyper(1) + words(0), 53: hyper(1) + words(0)}
ROOT, FAR = b"root", b"far"
MOST_LOOKUPS = 2500  # a path has at most 2048 names


def location(servers, *path):
    return words(len(servers)) + b"".join(map(opaque, servers)) + pathname(*path)


def pathname(*path):
    return words(len(path)) + b"".join(map(opaque, path))


def locations(*each, count=None):
    """Makes an fs_locations4."""
    return pathname(FAR) + words(len(each) if count is None else count) + b"".join(each)


def universal(port, host=b"127.0.0.1"):
    return b"%s.%d.%d" % (host, port >> 8, port & 255)


class Referrer:
    """Its tree has the empty directories /here, /also and so on, and the referral /far. `told`, function(self), gives the locations of
    the referral as an fattr4, or an error. `vices` maps an operation to function(self, results), which gives its status and results."""

    def __init__(self, told, vices=None):
        self.told, self.vices, self.looked_up, self.thread = told, vices or {}, 0, threading.local()
        self.open = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        self.port, self.silent, self.closing = (each.getsockname()[1] for each in self.open)
        # Nobody listens there, and no other test can.
        self.kept = socket.socket()
        self.kept.bind(("127.0.0.1", 0))
        self.closed = self.kept.getsockname()[1]
        for listener, serve in zip(self.open, (self.serve, lambda sock: time.sleep(BOUND), lambda sock: sock.close())):
            threading.Thread(target=serve_each, args=(listener, serve), daemon=True).start()

    def serve(self, sock):
        endpoint = Endpoint(sock)
        try:
            while True:
                endpoint.fill(4, time.monotonic() + 600)
                (length,) = struct.unpack(">I", endpoint.take(4))
                endpoint.fill(length & 0x7FFFFFFF, time.monotonic() + 600)
                # A call of RPC-over-RDMA without chunks has the same octets behind its header.
                call = Call(words(0, 1, 32, 0, 0, 0, 0) + endpoint.take(length & 0x7FFFFFFF))
                reply = words(call.xid) + accepted(self.compound(call.arguments) if call.procedure else b"")
                endpoint.raw(struct.pack(">I", 0x80000000 | len(reply)) + reply)
        except (Ended, Silence, OSError):
            endpoint.close()

    def compound(self, arguments):
        take_opaque(arguments)
        arguments.word()
        results, status, count = b"", nfs4.OK, arguments.word()
        for done in range(1, count + 1):
            operation = arguments.word()
            status, result = self.execute(operation, arguments)
            if status == nfs4.OK and operation in self.vices:
                status, result = self.vices[operation](self, result)
            results += words(operation, status) + result
            if status != nfs4.OK:
                break
        return words(status) + opaque(b"") + words(done) + results

    def execute(self, operation, arguments):
        """Returns the status of an operation, and its results."""
        if operation == nfs4.SETCLIENTID:
            arguments.word(), arguments.word(), take_opaque(arguments), arguments.word(), take_opaque(arguments), take_opaque(arguments)
            arguments.word()
            return nfs4.OK, hyper(7) + bytes(8)
        if operation == nfs4.SETCLIENTID_CONFIRM:
            for _ in range(4):
                arguments.word()
            return nfs4.OK, b""
        if operation == nfs4.PUTROOTFH:
            self.thread.current = ROOT
            return nfs4.OK, b""
        if operation == nfs4.PUTFH:
            self.thread.current = take_opaque(arguments)
            return nfs4.OK, b""
        if operation == nfs4.LOOKUP:
            self.looked_up += 1
            self.thread.current = take_opaque(arguments)
            return nfs4.OK, b""
        if operation == nfs4.GETATTR:
            asked = [arguments.word() for _ in range(arguments.word())]
            return self.get_attributes([32 * i + bit for i, word in enumerate(asked) for bit in range(32) if word >> bit & 1])
        if self.thread.current == FAR:
            return nfs4.MOVED, b""
        if operation == nfs4.GETFH:
            return nfs4.OK, opaque(self.thread.current)
        if operation == nfs4.READDIR:
            return nfs4.OK, bytes(8) + words(0, 1)
        return nfs4.NOTSUPP, b""

    def get_attributes(self, numbers):
        if self.thread.current != FAR:
            return nfs4.OK, nfs4.bitmap(*numbers) + opaque(b"".join(VALUES[number] for number in numbers))
        if LOCATIONS not in numbers:
            return nfs4.MOVED, b""
        told = self.told(self)
        return (nfs4.OK, told) if isinstance(told, bytes) else (told, b"")

    def url(self, path):
        return f"nfs://127.0.0.1:{self.port}{path}?vers=4.0&timeout={SECONDS}"

    def close(self):
        for each in [*self.open, self.kept]:
            each.close()


class Case(NamedTuple):
    name: str
    told: Callable  # see Referrer
    works: object = False  # True: must reach the file system; False: must fail; None: may do either
    vices: dict = None
    path: str = "/far"
    options: tuple = ()


def attribute(value, number=LOCATIONS):
    return nfs4.bitmap(number) + opaque(value)


def names(*servers, path=(b"here",)):
    """fs_locations with one location. A server is a name, or function(referrer)."""
    return lambda referrer: attribute(locations(location([s(referrer) if callable(s) else s for s in servers], *path)))


def itself(referrer):
    return universal(referrer.port)


def closed(referrer):
    return universal(referrer.closed)


def silent(referrer):
    return universal(referrer.silent)


def closing(referrer):
    return universal(referrer.closing)


def says(octets):
    return lambda referrer: octets


def fails(status):
    return lambda referrer, result: (status, b"")


def entry(name, attributes):
    return words(1) + hyper(3) + opaque(name) + attributes


def cases():
    yield Case("(a good server)", names(itself), True)
    yield Case("(a good server, the second one)", names(closed, itself), True)
    yield Case("the empty name, which is the server itself", names(b""), True)
    yield Case("the root of the server itself", names(b"", path=()), True)

    # no locations, and garbage
    yield Case("no fs_locations", says(nfs4.bitmap() + opaque(b"")))
    yield Case("no location", says(attribute(locations())))
    yield Case("a location without servers", names())
    yield Case("NFS4ERR_MOVED for fs_locations", says(nfs4.MOVED))
    yield Case("2^32-1 locations", says(attribute(locations(count=MAX32))))
    yield Case("2^32-1 servers", says(attribute(pathname() + words(1, MAX32))))
    yield Case("a path of 2^32-1 components", says(attribute(pathname() + words(1, 1) + opaque(b"one") + words(MAX32))))
    yield Case("locations cut off", lambda referrer: attribute(locations(location([itself(referrer)], b"here"))[:-8]))
    yield Case("octets behind the locations", lambda referrer: attribute(locations(location([itself(referrer)], b"here")) + bytes(4)))
    yield Case("an attribute that was not requested", says(attribute(words(2), 1)))
    yield Case("attributes that there are not", says(nfs4.bitmap(LOCATIONS, 400) + opaque(b"")))
    for name in (b"two words", b"\x1b[2J", b"one\ntwo", b"127.0.0.1\0", b"127.0.0.1.0.0", b"[::1]", b"127.0.0.1:2049", b"a" * 256,
                 b"\xff\xfe", b"/"):
        yield Case(f"a server {name[:20]!r}", names(name))
        yield Case(f"a server {name[:20]!r}, and a good one", names(name, itself), True)
    for path in ((b"",), (b".",), (b"..",), (b"here", b".."), (b"here/also",), (b"here\0",), (b"a" * 5000,), (b"a",) * 10000):
        yield Case(f"a path {path[0][:20]!r}", names(itself, path=path))
    yield Case("a path of control characters", names(itself, path=(b"\x1b[2J\n",)), vices={
        nfs4.LOOKUP: lambda referrer, result: (nfs4.OK if referrer.thread.current == FAR else NOENT, b"")})
    yield Case("a long path", names(itself, path=(b"a",) * 2000), None)

    # servers
    for count in (16, 10_000):
        yield Case(f"{count} servers of which none answers", lambda referrer, count=count: attribute(
            locations(location([closed(referrer)] * count, b"here"))))
        yield Case(f"{count} servers of which the first answers", lambda referrer, count=count: attribute(
            locations(location([itself(referrer)] + [closed(referrer)] * (count - 1), b"here"))), True)
    yield Case("10,000 locations", lambda referrer: attribute(locations(*[location([closed(referrer)], b"here")] * 10_000)))
    yield Case("100,000 locations without sense", says(attribute(locations(*[location([b"?"])] * 100_000))))
    yield Case("a name that does not resolve", names(b"no-such-host.invalid"))
    yield Case("a name that does not resolve, and a good server", names(b"no-such-host.invalid", itself), True)
    yield Case("a server that is silent", names(silent))
    yield Case("a server that is silent, and a good one", names(silent, itself), True)
    yield Case("a server that ends each connection", names(closing))
    yield Case("a server that ends each connection, and a good one", names(closing, itself), True)

    # referrals that lead to one another
    yield Case("a referral to itself", names(itself, path=(FAR,)))
    yield Case("a referral to itself by many ways", names(*[itself] * 16, path=(FAR,)))
    yield Case("a referral to below itself", names(b"", path=(FAR, FAR)))
    yield Case("referrals without end", names(b"", path=(b"here", FAR)))
    yield Case("a path of referrals", names(itself), True, path="/" + "/".join(["far"] * 30))

    # NFS4ERR_MOVED elsewhere
    yield Case("NFS4ERR_MOVED for LOOKUP", names(itself), vices={nfs4.LOOKUP: fails(nfs4.MOVED)})
    yield Case("NFS4ERR_MOVED for PUTFH", names(itself), vices={nfs4.PUTFH: fails(nfs4.MOVED)})
    yield Case("NFS4ERR_MOVED for the root", names(itself), vices={nfs4.GETFH: fails(nfs4.MOVED)})
    yield Case("NFS4ERR_MOVED for READDIR", names(itself), vices={nfs4.READDIR: fails(nfs4.MOVED)})
    moved = entry(b"\x1b[2Jfar", nfs4.bitmap(11) + opaque(words(nfs4.MOVED)))
    unknown = entry(b"what", nfs4.bitmap(11) + opaque(words(424242)))
    yield Case("entries that are referrals", names(itself), True, path="/here", options=("-l",), vices={
        nfs4.READDIR: lambda referrer, result: (nfs4.OK, bytes(8) + moved * 1000 + unknown + words(0, 1))})


def run(case):
    """Returns the reason of a failure, or nothing."""
    referrer = Referrer(case.told, case.vices)
    try:
        done = penstock("ls", *case.options, referrer.url(case.path), seconds=BOUND)
    except subprocess.TimeoutExpired:
        return "it hangs"
    finally:
        referrer.close()
    worked = done.returncode == 0
    print(f"  {case.name}: exit code {done.returncode} {done.stderr.strip()[:250]}", flush=True)
    if why := wrong_exit(done.returncode, done.stderr, case.works):
        return why
    if referrer.looked_up > MOST_LOOKUPS:
        return f"it has looked up {referrer.looked_up} names"
    # Names go to programs as they are, and are made harmless on a terminal (src/cli/list_line_test.cc).
    if "\x1b" in done.stderr:
        return "the server controls the terminal"
    return None if worked or is_clear(done.stderr) else f"the message is not clear: {done.stderr!r}"


def referrals(scratch):
    all_cases = list(cases())
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        results = list(pool.map(run, all_cases))
    failed = [(case.name, why) for case, why in zip(all_cases, results) if why]
    for name, why in failed:
        print(f"  FAILED {name}: {why}", flush=True)
    print(f"{len(all_cases)} cases, {len(failed)} of them failed", flush=True)
    assert not failed
