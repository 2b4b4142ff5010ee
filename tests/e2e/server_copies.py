#!/usr/bin/python3
"""COPY between two servers (RFC 7862 §4.5): what is copied, who may, and what a failing source does."""

import contextlib
import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import nfs4_messages as nfs4  # noqa: E402
from cases import main  # noqa: E402
from files import MIB, digest, make  # noqa: E402
from nfs4_callbacks import CalledClient  # noqa: E402
from nfs4_messages import between, copy_notify_op, copy_op, location, op, putfh  # noqa: E402
from patience import SECONDS  # noqa: E402
from penstock import ADDRESS, Server  # noqa: E402
from rpc_messages import hyper, words  # noqa: E402
from valve import Valve  # noqa: E402

PARTNER_NO_AUTH, OFFLOAD_DENIED = 10089, 10091
STATUS_OF_COPY = {nfs4.OFFLOAD_STATUS: lambda reader: (reader.word() << 32 | reader.word(), [reader.word() for _ in range(reader.word())])}


class Side:
    """One server with the file `file`, and a client of version 4.2 that has it open."""

    def __init__(self, server, directory):
        self.server, self.path = server, f"{directory}/file"
        self.client = CalledClient(server.tcp)
        self.session = nfs4.Session(self.client, b"copier", minor=2, flags=nfs4.CONN_BACK_CHAN)
        root = nfs4.look_up(self.client)
        self.file, self.stateid = nfs4.Owner(self.session, b"owner").open(self.client, root, b"file")

    def run(self, *operations):
        return self.session.run(self.client, [*operations])

    def notify(self, destination):
        return self.run(putfh(self.file), copy_notify_op(self.stateid, destination))


@contextlib.contextmanager
def two_servers(scratch, size, options=("--inter-server-copy",), source_export="no_root_squash"):
    """Yields the source, whose file has this size, and the target, whose file is empty."""
    for name in ("source", "target"):
        os.makedirs(f"{scratch}/{name}")
        os.chmod(f"{scratch}/{name}", 0o777)
    make(f"{scratch}/source/file", size)
    make(f"{scratch}/target/file", 0)
    os.chmod(f"{scratch}/source/file", 0o666)
    with Server({"/": f"{scratch}/source:{source_export}"}, options) as source:
        with Server({"/": f"{scratch}/target:no_root_squash"}, options) as target:
            yield Side(source, f"{scratch}/source"), Side(target, f"{scratch}/target")


def permission(source, target):
    """COPY_NOTIFY: returns the stateid and the locations of the source."""
    stateid, locations = source.notify(location(target.server.tcp)).value(nfs4.COPY_NOTIFY)
    assert locations == [location(source.server.tcp)], locations
    return stateid, locations


def copy(source, target, stateid, locations, count=0, synchronous=True):
    return target.run(*between(source.file, target.file, copy_op(stateid, target.stateid, count, servers=locations,
                                                                 synchronous=synchronous)))


def copies(scratch):
    """A file of the other server is copied, as a whole and in part; a stateid serves more than once."""
    with two_servers(scratch, 3 * MIB + 7) as (source, target):
        stateid, locations = permission(source, target)
        assert copy(source, target, stateid, locations, 1000).value(nfs4.COPY) == 1000
        assert os.stat(target.path).st_size == 1000
        assert copy(source, target, stateid, locations).value(nfs4.COPY) == 3 * MIB + 7
        assert digest(source.path) == digest(target.path)
        # The client takes the permission back, and gives it again.
        assert source.run(putfh(source.file), op(nfs4.OFFLOAD_CANCEL, stateid)).status == nfs4.OK
        assert copy(source, target, stateid, locations).status == OFFLOAD_DENIED
        assert copy(source, target, *permission(source, target)).value(nfs4.COPY) == 3 * MIB + 7


def address_of_both_families(scratch):
    """A server that takes IPv4 over a socket of IPv6 tells clients of IPv4 an address of IPv4."""
    os.makedirs(f"{scratch}/source")
    make(f"{scratch}/source/file", MIB)
    with Server({"/": f"{scratch}/source:no_root_squash"}, ("--inter-server-copy",), address="::") as server:
        source = Side(server, f"{scratch}/source")
        permission(source, source)


def copies_within_a_server(scratch):
    """A client that knows one server by two addresses may call it two servers."""
    with two_servers(scratch, MIB) as (source, _):
        make(f"{scratch}/source/other", 0)
        os.chmod(f"{scratch}/source/other", 0o666)
        root = nfs4.look_up(source.client)
        other, stateid = nfs4.Owner(source.session, b"second").open(source.client, root, b"other")
        notice, locations = permission(source, source)
        results = source.run(*between(source.file, other, copy_op(notice, stateid, 0, servers=locations)))
        assert results.value(nfs4.COPY) == MIB and digest(source.path) == digest(f"{scratch}/source/other")


def goes_on_after_the_reply(scratch):
    """A long copy is asynchronous, and its end is told."""
    with two_servers(scratch, 80 * MIB) as (source, target):
        copied = copy(source, target, *permission(source, target), synchronous=False).value(nfs4.COPY)
        assert isinstance(copied, bytes), "the copy was not asynchronous"
        assert target.client.take_copy() == (copied, nfs4.OK, 80 * MIB)
        assert digest(source.path) == digest(target.path)


def reads_as_the_user(scratch):
    """The source reads as the user who has asked it, whatever the target claims to be; nobody else gets in."""
    with two_servers(scratch, MIB, source_export="all_squash,anonuid=1234,anongid=1234") as (source, target):
        os.chown(source.path, 1234, 1234)
        os.chmod(source.path, 0o400)
        assert copy(source, target, *permission(source, target)).value(nfs4.COPY) == MIB
        stateid, locations = permission(source, target)
        os.chown(source.path, 0, 0)
        assert copy(source, target, stateid, locations).status == OFFLOAD_DENIED


def refusals(scratch):
    with two_servers(scratch, MIB) as (source, target):
        stateid, locations = permission(source, target)
        end = source.run(putfh(source.file), copy_notify_op(nfs4.ANONYMOUS, location(1)))
        assert end.status == nfs4.BAD_STATEID
        assert source.run(putfh(source.file), copy_notify_op(source.stateid, words(1, 2000) + b"n" * 2000)).status == 22
        # Special stateids would read without the consent of the source.
        for special in (nfs4.ANONYMOUS, b"\xff" * 16):
            assert copy(source, target, special, locations).status == nfs4.BAD_STATEID
        # Neither the client's own stateid nor an invented one is a permission, and no other file may be read.
        for other in (source.stateid, stateid[:-1] + bytes([stateid[-1] ^ 1])):
            assert copy(source, target, other, locations).status == OFFLOAD_DENIED
        assert copy(source, target, stateid, locations, 2 * MIB).status == 22
        reads = source.run(putfh(source.file), op(nfs4.READ, stateid[:-1] + bytes([stateid[-1] ^ 1]), hyper(0), words(10)))
        assert reads.status == PARTNER_NO_AUTH
        # No server answers, or no location is an address of a server over TCP.
        for servers in ([location(1)], [words(1, 4) + b"host"], [location(source.server.tcp, netid=b"udp")],
                        [location(source.server.tcp, "300.1")]):
            status = copy(source, target, stateid, servers).status
            assert status == OFFLOAD_DENIED, (servers, status)
        # The next server of the list is tried.
        assert copy(source, target, stateid, [location(1), *locations]).value(nfs4.COPY) == MIB
        # A filehandle of another server is good for nothing but COPY.
        saved = [putfh(source.file), op(nfs4.SAVEFH)]
        for operations in ([putfh(source.file)], [*saved, op(nfs4.GETFH)], [*saved, op(nfs4.RESTOREFH)],
                           between(source.file, target.file, copy_op(source.stateid, target.stateid, 0)),
                           between(source.file, target.file, copy_op(source.stateid, target.stateid, 0, nfs4.CLONE))):
            assert target.run(*operations).status == nfs4.BADHANDLE, operations
        # The permission ends with the open.
        assert source.run(putfh(source.file), nfs4.close_op(source.stateid)).status == nfs4.OK
        assert copy(source, target, stateid, locations).status == OFFLOAD_DENIED
        assert os.stat(target.path).st_size == MIB


def off_by_default(scratch):
    with two_servers(scratch, MIB, options=()) as (source, target):
        assert source.notify(location(1)).status == nfs4.NOTSUPP
        assert target.run(putfh(source.file), op(nfs4.SAVEFH)).statuses[-1] == nfs4.BADHANDLE
        same = between(target.file, target.file, copy_op(source.stateid, target.stateid, 0, servers=[location(source.server.tcp)]))
        assert target.run(*same).status == nfs4.NOTSUPP


def source_fails(scratch):
    """While the source hangs, other calls go on. When it dies, the client learns how much was copied, and no more."""
    with two_servers(scratch, 80 * MIB) as (source, target), Valve(source.server.tcp, 40 * MIB) as valve:
        stateid, _ = permission(source, target)
        copied = copy(source, target, stateid, [location(valve.port)], synchronous=False).value(nfs4.COPY)
        valve.wait()
        asked = target.session.request([putfh(target.file), op(nfs4.OFFLOAD_STATUS, copied)], 1, False)
        done, ended = nfs4.Results(nfs4.transact(target.client, asked), STATUS_OF_COPY).value(nfs4.OFFLOAD_STATUS)
        assert done < 80 * MIB and not ended, (done, ended)
        source.server.kill()
        valve.open()
        stateid, status, count = target.client.take_copy()
        assert stateid == copied and status == 5 and 0 < count < 80 * MIB, (status, count)
        with open(source.path, "rb") as right, open(target.path, "rb") as got:
            assert right.read(count) == got.read(count)
        source.server.start()  # the test checks its end


def has_connection(process, port):
    """Whether this process has a connection to the port, or makes one."""
    own = set()
    for number in os.listdir(f"/proc/{process.pid}/fd"):
        with contextlib.suppress(OSError):
            own.add(os.readlink(f"/proc/{process.pid}/fd/{number}"))
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in list(table)[1:]]
    return any(row[2].endswith(f":{port:04X}") and f"socket:[{row[9]}]" in own for row in rows)


def wait_until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.02)


def a_cancelled_copy_writes_no_more(scratch):
    """The client writes itself, once it has cancelled the copy."""
    with two_servers(scratch, 80 * MIB) as (source, target), Valve(source.server.tcp, 40 * MIB) as valve:
        stateid, _ = permission(source, target)
        copied = copy(source, target, stateid, [location(valve.port)], synchronous=False).value(nfs4.COPY)
        valve.wait()
        wait_until(lambda: os.stat(target.path).st_size >= 38 * MIB)
        assert target.run(putfh(target.file), op(nfs4.OFFLOAD_CANCEL, copied)).status == nfs4.OK
        own = b"mine" * 1000
        for mib in range(37, 41):
            assert target.run(putfh(target.file), nfs4.write_op(target.stateid, mib * MIB, own)).status == nfs4.OK
        valve.open()
        wait_until(lambda: not has_connection(target.server.process, valve.port))
        with open(target.path, "rb") as file:
            for mib in range(37, 41):
                file.seek(mib * MIB)
                assert file.read(len(own)) == own, f"the copy has overwritten the data at {mib} MiB"
        assert os.stat(target.path).st_size == 40 * MIB + len(own)


def target_stops_beside_a_source_that_hangs(scratch):
    """The client learns how much was copied, and need not copy it again."""
    with two_servers(scratch, 80 * MIB) as (source, target), Valve(source.server.tcp, 40 * MIB) as valve:
        stateid, _ = permission(source, target)
        copied = copy(source, target, stateid, [location(valve.port)], synchronous=False).value(nfs4.COPY)
        valve.wait()
        target.server.process.terminate()
        stateid, status, count = target.client.take_copy()
        assert stateid == copied and status == nfs4.OK and 30 * MIB < count < 40 * MIB, (status, count)
        assert target.server.process.wait(SECONDS) == 0
        with open(source.path, "rb") as right, open(target.path, "rb") as got:
            assert right.read(count) == got.read()


def unspecified_address(scratch):
    """It names no server, but a connection to it would reach this host, from a port that only root may use."""
    with two_servers(scratch, MIB) as (source, target), socket.create_server(("", 0)) as listener:
        stateid, _ = permission(source, target)
        port = listener.getsockname()[1]
        for address, netid in (("0.0.0.0", b"tcp"), ("::ffff:0.0.0.0", b"tcp6")):
            assert copy(source, target, stateid, [location(port, address, netid)]).status == OFFLOAD_DENIED, address
        listener.setblocking(False)
        try:
            raise AssertionError(f"a connection from {listener.accept()[1]}")
        except BlockingIOError:
            pass


@contextlib.contextmanager
def silent_address():
    """Yields a port to which connections neither succeed nor fail, because its queue is full."""
    with socket.socket() as listener, contextlib.ExitStack() as queue:
        listener.bind((ADDRESS, 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for _ in range(4):
            client = queue.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex((ADDRESS, port))
        yield port


def target_stops_while_it_connects(scratch):
    """A list of servers that do not answer delays the stop by no time."""
    with two_servers(scratch, MIB) as (source, target), silent_address() as port:
        stateid, _ = permission(source, target)
        request = target.session.request(
            between(source.file, target.file, copy_op(stateid, target.stateid, 0, servers=[location(port)] * 4)), 1, False)
        target.client.send_call(request)
        wait_until(lambda: has_connection(target.server.process, port))
        target.server.process.terminate()
        assert target.server.process.wait(SECONDS) == 0
        late = [line for line in target.server.lines if "still being executed" in line]
        assert not late, late


assert ADDRESS == "127.0.0.1"
main({case.__name__: case for case in (copies, address_of_both_families, copies_within_a_server, goes_on_after_the_reply, reads_as_the_user,
                                       refusals, off_by_default, source_fails, a_cancelled_copy_writes_no_more,
                                       target_stops_beside_a_source_that_hangs, target_stops_while_it_connects, unspecified_address)})
