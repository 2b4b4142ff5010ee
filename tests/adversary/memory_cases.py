"""Peers that make the server hold memory, by unfinished calls and by unread replies: --memory limits it."""

import struct
import time
from collections import deque

import rpc_messages as rpc
from attack import MIB, Attacked
from disk import FailingDisk
from iwarp_peer import dial
from patience import SECONDS
from rpc_messages import Client, RpcReply, hyper, opaque, words
from tcp_peer import TcpClient, fragment

MEMORY = 64 * MIB
# One host alone gets a quarter of --memory, and each connection 256 KiB more. A sanitizer doubles small buffers, and
# keeps some freed memory.
BOUND = 2 * (MEMORY // 4) + 48 * MIB
RETURNED = 56 * MIB
FILES = [f"slow{n}" for n in range(4)]
ZEROS = memoryview(bytes(2 * MIB))


def write_call(file, offset=0, size=1 * MIB):
    """An unstable WRITE of zeros, as a record in two pieces; the second piece is the data."""
    head = rpc.call(rpc.WRITE, opaque(file) + hyper(offset) + words(size, 0, size))
    return fragment(head, length=len(head) + size), ZEROS[:size]


def push(endpoints, streams, patience=1.0):
    """Sends the pieces of each endpoint's stream while the server reads. Returns False if something is left. It copies
    nothing large, because this process also measures the bystander's wait."""
    for endpoint in endpoints:
        endpoint.socket.setblocking(False)
    last = time.monotonic()
    while time.monotonic() < last + patience and any(streams):
        for endpoint, stream in zip(endpoints, streams):
            try:
                while stream:
                    sent = endpoint.socket.send(stream[0])
                    stream[0] = memoryview(stream[0])[sent:]
                    last = time.monotonic()
                    if not stream[0]:
                        stream.popleft()
            except BlockingIOError:
                pass
        time.sleep(0.01)
    for endpoint in endpoints:
        endpoint.socket.settimeout(SECONDS)
    return not any(streams)


def check(server, what):
    seen = server.watch_memory()
    print(f"  {what}: memory {seen / MIB:.1f} MiB more at most; the bystander has waited {server.bystander.longest:.1f} s at most",
          flush=True)
    assert seen <= BOUND, f"{what} cost {seen} octets"


def writes_that_do_not_end(server, disk, files):
    """Four connections send 128 WRITEs of 1 MiB each to a disk that hangs; a client of another host writes meanwhile."""
    disk.fail(*(f"pwrite hang {server.folder}/{name}" for name in FILES))
    endpoints = [dial(server.tcp) for _ in FILES]
    streams = [deque(piece for n in range(128) for piece in write_call(files[name], n * MIB)) for name in FILES]
    assert not push(endpoints, streams), "the server has taken them all"
    check(server, "512 WRITEs of 1 MiB")
    other = TcpClient(server.tcp, source="127.0.0.2")
    for piece in write_call(files["small"]):
        other.raw(piece)
    reply = RpcReply(other.record())
    assert reply.status == ("success",) and struct.unpack_from(">I", reply.results) == (0,)
    other.close()
    # Two connections end. The server serves the two others, which it had not read from, when the disk works again.
    for endpoint in endpoints[2:]:
        endpoint.close()
    disk.mend()
    while not push(endpoints[:2], streams[:2]):
        pass
    for endpoint in endpoints[:2]:
        for _ in range(128):
            endpoint.fill(4, time.monotonic() + SECONDS)
            (length,) = struct.unpack(">I", endpoint.take(4))
            endpoint.fill(length & 0x7FFF_FFFF, time.monotonic() + SECONDS)
            reply = RpcReply(endpoint.take(length & 0x7FFF_FFFF))
            assert reply.status == ("success",) and struct.unpack_from(">I", reply.results) == (0,)
        endpoint.close()
    for name in FILES[:2]:
        with open(f"{server.folder}/{name}", "rb") as file:
            assert file.seek(0, 2) == 128 * MIB


def records_that_do_not_end(server, files):
    """Sends WRITEs of 1 MiB over many connections, each without its last octet."""
    endpoints = [dial(server.tcp) for _ in range(150)]
    head, data = write_call(files["small"])
    push(endpoints, [deque([head, data[:-1]]) for _ in endpoints])
    check(server, "150 records without an end")
    for endpoint in endpoints:
        endpoint.close()


def replies_not_taken(server):
    """Sends hundreds of thousands of NULL calls, and does not read their replies of 28 octets."""
    endpoints = [dial(server.tcp, 4096) for _ in range(6)]
    calls = fragment(rpc.call()) * 1000
    push(endpoints, [deque([calls] * 400) for _ in endpoints])
    check(server, "NULL calls whose replies are not taken")
    for endpoint in endpoints:
        endpoint.close()


def memory(scratch):
    """The server stays within --memory, serves the bystander of the same host, and frees the memory afterwards."""
    disk = FailingDisk(scratch)
    with Attacked(scratch, [f"--memory={MEMORY}"], max_growth=BOUND, environment=disk.environment) as server:
        for name in FILES:
            open(f"{server.folder}/{name}", "wb").close()
        probe = Client(server.port)
        root = probe.root()
        files = {name: probe.lookup(root, name.encode()) for name in (*FILES, "small", "big")}
        probe.close()
        replies_not_taken(server)
        records_that_do_not_end(server, files)
        writes_that_do_not_end(server, disk, files)
        with open(f"{server.folder}/small", "wb") as file:
            file.write(b"0123456789")
        deadline = time.monotonic() + SECONDS
        while (growth := server.resident_octets() - server.resident) > RETURNED:
            assert time.monotonic() < deadline, f"{growth / MIB:.1f} MiB are not given back"
            time.sleep(0.2)
