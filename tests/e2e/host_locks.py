#!/usr/bin/python3
"""Locks of a host by NLM versions 1, 3 and 4 on the real program. The test plays the host: its port mapper, its lock manager and
its status monitor are at an address of their own. tshark reads what they and the server say."""

import contextlib
import fcntl
import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import namespaces  # noqa: E402
from cases import main  # noqa: E402
from dissected import dissected  # noqa: E402
from lock_host import (  # noqa: E402
    BLOCKED, CANCEL, CANCEL_MSG, CANCEL_RES, DENIED, FREE_ALL, GRACE, GRANTED, GRANTED_IT, LOCK, LOCK_MSG, LOCK_RES, NM_LOCK, NSM,
    SERVER, SHARE, SM_NOTIFY, SM_STAT, STALE, TCP, TEST, TEST_MSG, TEST_RES, TOO_BIG, UDP, UNLOCK, UNLOCK_MSG, UNLOCK_RES, UNSHARE,
    Caller, Lock, LockHost, Results, file_handle)
from penstock import Server  # noqa: E402
from rdma_messages import Words  # noqa: E402
from rpc_messages import opaque, take_opaque, words  # noqa: E402

HERE, THERE = "127.0.0.2", "127.0.0.3"
RES = {TEST_MSG: TEST_RES, LOCK_MSG: LOCK_RES, CANCEL_MSG: CANCEL_RES, UNLOCK_MSG: UNLOCK_RES}


def prepare():
    namespaces.require()
    os.environ["PATH"] += ":/usr/sbin:/sbin"


def server_of(scratch, *options):
    os.makedirs(f"{scratch}/export")
    for name in ("file", "other"):
        with open(f"{scratch}/export/{name}", "wb") as file:
            file.write(bytes(100))
    return Server({"/": f"{scratch}/export:no_root_squash"}, ["--portmap", "--nfs2", "--lease=2", *options])


@contextlib.contextmanager
def talk(scratch, layers, *options):
    """A server and two hosts, read by tshark: yields (server, host, other host)."""
    prepare()
    with server_of(scratch, *options) as server, LockHost(HERE) as host, LockHost(THERE) as other, \
            dissected(scratch, (server.tcp, server.mount, host.port, other.port), ("portmap", *layers)):
        yield server, host, other


def handles(server):
    """{version of NLM: handle of the file}"""
    old = file_handle(server, b"file", 2)
    return {1: old, 3: old, 4: file_handle(server, b"file")}


def forms(scratch):
    """Every procedure, in every version, over both transports: the results come in the reply, or by a call."""
    with talk(scratch, ("nlm", "mount"), "--grace=0") as (server, host, other):
        files = handles(server)
        for version in (1, 3, 4):
            for protocol in (TCP, UDP):
                mine, theirs = (Caller(server.mount, address, protocol) for address in (HERE, THERE))
                lock = Lock("here", files[version], process=7, offset=20, length=30)
                rival = Lock("there", files[version], process=-1, offset=40, length=0, exclusive=False)
                assert mine.call(0, version=version) == b""
                replies(mine, theirs, lock, rival, version)
                messages(host, mine, theirs, lock, rival, version)
                if version != 1:
                    shares(mine, theirs, lock, rival, version)
                    ends(mine, theirs, lock, rival, version)
                mine.close(), theirs.close()


def replies(mine, theirs, lock, rival, version):
    assert mine.lock_call(LOCK, lock, version) == GRANTED_IT
    assert mine.lock_call(LOCK, lock, version) == GRANTED_IT, "a process does not exclude itself"
    assert theirs.lock_call(LOCK, rival, version) == DENIED
    tested = Results(theirs.call(TEST, rival.arguments(TEST, version), version=version), version, with_holder=True)
    assert tested.cookie == b"cook" and tested.status == DENIED, tested.status
    assert tested.holder[:2] == (1, 7) and tested.holder[3:] == (20, 30), tested.holder
    assert mine.lock_call(TEST, lock, version) == GRANTED_IT
    assert theirs.lock_call(CANCEL, rival, version) == DENIED, "nothing to cancel"
    # The middle of a lock is unlocked; the rest stays.
    assert mine.lock_call(UNLOCK, lock._replace(offset=30, length=10), version) == GRANTED_IT
    assert theirs.lock_call(LOCK, rival._replace(offset=30, length=10), version) == GRANTED_IT
    assert theirs.lock_call(LOCK, rival, version) == DENIED
    assert theirs.lock_call(LOCK, rival._replace(offset=20, length=1), version) == DENIED
    assert mine.lock_call(UNLOCK, lock._replace(offset=0, length=0), version) == GRANTED_IT
    assert theirs.lock_call(LOCK, rival, version) == GRANTED_IT
    assert mine.lock_call(LOCK, lock._replace(exclusive=False), version) == GRANTED_IT, "both are shared"
    for caller, each in ((mine, lock), (theirs, rival)):
        assert caller.lock_call(UNLOCK, each._replace(offset=0, length=0), version) == GRANTED_IT
    # A request that waits, and is given up. The lock is not granted afterwards.
    assert mine.lock_call(LOCK, lock, version) == GRANTED_IT
    assert theirs.lock_call(LOCK, rival, version, block=True) == BLOCKED
    assert theirs.lock_call(CANCEL, rival, version, block=True) == GRANTED_IT
    assert mine.lock_call(UNLOCK, lock, version) == GRANTED_IT
    assert mine.lock_call(LOCK, lock._replace(offset=0, length=0), version) == GRANTED_IT, "nobody has it"
    assert mine.lock_call(UNLOCK, lock._replace(offset=0, length=0), version) == GRANTED_IT
    if version == 4:
        assert mine.lock_call(LOCK, lock._replace(handle=b"no handle")) == STALE
        assert mine.lock_call(LOCK, lock._replace(offset=(1 << 64) - 2, length=5)) == TOO_BIG
    else:
        assert mine.lock_call(LOCK, lock._replace(handle=bytes(32)), version) == DENIED
    if version != 1:
        assert mine.lock_call(NM_LOCK, lock, version) == GRANTED_IT
        assert mine.lock_call(UNLOCK, lock, version) == GRANTED_IT


def messages(host, mine, theirs, lock, rival, version):
    """The forms whose results the server sends by a call, over the same transport."""
    assert theirs.lock_call(LOCK, rival, version) == GRANTED_IT

    def results(procedure, of, cookie, **how):
        before = len(host.calls(RES[procedure]))
        assert mine.call(procedure, of.arguments(procedure, version, cookie=cookie, **how), version=version) == b""
        got = host.expect(RES[procedure], count=before + 1)[-1]
        assert (got.version, got.protocol) == (version, mine.protocol), got
        assert got.sender[0] == SERVER and got.sender[1] < 1024, got.sender
        found = Results(got.arguments, version, procedure == TEST_MSG)
        assert found.cookie == cookie, found.cookie
        return found

    tested = results(TEST_MSG, lock, b"")
    assert tested.status == DENIED and tested.holder[:2] == (0, 0xFFFFFFFF) and tested.holder[3:] == (40, 0), tested.holder
    assert results(LOCK_MSG, lock, b"1").status == DENIED
    assert results(LOCK_MSG, lock, bytes(1024), block=True).status == BLOCKED
    assert results(CANCEL_MSG, lock, b"3").status == GRANTED_IT
    assert results(CANCEL_MSG, lock, b"3").status == DENIED
    assert theirs.lock_call(UNLOCK, rival, version) == GRANTED_IT
    assert results(LOCK_MSG, lock, b"four").status == GRANTED_IT
    assert theirs.lock_call(LOCK, rival, version) == DENIED
    assert results(UNLOCK_MSG, lock, b"five5").status == GRANTED_IT
    assert theirs.lock_call(LOCK, rival, version) == GRANTED_IT
    assert theirs.lock_call(UNLOCK, rival, version) == GRANTED_IT


def shares(mine, theirs, lock, rival, version):
    def status(caller, procedure, of, mode, access):
        return Results(caller.call(procedure, of.share(mode, access), version=version)).status

    assert status(mine, SHARE, lock, 2, 1) == GRANTED_IT  # reads, and denies others to write
    assert status(theirs, SHARE, rival, 0, 1) == GRANTED_IT
    assert status(theirs, SHARE, rival._replace(owner=b"second"), 0, 2) == DENIED
    assert status(theirs, SHARE, rival._replace(owner=b"third"), 1, 2) == DENIED
    assert status(mine, UNSHARE, lock, 2, 1) == GRANTED_IT
    assert status(theirs, SHARE, rival._replace(owner=b"second"), 0, 2) == GRANTED_IT
    for owner in (b"owner", b"second"):
        assert status(theirs, UNSHARE, rival._replace(owner=owner), 0, 0) == GRANTED_IT


def ends(mine, theirs, lock, rival, version):
    """FREE_ALL ends the locks and shares of the host that says so, and of no other host."""
    assert mine.lock_call(LOCK, lock, version) == GRANTED_IT
    assert theirs.lock_call(LOCK, rival._replace(offset=100), version) == GRANTED_IT
    assert Results(mine.call(SHARE, lock.share(2, 1), version=version)).status == GRANTED_IT
    assert mine.call(FREE_ALL, opaque(b"here") + words(3), version=version) == b""
    assert theirs.lock_call(LOCK, rival, version) == GRANTED_IT
    assert mine.lock_call(LOCK, lock._replace(offset=100), version) == DENIED
    assert Results(theirs.call(SHARE, rival.share(0, 2), version=version)).status == GRANTED_IT
    assert theirs.call(FREE_ALL, opaque(b"there") + words(3), version=version) == b""
    assert mine.lock_call(LOCK, lock._replace(offset=0, length=0), version) == GRANTED_IT
    assert mine.lock_call(UNLOCK, lock._replace(offset=0, length=0), version) == GRANTED_IT


def waits(scratch):
    """A request that waits is granted by a call, over the transport of the request, once the lock is free. A program on the
    server's host excludes hosts, and is excluded."""
    with talk(scratch, ("nlm",), "--grace=0") as (server, host, other):
        files, count = handles(server), 0
        for version in (1, 3, 4):
            for protocol in (TCP, UDP):
                mine, theirs = (Caller(server.mount, address, protocol) for address in (HERE, THERE))
                lock = Lock("here", files[version], process=count, offset=5, length=0, owner=b"mine")
                rival = Lock("there", files[version])
                assert theirs.lock_call(LOCK, rival, version) == GRANTED_IT
                assert mine.lock_call(LOCK, lock, version, block=True) == BLOCKED
                assert mine.lock_call(LOCK, lock, version, block=True) == BLOCKED, "the request is sent again"
                assert not host.calls(GRANTED)[count:]
                assert theirs.lock_call(UNLOCK, rival, version) == GRANTED_IT
                count += 1
                got = host.expect(GRANTED, count=count)[-1]
                assert (got.version, got.protocol) == (version, protocol) and got.sender[0] == SERVER, got
                assert got.sender[1] < 1024, got.sender
                assert got.lock() == (lock.process, 5, 0, True, "here", lock.handle, b"mine"), got.lock()
                assert theirs.lock_call(LOCK, rival, version) == DENIED
                assert mine.lock_call(UNLOCK, lock, version) == GRANTED_IT
                mine.close(), theirs.close()
        mine = Caller(server.mount, HERE)
        lock = Lock("here", files[4])
        with open(f"{scratch}/export/file", "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert mine.lock_call(LOCK, lock) == DENIED
            assert Results(mine.call(TEST, lock.arguments(TEST)), with_holder=True).holder is not None
            assert mine.lock_call(LOCK, lock, block=True) == BLOCKED
            fcntl.lockf(file, fcntl.LOCK_UN)
            host.expect(GRANTED, count=count + 1)
            refused(file)
            assert mine.lock_call(UNLOCK, lock) == GRANTED_IT
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A process that no longer waits refuses the lock. The server gives it to the next one.
        host.grant = lambda _: DENIED
        assert mine.lock_call(LOCK, lock) == GRANTED_IT
        assert mine.lock_call(LOCK, lock._replace(process=2), block=True) == BLOCKED
        theirs = Caller(server.mount, THERE)
        assert theirs.lock_call(LOCK, lock._replace(host="there"), block=True) == BLOCKED
        assert mine.lock_call(UNLOCK, lock) == GRANTED_IT
        other.expect(GRANTED)
        mine.close(), theirs.close()


def refused(file):
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    raise AssertionError("a local program has got a lock that a host holds")


def state_in(notice):
    reader = Words(notice.arguments)
    return take_opaque(reader).decode(), reader.word()


def restart(scratch):
    """After a restart the server tells each host that had a lock, by both names that the host may know. The host reclaims; others
    wait for the end of the grace period. A host that was not known reclaims nothing."""
    with talk(scratch, ("nlm", "stat"), "--grace=3") as (server, host, other):
        file = file_handle(server, b"file")
        mine, theirs = Caller(server.mount, HERE), Caller(server.mount, THERE)
        lock, rival = Lock("here", file), Lock("there", file)
        while (status := mine.lock_call(LOCK, lock)) == GRACE:
            time.sleep(0.1)
        assert status == GRANTED_IT
        earlier = Words(mine.call(SM_STAT, opaque(b"here"), NSM, 1))
        assert earlier.word() == 0
        earlier = earlier.word()
        mine.close(), theirs.close()
        server.kill()
        server.start()
        mine, theirs = Caller(server.mount, HERE), Caller(server.mount, THERE)
        assert mine.lock_call(LOCK, lock._replace(offset=50)) == GRACE
        assert theirs.lock_call(LOCK, rival) == GRACE
        assert theirs.lock_call(TEST, rival) == GRACE
        assert theirs.lock_call(LOCK, rival._replace(offset=50), reclaim=True) == DENIED, "the host had no lock"
        assert mine.lock_call(LOCK, lock, reclaim=True) == GRANTED_IT
        notices = host.expect(SM_NOTIFY, NSM, 2)
        assert {state_in(notice)[0] for notice in notices} == {SERVER, socket.gethostname()}, notices
        for notice in notices:
            state = state_in(notice)[1]
            assert state % 2 == 1 and state > earlier, (state, earlier)
            assert notice.sender[0] == SERVER and notice.sender[1] < 1024, notice.sender
        assert earlier % 2 == 1 and not other.calls(SM_NOTIFY, NSM)
        with open(f"{scratch}/export/file", "r+b") as local:
            refused(local)
        while (status := theirs.lock_call(LOCK, rival)) == GRACE:
            time.sleep(0.1)
        assert status == DENIED
        assert theirs.lock_call(LOCK, rival, reclaim=True) == GRACE, "too late"
        # The host starts again, and says so over either transport. A repeated message does not end its new locks.
        for number, protocol in ((5, TCP), (7, UDP)):
            monitor = Caller(server.mount, HERE, protocol)
            assert monitor.call(SM_NOTIFY, opaque(b"here.example.org") + words(number), NSM, 1) == b""
            assert theirs.lock_call(LOCK, rival) == GRANTED_IT
            assert theirs.lock_call(UNLOCK, rival) == GRANTED_IT
            assert mine.lock_call(LOCK, lock) == GRANTED_IT
            assert monitor.call(SM_NOTIFY, opaque(b"here") + words(number), NSM, 1) == b""
            assert theirs.lock_call(LOCK, rival) == DENIED
            monitor.close()
        mine.close(), theirs.close()


if __name__ == "__main__":
    namespaces.enter()
    main({case.__name__: case for case in (forms, waits, restart)})
