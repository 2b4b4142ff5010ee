#!/usr/bin/python3
"""Files that are reached in several ways: through two exports of one directory, and by programs on the server's host."""

import fcntl
import os
import signal
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import nfs4_messages as nfs4  # noqa: E402
import rpc_messages as rpc  # noqa: E402
from cases import main  # noqa: E402
from nfs4_callbacks import CalledClient  # noqa: E402
from nfs4_messages import BOTH, Confirmed, Owner, Session, compound, look_up, op, putfh  # noqa: E402
from patience import SECONDS, wait_until  # noqa: E402
from penstock import Server  # noqa: E402
from rpc_messages import opaque  # noqa: E402
from tcp_peer import TcpClient  # noqa: E402

WHOLE = (1 << 64) - 1
DENY_WRITE = 2
EXPORT_AT, EXPORT_SIZE = 1, 4  # in a handle
NFS3_GETATTR = 1


def directory_of(scratch):
    path = f"{scratch}/export"
    os.makedirs(path)
    os.chmod(path, 0o777)
    with open(f"{path}/file", "wb") as file:
        file.write(bytes(1000))
    os.chmod(f"{path}/file", 0o666)
    return path


def twice(path):
    return {"/one": f"{path}:no_root_squash", "/two": f"{path}:no_root_squash"}


def deny_op(speaker, owner, name, deny):
    return nfs4.open_op(speaker.client, owner, name, BOTH | nfs4.NO_DELEGATION, deny)


def two_exports(scratch):
    """Share denials and locks apply through each export of the directory, in all minor versions."""
    path = directory_of(scratch)
    with Server(twice(path)) as server:
        client = TcpClient(server.tcp)
        for minor in (1, 2):
            one, two = (Session(client, owner, minor) for owner in (b"one %d" % minor, b"two %d" % minor))
            first, second = look_up(client, b"one"), look_up(client, b"two")

            opened = one.run(client, [putfh(first), deny_op(one, b"owner", b"file", DENY_WRITE), op(nfs4.GETFH)])
            file, stateid = opened.value(nfs4.GETFH), opened.value(nfs4.OPEN)["stateid"]
            assert two.run(client, [putfh(second), deny_op(two, b"owner", b"file", 0)]).status == nfs4.SHARE_DENIED
            assert one.run(client, [putfh(file), nfs4.close_op(stateid)]).status == nfs4.OK

            file, stateid = Owner(one, b"owner").open(client, first, b"file")
            again, other = Owner(two, b"owner").open(client, second, b"file")
            assert file != again
            lock = one.run(client, [putfh(file), nfs4.lock_op(one.client, b"locker", stateid, 0, 10)]).value(nfs4.LOCK)
            denied = two.run(client, [putfh(again), nfs4.lock_op(two.client, b"locker", other, 5, 10)])
            assert denied.status == nfs4.DENIED and struct.pack(">Q", one.client) in denied.octets, denied.status
            # One client's state belongs to one handle.
            assert one.run(client, [putfh(again), nfs4.write_op(stateid, 0, b"text")]).status == nfs4.BAD_STATEID
            assert one.run(client, [putfh(file), nfs4.locku_op(lock, 0, WHOLE)]).status == nfs4.OK
            assert two.run(client, [putfh(again), nfs4.lock_op(two.client, b"locker", other, 5, 10)]).status == nfs4.OK
            assert one.run(client, [putfh(file), nfs4.close_op(stateid)]).status == nfs4.OK
            assert two.run(client, [putfh(again), nfs4.close_op(other)]).status == nfs4.OK
        client.close()


def is_locked(file, kind, start, length):
    """Returns True if another lock conflicts with one that this program requests."""
    try:
        fcntl.lockf(file, kind | fcntl.LOCK_NB, length, start)
    except BlockingIOError:
        return True
    fcntl.lockf(file, fcntl.LOCK_UN, length, start)
    return False


def local_locks(scratch):
    """Local programs see the locks of clients, and clients see the locks of programs."""
    path = directory_of(scratch)
    with Server({"/": f"{path}:no_root_squash"}) as server, open(f"{path}/file", "r+b") as local:
        client = TcpClient(server.tcp)
        for speaker in (Confirmed(client, b"of 4.0"), Session(client, b"of 4.1", 1)):
            owner = Owner(speaker, b"owner")
            file, stateid = owner.open(client, look_up(client), b"file")
            held = speaker.run(client, [putfh(file), owner.lock_op(stateid, 0, 10)]).value(nfs4.LOCK)
            assert is_locked(local, fcntl.LOCK_SH, 5, 1) and not is_locked(local, fcntl.LOCK_EX, 10, 0)

            fcntl.lockf(local, fcntl.LOCK_EX, 10, 100)
            more = nfs4.lock_op(speaker.client, owner.name, held, 50, 100, new=False, lock_seqid=1)
            denied = speaker.run(client, [putfh(file), more])
            assert denied.status == nfs4.DENIED, denied.status
            assert b"process %d on the server" % os.getpid() in denied.octets
            for name in (owner.name, b"somebody else"):
                test = nfs4.lockt_op(speaker.client, name, 105, 1)
                assert speaker.run(client, [putfh(file), test]).status == nfs4.DENIED
            fcntl.lockf(local, fcntl.LOCK_UN, 10, 100)
            assert speaker.run(client, [putfh(file), nfs4.lockt_op(speaker.client, b"somebody else", 105, 1)]).status == nfs4.OK
            again = nfs4.lock_op(speaker.client, owner.name, held, 100, 10, new=False, lock_seqid=2)
            held = speaker.run(client, [putfh(file), again]).value(nfs4.LOCK)
            assert is_locked(local, fcntl.LOCK_SH, 100, 1)

            held = speaker.run(client, [putfh(file), nfs4.locku_op(held, 0, 5, seqid=3)]).value(nfs4.LOCKU)
            assert not is_locked(local, fcntl.LOCK_EX, 0, 5) and is_locked(local, fcntl.LOCK_EX, 5, 1)
            # The remaining locks end with the open.
            if speaker.minor == 0:
                assert speaker.run(client, [putfh(file), nfs4.locku_op(held, 0, WHOLE, seqid=4)]).status == nfs4.OK
            assert speaker.run(client, [putfh(file), nfs4.close_op(stateid, owner.next_seqid())]).status == nfs4.OK
            assert not is_locked(local, fcntl.LOCK_EX, 0, 0)
        client.close()


OPENS = "import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY), b'changed')"
TRUNCATES = "import os, sys; os.truncate(sys.argv[1], 7)"
TRIES = "import os, sys; os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK)"


class LocalProgram:
    """Runs a program for the duration of a with statement."""

    def __init__(self, code, path):
        self.process = subprocess.Popen([sys.executable, "-c", code, path], stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def end(self):
        """Returns its exit code and its last output."""
        _, errors = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, errors.decode()


def delegated(session, client, name, *directory):
    """Returns (the file's handle, the read delegation from opening it, or None)."""
    open_file = nfs4.open_op(session.client, b"owner", name, nfs4.READ_ACCESS | nfs4.READ_DELEGATION)
    opened = session.run(client, [putfh(look_up(client, *directory)), open_file, op(nfs4.GETFH)])
    return opened.value(nfs4.GETFH), opened.value(nfs4.OPEN)["delegation"]


def local_opens(scratch):
    """A local program that opens a file for writing, or truncates it, waits until the client has returned its
    delegation."""
    path = directory_of(scratch)
    cases = {b"opened": OPENS, b"truncated": TRUNCATES, b"tried": TRIES}
    for name in (*cases, b"written", b"own", b"left"):
        with open(f"{path}/{name.decode()}", "wb") as file:
            file.write(bytes(1000))
    with Server({"/": f"{path}:no_root_squash"}) as server:
        client = CalledClient(server.tcp)
        session = Session(client, b"holder", 1, nfs4.CONN_BACK_CHAN)
        for name, code in cases.items():
            file, delegation = delegated(session, client, name)
            assert delegation, name
            at = f"{path}/{name.decode()}"
            with LocalProgram(code, at) as program:
                recalled, handle = client.take_recall()
                assert recalled[4:] == delegation[4:] and handle == file
                with open(at, "rb") as now:
                    assert now.read() == bytes(1000), "the file was changed while it was delegated"
                returned = session.run(client, [putfh(file), op(nfs4.DELEGRETURN, delegation)])
                assert returned.status == nfs4.OK, returned.status
                ended, errors = program.end()
                if code == TRIES:
                    assert ended == 1 and "BlockingIOError" in errors, errors
                else:
                    assert ended == 0, errors
        assert os.path.getsize(f"{path}/truncated") == 7
        with open(f"{path}/opened", "rb") as changed:
            assert changed.read(7) == b"changed"

        # An existing writer prevents delegations, unless it is the server itself.
        with open(f"{path}/written", "r+b"):
            _, none = delegated(session, client, b"written")
            assert none is None
        file, stateid = Owner(session, b"writer").open(client, look_up(client), b"written")
        assert session.run(client, [putfh(file), nfs4.write_op(stateid, 0, b"text", 0)]).status == nfs4.OK
        assert session.run(client, [putfh(file), nfs4.close_op(stateid)]).status == nfs4.OK
        file, delegation = delegated(session, client, b"written")
        assert delegation
        # A write of the holder recalls nothing, and goes to the disk at once.
        own, _ = delegated(session, client, b"own")
        _, stateid = Owner(session, b"writer of its own").open(client, look_up(client), b"own")
        assert session.run(client, [putfh(own), nfs4.write_op(stateid, 0, b"text")]).status == nfs4.OK
        assert not client.recalls
        # Another client's operation continues after the return; then the file has no delegation.
        other = Session(client, b"other", 1)
        write = [putfh(file), nfs4.open_op(other.client, b"owner", b"", BOTH | nfs4.NO_DELEGATION, by_handle=True)]
        assert other.run(client, write).status == nfs4.DELAY
        assert client.take_recall()[0][4:] == delegation[4:]
        assert session.run(client, [putfh(file), op(nfs4.DELEGRETURN, delegation)]).status == nfs4.OK
        stateid = other.run(client, write).value(nfs4.OPEN)["stateid"]
        assert other.run(client, [putfh(file), nfs4.write_op(stateid, 0, b"news")]).status == nfs4.OK
        assert other.run(client, [putfh(file), nfs4.close_op(stateid)]).status == nfs4.OK

        # If the server stops while a program waits, both continue until the server has stopped.
        delegated(session, client, b"left")
        with LocalProgram(OPENS, f"{path}/left") as program:
            client.take_recall()
            assert server.stop() == 0
            assert program.end()[0] == 0
        client.close()


def read_locks_beside_a_delegation(scratch):
    """A shared lock recalls no read delegation, through either export of the directory."""
    path = directory_of(scratch)
    with open(f"{path}/last", "wb") as file:
        file.write(bytes(1000))
    with Server(twice(path)) as server:
        client, locker = CalledClient(server.tcp), TcpClient(server.tcp)
        holder, other = Session(client, b"holder", 1, nfs4.CONN_BACK_CHAN), Session(locker, b"locker", 1)
        for name in (b"file", b"last"):
            assert delegated(holder, client, name, b"one")[1]
        for export in (b"one", b"two"):
            open_file = nfs4.open_op(other.client, export, b"file", nfs4.READ_ACCESS | nfs4.NO_DELEGATION)
            opened = other.run(locker, [putfh(look_up(locker, export)), open_file, op(nfs4.GETFH)])
            lock = nfs4.lock_op(other.client, export, opened.value(nfs4.OPEN)["stateid"], 0, 10, nfs4.READ_LT)
            assert other.run(locker, [putfh(opened.value(nfs4.GETFH)), lock]).status == nfs4.OK
        # The server checks all leases when one is broken. If the first one were broken, it would be recalled before
        # this one.
        with LocalProgram(TRIES, f"{path}/last"):
            assert client.take_recall()[1] == look_up(client, b"one", b"last"), "the lock has recalled a delegation"
        assert not client.recalls
        locker.close()
        client.close()


class LocalLease:
    """This program takes a read lease; the kernel reports when another program wants to write."""

    def __init__(self, path):
        self.file = open(path, "rb")
        self.broken = False
        signal.signal(signal.SIGIO, self._handle)
        wait_until(self._take, "the server keeps the file open for writing")

    def _take(self):
        try:
            fcntl.fcntl(self.file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except BlockingIOError:
            return False
        return True

    def _handle(self, *_):
        self.broken = True

    def give_up(self):
        fcntl.fcntl(self.file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        self.file.close()


def locks_on_leased_files(scratch):
    """A client's exclusive lock waits until programs have given up their leases on the file. Then programs see the
    lock."""
    path = directory_of(scratch)
    with Server({"/": f"{path}:no_root_squash"}) as server:
        client = TcpClient(server.tcp)
        for speaker in (Confirmed(client, b"of 4.0"), Session(client, b"of 4.1", 1)):
            owner = Owner(speaker, b"owner")
            file, stateid = owner.open(client, look_up(client), b"file")
            lease = LocalLease(f"{path}/file")
            # The open alone writes nothing.
            assert speaker.run(client, [putfh(file), nfs4.lockt_op(speaker.client, b"owner", 0, 10)]).status == nfs4.OK
            assert not lease.broken
            assert speaker.run(client, [putfh(file), owner.lock_op(stateid, 0, 10)]).status == nfs4.DELAY
            wait_until(lambda: lease.broken, "the program is not told that somebody wants to write")
            assert speaker.run(client, [putfh(file), owner.lock_op(stateid, 0, 10)]).status == nfs4.DELAY
            lease.give_up()
            held = speaker.run(client, [putfh(file), owner.lock_op(stateid, 0, 10)]).value(nfs4.LOCK)
            with open(f"{path}/file", "rb") as reader:
                assert is_locked(reader, fcntl.LOCK_SH, 5, 1), "a program may share a range that a client has locked exclusively"
            assert speaker.run(client, [putfh(file), nfs4.locku_op(held, 0, WHOLE, seqid=1)]).status == nfs4.OK
            assert speaker.run(client, [putfh(file), nfs4.close_op(stateid, owner.next_seqid())]).status == nfs4.OK
        client.close()


def locks_of_vanished_clients(scratch):
    """When the clients' leases expire, a program gets their locks, and the clients learn that they have lost them."""
    path = directory_of(scratch)
    # A client that is delayed for less than the lease keeps its locks.
    with Server({"/": f"{path}:no_root_squash"}, ["--lease=15"]) as server, open(f"{path}/file", "r+b") as local:
        client = TcpClient(server.tcp)

        def opened(version):
            speaker = Confirmed(client, b"of 4.0") if version == 0 else Session(client, b"of 4.1", 1)
            owner = Owner(speaker, b"owner")
            return speaker, owner, *owner.open(client, look_up(client), b"file")

        held = []
        for version in (0, 1):
            speaker, owner, file, stateid = opened(version)
            lock = speaker.run(client, [putfh(file), owner.lock_op(stateid, 10 * version, 10)]).value(nfs4.LOCK)
            held.append((speaker, file, lock))
        wait_until(lambda: not is_locked(local, fcntl.LOCK_EX, 0, 20), "the locks outlast their leases")
        fcntl.lockf(local, fcntl.LOCK_EX, 20, 0)
        for version, (speaker, file, lock) in enumerate(held):
            lost = speaker.run(client, [putfh(file), nfs4.write_op(lock, 0, b"text")])
            assert lost.status == (nfs4.BADSESSION if version else nfs4.EXPIRED), lost.status
        # The clients start again, and do not get a lock that a program has now.
        again = [opened(version) for version in (0, 1)]
        for version, (speaker, owner, file, stateid) in enumerate(again):
            assert speaker.run(client, [putfh(file), owner.lock_op(stateid, 10 * version, 10)]).status == nfs4.DENIED
        fcntl.lockf(local, fcntl.LOCK_UN, 20, 0)
        for version, (speaker, owner, file, stateid) in enumerate(again):
            lock = speaker.run(client, [putfh(file), owner.lock_op(stateid, 10 * version, 10)]).value(nfs4.LOCK)
            assert speaker.run(client, [putfh(file), nfs4.locku_op(lock, 0, WHOLE, seqid=1)]).status == nfs4.OK
        client.close()


def no_delegations(scratch):
    """With --no-delegations no client gets a delegation, even on request."""
    path = directory_of(scratch)
    for options, given in ((["--no-delegations"], False), ([], True)):
        with Server({"/": f"{path}:no_root_squash"}, options) as server:
            client = CalledClient(server.tcp)
            session = Session(client, b"client", 1, nfs4.CONN_BACK_CHAN)
            _, delegation = delegated(session, client, b"file")
            assert (delegation is not None) == given, (options, delegation)
            client.close()


def with_export_of(handle, other):
    return handle[:EXPORT_AT] + other[EXPORT_AT:EXPORT_AT + EXPORT_SIZE] + handle[EXPORT_AT + EXPORT_SIZE:]


def statuses(client, handle):
    """Compares GETATTR of version 3 and version 4."""
    reply = rpc.RpcReply(nfs4.transact(client, rpc.call(NFS3_GETATTR, opaque(handle))))
    (three,) = struct.unpack_from(">I", reply.results)
    four = nfs4.Results(nfs4.transact(client, compound([putfh(handle), op(nfs4.GETATTR, nfs4.bitmap(nfs4.SIZE))]))).status
    return three, four


def handles(scratch):
    """A handle works only for its own export, and as long as that export is served."""
    path = directory_of(scratch)
    os.makedirs(f"{scratch}/more")
    with Server(twice(path)) as server:
        client = TcpClient(server.tcp)
        one, two = (look_up(client, export, b"file") for export in (b"one", b"two"))
        for handle in (one, two):
            assert statuses(client, handle) == (rpc.OK, nfs4.OK)
        for forged in (with_export_of(one, two), with_export_of(two, one)):
            assert statuses(client, forged) == (rpc.BADHANDLE, nfs4.BADHANDLE), statuses(client, forged)
        client.close()

        # In another order, and with another export.
        assert server.stop() == 0
        exports = [argument for argument in server.arguments if argument.startswith("--export=")]
        others = [argument for argument in server.arguments if not argument.startswith("--export=")]
        assert len(exports) == 2
        server.arguments = [*others, f"--export=/a/new/one={scratch}/more", *reversed(exports)]
        server.start()
        client = TcpClient(server.tcp)
        for handle in (one, two):
            assert statuses(client, handle) == (rpc.OK, nfs4.OK)
        client.close()

        # With the other export only.
        assert server.stop() == 0
        server.arguments = [*others, exports[0]]
        server.start()
        client = TcpClient(server.tcp)
        assert statuses(client, one) == (rpc.OK, nfs4.OK)
        assert statuses(client, two) == (rpc.STALE, rpc.STALE)
        client.close()


if __name__ == "__main__":
    main({"two_exports": two_exports, "local_locks": local_locks, "local_opens": local_opens,
          "read_locks_beside_a_delegation": read_locks_beside_a_delegation, "locks_on_leased_files": locks_on_leased_files,
          "locks_of_vanished_clients": locks_of_vanished_clients, "no_delegations": no_delegations, "handles": handles})
