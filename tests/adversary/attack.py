"""A server under attack. Each case has an expected response. A bystander client must be served all the time. At the
end, the server must still serve, its memory must be bounded, its descriptors must be closed, and it must stop cleanly.
"""

import os
import struct
import threading
import time
import traceback
from typing import Callable, NamedTuple

import rpc_messages as rpc
from iwarp_peer import REJECTED, REPLY_KEY, Ended, Silence, dial, mpa_frame
from patience import SECONDS
from penstock import Server, penstock
from rdma_messages import RDMA_ERROR, RDMA_NOMSG
from rpc_messages import Client, RpcReply

MIB = 1 << 20
# Limits AddressSanitizer's quarantine and its own stacks, so that the measured growth is the server's.
os.environ.setdefault("ASAN_OPTIONS",
                      "quarantine_size_mb=8:malloc_context_size=8:detect_stack_use_after_return=0")
# The resident memory that a group of attacks may leave behind: pools, caches, and the sanitizer's own.
MAX_GROWTH = 64 * MIB
# The bystander's longest permitted wait. Sanitizers and a busy machine take seconds; a blocked server never answers.
MAX_WAIT = 15


class Case(NamedTuple):
    """One attack: `act` gets the connection, and may return the XID of the expected reply. See below for the expected
    responses."""
    name: str
    section: str
    act: Callable
    expect: object


# ---- expected responses ----

def is_alive(client):
    """The connection still serves, and the next reply belongs to this call, so nothing else was answered."""
    client.call(rpc.NULL)


class Served:
    """The server ignores the message: the next good call is answered first."""

    def check(self, client, xid):
        is_alive(client)


class Terminated:
    """An iWARP Terminate, then the end of the connection (RFC 5040 §4.8)."""

    def __init__(self, layer, kind, code):
        self.terminate = (layer, kind, code)

    def check(self, client, xid):
        ended = client.endpoint.end()
        assert ended.terminate == self.terminate, f"expected a Terminate {self.terminate}, but: {ended}"


class Closed:
    """The connection ends soon, without a Terminate."""

    def __init__(self, within=SECONDS):
        self.within = within

    def check(self, client, xid):
        ended = client.endpoint.end(self.within)
        assert ended.terminate is None, f"{ended}"


class Refused:
    """RDMA_ERROR (RFC 8166 §4.5); the connection stays."""

    def __init__(self, error):
        self.error = error  # (1, low, high): ERR_VERS; (2,): ERR_CHUNK

    def check(self, client, xid):
        answer = client.reply_to(xid)
        assert answer.kind == RDMA_ERROR, f"expected RDMA_ERROR, got procedure {answer.kind}"
        got = struct.unpack(f">{len(answer.body) // 4}I", answer.body)
        assert got == self.error, f"expected the error {self.error}, got {got}"
        is_alive(client)


ERR_VERS, ERR_CHUNK = Refused((1, 1, 1)), Refused((2,))


class Replied:
    """An RPC reply of this status (see RpcReply); the connection stays."""

    def __init__(self, *status):
        self.status = status

    def check(self, client, xid):
        reply = rpc_reply(client, xid)
        assert reply.status[:len(self.status)] == self.status, f"expected {self.status}, got {reply.status}"
        is_alive(client)


class Nfs:
    """An NFS reply with one of these statuses; the connection stays."""

    def __init__(self, *statuses):
        self.statuses = statuses

    def check(self, client, xid):
        reply = rpc_reply(client, xid)
        assert reply.status == ("success",), f"ended with {reply.status}"
        (status,) = struct.unpack_from(">I", reply.results)
        assert status in self.statuses, f"expected a status of {self.statuses}, got {status}"
        is_alive(client)


class Either:
    """One of several responses, where the RFCs leave the choice."""

    def __init__(self, *statuses):
        self.statuses = statuses

    def check(self, client, xid):
        reply = rpc_reply(client, xid)
        got = reply.status
        if got == ("success",) and reply.results:
            (got,) = struct.unpack_from(">I", reply.results)
        assert got in self.statuses, f"expected one of {self.statuses}, got {got}"
        is_alive(client)


class Passed:
    """The case checks the response itself."""

    def check(self, client, xid):
        pass


def rpc_reply(client, xid):
    answer = client.reply_to(xid)
    assert answer.kind != RDMA_ERROR, "an RDMA_ERROR instead of an RPC reply"
    body = answer.body
    if answer.kind == RDMA_NOMSG:
        body = b"".join(bytes(client.endpoint.memory[handle][offset:offset + length])
                        for handle, length, offset in answer.reply)
    reply = RpcReply(body)
    assert reply.xid == xid
    return reply


# ---- the server ----

class Bystander(threading.Thread):
    """The connection of another client, which calls all the time and records its longest wait."""

    def __init__(self, port, path, contents):
        super().__init__(daemon=True)
        self.client, self.contents = Client(port), contents
        self.file = self.client.lookup(self.client.root(), path)
        self.stopping, self.failure, self.longest, self.calls = threading.Event(), None, 0.0, 0

    def run(self):
        try:
            while not self.stopping.wait(0.03):
                began = time.monotonic()
                self.client.call(rpc.NULL)
                self.read()
                self.calls += 2
                self.longest = max(self.longest, time.monotonic() - began)
        except Exception as failure:
            self.failure = failure

    def read(self):
        """Reads 4 KiB by RDMA Write."""
        handle = self.client.offer(bytes(4096))
        message = rpc.call(rpc.READ, rpc.opaque(self.file) + rpc.hyper(0) + rpc.words(4096))
        answer = self.client.exchange(rpc.rdma_call(message, writes=rpc.write_list([(handle, 4096)])))
        assert answer.writes == [[(handle, 4096, 0)]] and RpcReply(answer.body).status == ("success",)
        assert self.client.endpoint.memory.pop(handle) == self.contents[:4096], "wrong data"

    def finish(self):
        self.stopping.set()
        self.join()
        assert self.failure is None, f"the bystander was not served: {self.failure!r}"
        assert self.calls > 0 and self.longest < MAX_WAIT, f"the bystander waited {self.longest:.1f} s"
        self.client.close()


class Attacked:
    """Runs `penstock serve` with a few files and a bystander, and checks at the end that the server is unharmed. Its
    stall limit is longer than any test, so that it does not end connections by itself."""

    def __init__(self, scratch, options=(), max_growth=MAX_GROWTH, threads=2, stall_limit=86400, environment=None):
        self.folder, self.max_growth = f"{scratch}/export", max_growth
        self.environment = environment
        self.options = [f"--threads={threads}", f"--stall-limit={stall_limit}", *options]
        os.makedirs(f"{self.folder}/dir")
        self.contents = os.urandom(256 << 10)
        self.stopped = False  # a case has stopped it and checked it
        for name, contents in (("big", self.contents), ("small", b"0123456789"), ("empty", b"")):
            with open(f"{self.folder}/{name}", "wb") as file:
                file.write(contents)
        for i in range(200):
            open(f"{self.folder}/dir/{i:0>60}", "wb").close()
        os.symlink("small", f"{self.folder}/link")

    def __enter__(self):
        self.server = Server({"/": f"{self.folder}:no_root_squash"}, self.options,
                             environment=self.environment).__enter__()
        self.port, self.tcp, self.mount = self.server.rdma, self.server.tcp, self.server.mount
        self.pid = self.server.process.pid
        self.check_serves()  # This also fills pools and caches.
        self.descriptors = self.count_descriptors()
        self.bystander = Bystander(self.port, b"big", self.contents)
        self.bystander.start()
        time.sleep(0.2)
        self.resident, self.peak = self.resident_octets(), 0
        return self

    def __exit__(self, kind, failure, trace):
        try:
            if failure is None and not self.stopped:
                self.bystander.finish()
                self.check_serves()
                self.check_memory()
                self.check_descriptors()
        except BaseException:
            self.server.kill()
            raise
        # The exit code must be 0; a sanitizer's report makes it different.
        return self.server.__exit__(failure, None, None)

    def check_serves(self):
        assert self.server.process.poll() is None, "the server is gone"
        got = penstock("cat", self.server.url("/small", "rdma"))
        assert (got.returncode, got.stdout) == (0, b"0123456789"), f"cat: {got}"

    def resident_octets(self):
        with open(f"/proc/{self.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def watch_memory(self):
        """Checks during an attack."""
        self.peak = max(self.peak, self.resident_octets() - self.resident)
        return self.peak

    def check_memory(self):
        growth = self.resident_octets() - self.resident
        print(f"resident memory grew by {growth / MIB:.1f} MiB (at most {self.max_growth / MIB:.0f}); seen meanwhile: "
              f"{max(self.peak, growth) / MIB:.1f}; the bystander made {self.bystander.calls} calls and waited "
              f"{self.bystander.longest * 1000:.0f} ms at most", flush=True)
        assert growth <= self.max_growth, f"memory grew by {growth} octets"

    def count_descriptors(self):
        """Returns (sockets, others); others include the files that the file system keeps open."""
        folder, sockets, others = f"/proc/{self.pid}/fd", 0, 0
        for number in os.listdir(folder):
            try:
                is_socket = os.readlink(f"{folder}/{number}").startswith("socket:")
            except FileNotFoundError:
                continue
            sockets, others = sockets + is_socket, others + (not is_socket)
        return sockets, others

    def check_descriptors(self):
        """Waits until the descriptors are back, because orderly closing takes a while."""
        deadline = time.monotonic() + SECONDS
        while (now := self.count_descriptors())[0] > self.descriptors[0] and time.monotonic() < deadline:
            time.sleep(0.1)
        # The file system caches descriptors of the few files, including the 200 in dir.
        assert now[0] <= self.descriptors[0] and now[1] <= self.descriptors[1] + 256, \
            f"(sockets, others) were {self.descriptors}, are {now}"

    def run(self, cases, connect=None):
        """Runs all cases, each on its own connection; fails at the end if any failed."""
        failed = []
        count = 0
        for case in cases:
            count += 1
            try:
                client = (connect or Client)(self.port)
                try:
                    xid = case.act(client)
                    case.expect.check(client, xid)
                finally:
                    client.close()
            except (AssertionError, Ended, Silence, struct.error, OSError) as failure:
                failed.append(case.name)
                print(f"  FAILED {case.name} ({case.section}): {failure!r}", flush=True)
                if not isinstance(failure, AssertionError):
                    traceback.print_exc()
                assert self.server.process.poll() is None, f"the server is gone after {case.name}"
        print(f"{count} cases, {len(failed)} of them failed", flush=True)
        assert not failed, f"{len(failed)} of {count} cases: {failed}"


class Dialled:
    """Replaces a Client for cases that set up their own connections, or none."""

    def __init__(self, port):
        self.port, self.endpoint = port, dial(port)

    def set_up(self, request):
        """Sends an MPA request. If the server accepts it, this object can make calls."""
        self.endpoint.raw(request)
        self.take_reply()

    def take_reply(self):
        key, flags, _, _ = self.endpoint.mpa()
        assert key == REPLY_KEY and not flags & REJECTED
        self.client = Client.__new__(Client)
        self.client.endpoint, self.client.handles = self.endpoint, iter(range(0x1000, 1 << 31))

    def call(self, *arguments):
        return self.client.call(*arguments)

    def close(self):
        self.endpoint.close()


GOOD_REQUEST = mpa_frame()
