#!/usr/bin/python3
"""Signals and process limits of a server: SIGTERM always ends it, other signals do not."""

import os
import resource
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import main  # noqa: E402
from files import make  # noqa: E402
from penstock import Server, penstock_ok as ok, penstock_refused as refused, under_way  # noqa: E402


def export_of(scratch):
    os.makedirs(f"{scratch}/export")
    os.chmod(f"{scratch}/export", 0o777)
    make(f"{scratch}/export/file", 2 << 20)
    return f"{scratch}/export:no_root_squash"


def terminates_beside_a_stuck_write(scratch):
    """A thread that never returns from a write does not block the end of the server. The server writes its trace
    to a FIFO without a reader, which imitates a hanging disk."""
    os.mkfifo(f"{scratch}/trace")
    reader = os.open(f"{scratch}/trace", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with Server({"/": export_of(scratch)}, [f"--trace={scratch}/trace"]) as server:
            ok("cp", "-q", server.url("/file", "rdma"), f"{scratch}/got")
            assert server.stop() == 0
    finally:
        os.close(reader)


def terminates_beside_clients_that_vanish(scratch):
    """Clients are killed in the middle of their writes."""
    make(f"{scratch}/big", 64 << 20)
    with Server({"/": export_of(scratch)}) as server:
        for transport in ("tcp", "rdma"):
            with under_way("cp", "-q", "--in-flight=64", f"{scratch}/big", server.url(f"/{transport}", transport)):
                while not os.path.exists(f"{scratch}/export/{transport}"):
                    assert server.process.poll() is None
        assert server.stop() == 0


def hangup(scratch):
    """SIGHUP, as from a closing terminal: the server reads its configuration again, finds no change, and continues."""
    with Server({"/": export_of(scratch)}) as server:
        for _ in range(3):
            server.process.send_signal(signal.SIGHUP)
            ok("cat", server.url("/file", "tcp"))
        server.expect_line("SIGHUP: the configuration is the same as before")


def file_size_limit(scratch):
    """A write beyond the process's limit of a file's size fails, and the server continues."""
    make(f"{scratch}/big", 4 << 20)
    with Server({"/": export_of(scratch)}) as server:
        unlimited = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        for version in ("3", "4.2"):
            ok("ls", server.url("/", "tcp").replace("vers=3", f"vers={version}"))
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (2 << 20, unlimited[1]))
        for version in ("3", "4.2"):
            refused("cp", "-q", f"{scratch}/big", server.url("/new", "tcp").replace("vers=3", f"vers={version}"), mentions=["too large"])
            ok("cat", server.url("/file", "tcp"))


def no_grace(scratch):
    """--grace 0: after a restart, opens do not wait for clients that may reclaim."""
    make(f"{scratch}/big", 64 << 20)
    make(f"{scratch}/small", 10)
    with Server({"/": export_of(scratch)}, ["--grace=0", "--lease=3600"]) as server:
        for version in ("4.0", "4.2"):
            def url(path):
                return server.url(path, "tcp").replace("vers=3", f"vers={version}")

            with under_way("cp", "-q", f"{scratch}/big", url(f"/big{version}")):
                while not os.path.exists(f"{scratch}/export/big{version}"):
                    assert server.process.poll() is None
                server.kill()
            server.start()
            ok("cp", "-q", f"{scratch}/small", url(f"/small{version}"))


main({case.__name__: case for case in (
    terminates_beside_a_stuck_write, terminates_beside_clients_that_vanish, hangup, file_size_limit, no_grace)})
