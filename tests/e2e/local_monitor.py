#!/usr/bin/python3
"""Locks of hosts beside the status monitor of the server's host, rpc.statd: it has the place in rpcbind, so hosts tell it that
they have started again, and it passes that on to the server. The test plays the hosts; tshark reads what all of them say."""

import contextlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import namespaces  # noqa: E402
from cases import main  # noqa: E402
from dissected import dissected  # noqa: E402
from lock_host import DENIED, GRANTED_IT, NSM, SM_NOTIFY, UDP, UNLOCK, LOCK, Caller, Lock, file_handle  # noqa: E402
from penstock import Server  # noqa: E402
from port_mapping import listening, ports, prepare, rpcbind, until  # noqa: E402
from rpc_messages import opaque, words  # noqa: E402

HERE, THERE = "127.0.0.2", "127.0.0.3"


def server_of(scratch, listen="0.0.0.0"):
    os.makedirs(f"{scratch}/export", exist_ok=True)
    with open(f"{scratch}/export/file", "wb") as file:
        file.write(bytes(100))
    return listening(Server({"/": f"{scratch}/export:no_root_squash"}, ["--grace=0"]), listen)


def statd_port():
    return ports().get((NSM, 1, "udp"))


@contextlib.contextmanager
def statd(scratch):
    """Runs rpc.statd. It has a file for each address that it watches, in the folder that this yields."""
    kept = f"{scratch}/statd"
    for folder in (kept, f"{kept}/sm", f"{kept}/sm.bak"):
        os.makedirs(folder, exist_ok=True)
    before = statd_port()
    with open(f"{scratch}/statd.log", "ab") as log, \
            subprocess.Popen(["rpc.statd", "-F", "-d", "--no-notify", "-P", kept], stdin=subprocess.DEVNULL, stdout=log,
                             stderr=log) as process:
        try:
            until(lambda: statd_port() not in (None, before), "rpc.statd is registered")
            yield f"{kept}/sm"
        finally:
            process.terminate()


def watched(folder):
    return sorted(os.listdir(folder))


def restarts(host, number):
    """The host says to the status monitor of the server's host that it has started again."""
    monitor = Caller(statd_port(), host, UDP)
    assert monitor.call(SM_NOTIFY, opaque(host.encode()) + words(number), NSM, 1) == b""
    monitor.close()


def watches(scratch):
    """rpc.statd was there first. It watches the hosts that lock files, and their locks end when it learns of a restart."""
    prepare("rpcbind", "rpc.statd")
    with rpcbind(), statd(scratch) as folder, server_of(scratch) as server, \
            dissected(scratch, (server.tcp, server.mount, statd_port()), ("nlm", "stat", "mount")):
        handle = file_handle(server, b"file")
        mine, theirs = Caller(server.mount, HERE), Caller(server.mount, THERE)
        lock, rival = Lock("here", handle), Lock("there", handle)
        assert mine.lock_call(LOCK, lock) == GRANTED_IT
        assert theirs.lock_call(LOCK, rival._replace(offset=50)) == GRANTED_IT
        until(lambda: watched(folder) == [HERE, THERE], "rpc.statd watches both hosts")
        assert theirs.lock_call(LOCK, rival) == DENIED
        restarts(HERE, 5)
        until(lambda: theirs.lock_call(LOCK, rival) == GRANTED_IT, "the locks of the host that has started again end")
        assert mine.lock_call(LOCK, lock._replace(offset=50)) == DENIED, "those of the other host stay"
        # The host tells the server of the same restart: new locks stay.
        assert theirs.lock_call(UNLOCK, rival) == GRANTED_IT
        assert mine.lock_call(LOCK, lock) == GRANTED_IT
        assert mine.call(SM_NOTIFY, opaque(b"here") + words(5), NSM, 1) == b""
        assert theirs.lock_call(LOCK, rival) == DENIED
        mine.close(), theirs.close()
        assert server.stop() == 0
        assert not watched(folder), "nothing is left for the next start of this host"


def one_name(scratch):
    """Addresses with one name are watched one by one, so that each restart is told."""
    prepare("rpcbind", "rpc.statd")
    with open(f"{scratch}/hosts", "w") as hosts:
        hosts.write(f"127.0.0.1 localhost\n{HERE} twin\n{THERE} twin\n")
    subprocess.run(["mount", "--bind", f"{scratch}/hosts", "/etc/hosts"], check=True)
    with rpcbind(), statd(scratch), server_of(scratch) as server:
        handle = file_handle(server, b"file")
        callers = {host: Caller(server.mount, host) for host in (HERE, THERE)}
        third = Caller(server.mount, "127.0.0.4")
        for number, restarted in ((5, HERE), (7, THERE)):
            rivals = []
            for offset, (host, caller) in enumerate(callers.items()):
                assert caller.lock_call(LOCK, Lock(host, handle, offset=100 * offset)) == GRANTED_IT
                rivals.append(Lock("third", handle, offset=100 * offset))
                assert third.lock_call(LOCK, rivals[-1]) == DENIED
            restarts(restarted, number)
            # rpc.statd does not tell the two apart, so all their locks end.
            for rival in rivals:
                until(lambda: third.lock_call(LOCK, rival) == GRANTED_IT, f"the locks end when {restarted} has started again")
                assert third.lock_call(UNLOCK, rival) == GRANTED_IT
        for each in (*callers.values(), third):
            each.close()


def starts_again(scratch):
    """A run of the server ends what an earlier one has asked of rpc.statd. When rpc.statd ends, the server takes its place."""
    prepare("rpcbind", "rpc.statd")
    with rpcbind(), contextlib.ExitStack() as monitor:
        folder = monitor.enter_context(statd(scratch))
        with server_of(scratch) as server:
            handle = file_handle(server, b"file")
            mine = Caller(server.mount, HERE)
            assert mine.lock_call(LOCK, Lock("here", handle)) == GRANTED_IT
            until(lambda: watched(folder) == [HERE], "rpc.statd watches the host")
            mine.close()
            server.kill()
            server.start()
            theirs = Caller(server.mount, THERE)
            assert theirs.lock_call(LOCK, Lock("there", handle)) == GRANTED_IT
            until(lambda: watched(folder) == [THERE], "rpc.statd watches the hosts of this run")
            restarts(THERE, 7)
            mine = Caller(server.mount, HERE)
            until(lambda: mine.lock_call(LOCK, Lock("here", handle)) == GRANTED_IT, "the locks of the host that has started again end")
            monitor.close()
            until(lambda: statd_port() == server.mount, "the server is the status monitor")
            restarts(HERE, 9)
            assert theirs.lock_call(LOCK, Lock("there", handle)) == GRANTED_IT
            mine.close(), theirs.close()


def cannot_reach_the_server(scratch):
    """A server that listens on one address is out of the reach of rpc.statd, which speaks to 127.0.0.1: the log says so."""
    prepare("rpcbind", "rpc.statd")
    subprocess.run(["ip", "address", "add", "198.51.100.1/24", "dev", "lo"], check=True)
    with rpcbind(), statd(scratch), server_of(scratch, "198.51.100.1") as server:
        server.expect_line("which speaks to 127.0.0.1 and not to 198.51.100.1")


if __name__ == "__main__":
    namespaces.enter()
    main({case.__name__: case for case in (watches, one_name, starts_again, cannot_reach_the_server)})
