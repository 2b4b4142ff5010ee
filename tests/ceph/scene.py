"""What the tests of exports of CephFS share: a cluster, its gateways, and mounts of the gateways by the Python module.

A gateway is a `penstock serve` with an export of CephFS."""

import contextlib
import errno
import os
import random
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
HARNESS = os.path.join(HERE, "..", "harness")
sys.path.insert(0, HARNESS)
import files  # noqa: E402, F401 (for the scripts: served.py takes the harness from the search path)
import nfs4_callbacks  # noqa: E402, F401 (as files)
import penstock as program  # noqa: E402
from cases import Skip  # noqa: E402
from ceph import Cluster, programs  # noqa: E402
from cephfs import NativeClient  # noqa: E402
from patience import SECONDS, wait_until  # noqa: E402
import trees  # noqa: E402, F401 (as files)

sys.path.insert(0, os.path.join(HERE, "..", "..", "python", "tests"))
from served import penstock  # noqa: E402 (the Python module; without it this skips the test)

EVERY_WAY = [(transport, version) for version in ("3", "4.0", "4.1", "4.2") for transport in ("tcp", "rdma")]
MODULE = os.path.join(os.path.dirname(os.path.abspath(program.PENSTOCK)), "penstock-ceph.so")
SHORT_LEASE = "--lease=5", "--grace=5"


def require():
    """Skips the test if this build has no CephFS, or the host has no Ceph."""
    if not os.path.exists(MODULE):
        raise Skip("this build has no penstock-ceph.so (libcephfs-dev)")
    programs()


class Scene:
    """A context manager: a cluster with a native client of its file system. Its gateways export the directory /export, where
    every user may write."""

    def __init__(self, **how):
        require()
        self.cluster = Cluster(**how)

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.cluster)
            self.native = stack.enter_context(NativeClient(self.cluster))
            self.native.makedirs("/export")
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *why):
        return self.stack.__exit__(*why)

    def location(self, path="/export", **options):
        """Returns the argument of an export for this path of the file system."""
        return f"ceph:{path}?" + "&".join(f"{name}={value}" for name, value in ({"conf": self.cluster.conf} | options).items())

    def gateway(self, at="/", more=None, ports=None):
        """Returns a server that exports /export under the path `at`. `more` are more exports."""
        return program.Server({at: f"{self.location()}:no_root_squash"} | (more or {}), SHORT_LEASE, ports)


def url(server, path="/", transport="tcp", version="4.1"):
    return server.url(path, transport).replace("vers=3", f"vers={version}")


def mount(server, transport="tcp", version="4.1", path="/", more=""):
    """Returns a mount by the Python module. `more` are more options of its URL."""
    return penstock.connect(url(server, path, transport, version) + more)


def fails(call, *codes):
    """Requires that the call fails with one of these errors."""
    try:
        call()
    except OSError as why:
        assert why.errno in codes, why
    else:
        raise AssertionError(f"no error {[errno.errorcode[code] for code in codes]}")


def rewritten(write):
    """Calls write(), which writes and syncs a file. A server that has lost unstable data reports EIO, and then the client must
    write the data again."""
    for _ in range(20):
        try:
            return write()
        except OSError as why:
            if why.errno != errno.EIO:
                raise
            print(f"written again: {why}", flush=True)
    raise AssertionError("the server loses all data that is written")


class Slot:
    """A path of the load, with the contents that the file there must have (None: no file), and the lock of both."""

    def __init__(self, path):
        self.path, self.content, self.lock = path, None, threading.Lock()


class Load:
    """Mixed operations on the files of one directory, through several mounts at the same time, each with a thread of its own.
    A thread locks a file while it uses it, and closes it at the end. So each operation must see the results of all earlier
    ones, through whichever mount. The model has every octet.

    `retried`: the gateway fails. Clients then send requests again, which may have been executed, and write lost data again."""

    FOLDER, FILES, SIZE = "load", 24, 200_000  # the largest size of a file

    def __init__(self, mounts, retried=False):
        self.mounts, self.retried = mounts, retried
        self.slots = [Slot(f"{self.FOLDER}/{number}") for number in range(self.FILES)]
        self.failures, self.done, self.stopped, self.counting = [], 0, threading.Event(), threading.Lock()
        mounts[0].mkdir(self.FOLDER)

    @contextlib.contextmanager
    def running(self):
        """Runs the threads during a with statement. Then stops them and checks all files."""
        threads = [threading.Thread(target=self._work, args=(each, number), daemon=True) for number, each in enumerate(self.mounts)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopped.set()
            for thread in threads:
                thread.join(SECONDS)
        assert not any(thread.is_alive() for thread in threads), "an operation does not end"
        self._check()

    def await_progress(self, operations=40):
        """Waits until the threads have done so many more operations."""
        until = self.done + operations
        wait_until(lambda: self.failures or self.done >= until, "the load has stopped")
        assert not self.failures, self.failures

    def _check(self):
        """Compares all files with the model, through each mount."""
        assert not self.failures, self.failures
        wanted = {slot.path.rpartition("/")[2]: slot.content for slot in self.slots if slot.content is not None}
        for each in self.mounts:
            assert sorted(each.listdir(self.FOLDER)) == sorted(wanted), each.url
            for name, content in wanted.items():
                same(each.read_bytes(f"{self.FOLDER}/{name}"), content, f"{each.url}: {name}")
        print(f"{self.done} operations", flush=True)

    def _work(self, client, seed):
        chance = random.Random(seed)
        try:
            while not self.stopped.is_set() and not self.failures:
                self._one(client, chance)
                with self.counting:
                    self.done += 1
        except Exception as why:
            self.failures.append(f"{client.url}: {why!r}")
            raise

    def _one(self, client, chance):
        kind = chance.choices(("write", "read", "rename", "remove", "truncate", "missing"), (6, 6, 1, 1, 1, 1))[0]
        first, second = chance.sample(self.slots, 2)
        if kind == "rename":
            low, high = sorted((first, second), key=lambda slot: slot.path)
            with low.lock, high.lock:
                self._rename(client, first, second)
            return
        with first.lock:
            if first.content is None:
                if kind == "missing":
                    assert not client.exists(first.path), f"{first.path} exists"
                else:
                    self._create(client, first, chance)
            elif kind in ("read", "missing"):
                same(client.read_bytes(first.path), first.content, first.path)
                assert client.stat(first.path).st_size == len(first.content), first.path
            elif kind == "write":
                self._write(client, first, chance)
            elif kind == "truncate":
                size = chance.randrange(self.SIZE)
                client.truncate(first.path, size)
                first.content = first.content[:size] + bytes(max(0, size - len(first.content)))
            else:
                self._unlink(client, first)

    def _create(self, client, slot, chance):
        octets = chance.randbytes(chance.randrange(self.SIZE))
        with client.open(slot.path, "xb", buffering=0):
            pass
        slot.content = b""
        self._store(client, slot, 0, octets)

    def _write(self, client, slot, chance):
        self._store(client, slot, chance.randrange(self.SIZE), chance.randbytes(chance.choice((1, 100, 4096, 60_000))))

    def _store(self, client, slot, offset, octets):
        def write():
            with client.open(slot.path, "r+b", buffering=0) as file:
                file.pwrite(octets, offset)
        rewritten(write) if self.retried else write()
        if octets:
            before = slot.content + bytes(max(0, offset - len(slot.content)))
            slot.content = before[:offset] + octets + before[offset + len(octets):]

    def _rename(self, client, first, second):
        if first.content is None:
            return
        try:
            client.rename(first.path, second.path)
        except FileNotFoundError:
            if not self.retried:
                raise
        assert not client.exists(first.path), f"{first.path} exists after it was renamed"
        first.content, second.content = None, first.content
        same(client.read_bytes(second.path), second.content, second.path)

    def _unlink(self, client, slot):
        try:
            client.unlink(slot.path)
        except FileNotFoundError:
            if not self.retried:
                raise
        slot.content = None


def same(got, wanted, what):
    if got != wanted:
        first = next((at for at, (one, other) in enumerate(zip(got, wanted)) if one != other), min(len(got), len(wanted)))
        raise AssertionError(f"{what}: {len(got)} octets, wanted {len(wanted)}; the first difference is at {first}")
