"""A host that locks files by NLM, at an address of its own: its calls, and its port mapper, lock manager and status
monitor. It runs in the namespaces of the test (see namespaces.py), where port 111 of each loopback address is free."""

import selectors
import socket
import struct
import threading
import time
from typing import NamedTuple

from patience import SECONDS
from rpc_messages import PROC_UNAVAIL, RpcReply, call, hyper, opaque, take_opaque, words, xid_of
from rdma_messages import Words

PORTMAPPER, NLM, NSM, MOUNT, NFS = 100000, 100021, 100024, 100005, 100003
(TEST, LOCK, CANCEL, UNLOCK, GRANTED, TEST_MSG, LOCK_MSG, CANCEL_MSG, UNLOCK_MSG, GRANTED_MSG, TEST_RES, LOCK_RES, CANCEL_RES,
 UNLOCK_RES, GRANTED_RES) = range(1, 16)
SHARE, UNSHARE, NM_LOCK, FREE_ALL = range(20, 24)
(GRANTED_IT, DENIED, NOLOCKS, BLOCKED, GRACE, DEADLOCK, READ_ONLY, STALE, TOO_BIG, FAILED) = range(10)
SM_STAT, SM_NOTIFY = 1, 6
GETPORT = 3
# Procedures with the arguments of others.
FORMS = {TEST_MSG: TEST, LOCK_MSG: LOCK, CANCEL_MSG: CANCEL, UNLOCK_MSG: UNLOCK, NM_LOCK: LOCK}
TCP, UDP = 6, 17
SERVER = "127.0.0.1"
LAST_FRAGMENT = 1 << 31


def number(version, value):
    """An offset or a length."""
    return hyper(value) if version == 4 else words(value)


class Lock(NamedTuple):
    """A lock of a process, as the calls name it."""
    host: str
    handle: bytes
    process: int = 1
    offset: int = 0
    length: int = 10
    exclusive: bool = True
    owner: bytes = b"owner"

    def alock(self, version=4):
        return opaque(self.host.encode()) + opaque(self.handle) + opaque(self.owner) + \
            words(self.process & 0xFFFFFFFF) + number(version, self.offset) + number(version, self.length)

    def arguments(self, procedure, version=4, block=False, reclaim=False, cookie=b"cook"):
        """The arguments of TEST, LOCK, CANCEL, UNLOCK and their _MSG forms."""
        alock = self.alock(version)
        return opaque(cookie) + {
            TEST: words(self.exclusive) + alock,
            LOCK: words(block, self.exclusive) + alock + words(reclaim, 1),
            CANCEL: words(block, self.exclusive) + alock,
            UNLOCK: alock,
        }[FORMS.get(procedure, procedure)]

    def share(self, mode, access, reclaim=False, cookie=b"cook"):
        """The arguments of SHARE and UNSHARE."""
        return opaque(cookie) + opaque(self.host.encode()) + opaque(self.handle) + opaque(self.owner) + words(mode, access, reclaim)


class Results:
    """The results of a procedure of NLM."""

    def __init__(self, data, version=4, with_holder=False):
        reader = Words(data)
        self.cookie, self.status, self.holder = take_opaque(reader), reader.word(), None
        if with_holder and self.status == DENIED:
            exclusive, process, owner = reader.word(), reader.word(), take_opaque(reader)
            size = 8 if version == 4 else 4
            rest = reader.rest()
            offset, length = struct.unpack_from(">QQ" if version == 4 else ">II", rest)
            assert len(rest) == 2 * size
            self.holder = (exclusive, process, owner, offset, length)


class Received(NamedTuple):
    """A call that the host got."""
    program: int
    version: int
    procedure: int
    arguments: bytes
    protocol: int
    sender: tuple
    at: float

    def lock(self):
        """(process, offset, length, exclusive, host, handle, owner) of a GRANTED call."""
        reader = Words(self.arguments)
        take_opaque(reader)
        exclusive = reader.word()
        host, handle, owner = (take_opaque(reader) for _ in range(3))
        process = reader.word()
        offset, length = struct.unpack(">QQ" if self.version == 4 else ">II", reader.rest())
        return process, offset, length, bool(exclusive), host.decode(), handle, owner


def reserved(kind, address):
    """Returns a socket at this address, with a port below 1024, as a kernel uses it."""
    for port in range(1023, 600, -1):
        made = socket.socket(socket.AF_INET, kind)
        try:
            made.bind((address, port))
            return made
        except OSError:
            made.close()
    raise AssertionError("no port below 1024 is free")


class Caller:
    """The calls of a host: over one TCP connection, or by UDP. `port` is the source port, or None for one below 1024."""

    def __init__(self, server_port, address, protocol=TCP, port=None):
        self.protocol = protocol
        kind = socket.SOCK_STREAM if protocol == TCP else socket.SOCK_DGRAM
        if port is None:
            self.socket = reserved(kind, address)
        else:
            self.socket = socket.socket(socket.AF_INET, kind)
            self.socket.bind((address, port))
        self.socket.settimeout(SECONDS)
        self.socket.connect((SERVER, server_port))

    def send(self, message):
        self.socket.sendall(message if self.protocol == UDP else words(LAST_FRAGMENT | len(message)) + message)

    def receive(self):
        if self.protocol == UDP:
            return self.socket.recv(1 << 16)
        (head,) = struct.unpack(">I", self._exactly(4))
        return self._exactly(head & ~LAST_FRAGMENT)

    def _exactly(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise AssertionError("the server has closed the connection")
            data += more
        return data

    def reply(self, message):
        self.send(message)
        while True:
            reply = RpcReply(self.receive())
            if reply.xid == xid_of(message):
                return reply

    def call(self, procedure, arguments=b"", program=NLM, version=4):
        reply = self.reply(call(procedure, arguments, (program, version)))
        assert reply.status == ("success",), f"program {program}, procedure {procedure}: {reply.status}"
        return reply.results

    def lock_call(self, procedure, lock, version=4, **how):
        """Returns the status that NLM gives."""
        return Results(self.call(procedure, lock.arguments(procedure, version, **how), version=version)).status

    def close(self):
        self.socket.close()


def file_handle(server, name, version=3, address="127.0.0.1", export=b"/"):
    """The handle of a file in the root of an export, in NFS version 2 or 3."""
    mount, nfs = Caller(server.mount, address), Caller(server.tcp, address)
    try:
        root = mount.call(1, opaque(export), MOUNT, 3 if version == 3 else 1)
        assert root[:4] == words(0), root.hex()
        if version == 2:
            found = nfs.call(4, root[4:36] + opaque(name), NFS, 2)
            assert found[:4] == words(0), found.hex()
            return found[4:36]
        found = Words(nfs.call(3, opaque(take_opaque(Words(root, 4))) + opaque(name), NFS, 3))
        assert found.word() == 0
        return take_opaque(found)
    finally:
        mount.close(), nfs.close()


class LockHost:
    """The programs of a host. `grant` makes the status of a GRANTED call from the lock, or bytes that are the whole
    reply, or None for no answer. `ports` makes the port that the port mapper tells; None for no answer. Without
    `port_mapper`, nothing listens at port 111."""

    def __init__(self, address, grant=lambda received: GRANTED_IT, ports=lambda mine, program: mine, port_mapper=True):
        self.address, self.grant, self.ports = address, grant, ports
        self.received, self.changed = [], threading.Condition()
        self.selector, self.buffers, self.sockets = selectors.DefaultSelector(), {}, []
        self.port = self._listen(0)
        if port_mapper:
            self._listen(111)
        self.wake, wake = socket.socketpair()
        self.selector.register(wake, selectors.EVENT_READ, None)
        self.sockets.append(wake)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _listen(self, port):
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind((self.address, port))
        port = udp.getsockname()[1]
        tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tcp.bind((self.address, port))
        tcp.listen(64)
        for each, act in ((udp, self._datagram), (tcp, self._accept)):
            self.sockets.append(each)
            self.selector.register(each, selectors.EVENT_READ, act)
        return port

    def _run(self):
        while True:
            for key, _ in self.selector.select():
                if key.data is None:
                    return
                try:
                    key.data(key.fileobj)
                except OSError:
                    self._forget(key.fileobj)

    def _accept(self, listener):
        connection, _ = listener.accept()
        self.sockets.append(connection)
        self.buffers[connection] = b""
        self.selector.register(connection, selectors.EVENT_READ, self._stream)

    def _forget(self, connection):
        if self.buffers.pop(connection, None) is not None:
            self.selector.unregister(connection)
            self.sockets.remove(connection)
            connection.close()

    def _stream(self, connection):
        data = connection.recv(1 << 16)
        if not data:
            return self._forget(connection)
        self.buffers[connection] += data
        while len(self.buffers[connection]) >= 4:
            size = struct.unpack_from(">I", self.buffers[connection])[0] & ~LAST_FRAGMENT
            if len(self.buffers[connection]) < 4 + size:
                return
            message = self.buffers[connection][4:4 + size]
            self.buffers[connection] = self.buffers[connection][4 + size:]
            reply = self._answer(message, TCP, connection.getpeername())
            if reply is not None:
                connection.sendall(words(LAST_FRAGMENT | len(reply)) + reply)

    def _datagram(self, sock):
        message, sender = sock.recvfrom(1 << 16)
        reply = self._answer(message, UDP, sender)
        if reply is not None:
            sock.sendto(reply, sender)

    def _answer(self, message, protocol, sender):
        reader = Words(message)
        xid, _, _, program, version, procedure = (reader.word() for _ in range(6))
        for _ in range(2):  # credential and verifier
            reader.word(), take_opaque(reader)
        got = Received(program, version, procedure, reader.rest(), protocol, sender, time.monotonic())
        head = words(xid, 1, 0, 0, 0, 0)
        if program == PORTMAPPER:
            if procedure != GETPORT:
                return head
            asked = Words(got.arguments)
            port = self.ports(self.port, asked.word())
            return None if port is None else head + words(port)
        with self.changed:
            self.received.append(got)
            self.changed.notify_all()
        if program == NLM and procedure == GRANTED:
            answer = self.grant(got)
            if answer is None or isinstance(answer, bytes):
                return None if answer is None else words(xid) + answer
            cookie = take_opaque(Words(got.arguments))
            return head + opaque(cookie) + words(answer)
        if (program, procedure) in ((NSM, SM_NOTIFY), *((NLM, each) for each in (*range(TEST_RES, GRANTED_RES + 1), 0))):
            return head
        return words(xid, 1, 0, 0, 0, PROC_UNAVAIL)

    def calls(self, procedure, program=NLM):
        with self.changed:
            return [got for got in self.received if (got.program, got.procedure) == (program, procedure)]

    def expect(self, procedure, program=NLM, count=1, seconds=SECONDS):
        """Waits until the host has got so many calls of the procedure; returns them."""
        deadline = time.monotonic() + seconds
        while len(found := self.calls(procedure, program)) < count:
            with self.changed:
                assert self.changed.wait(deadline - time.monotonic()) or time.monotonic() < deadline, \
                    f"{self.address} got {len(found)} of {count} calls of procedure {procedure} of program {program}"
        return found

    def close(self):
        self.wake.close()
        self.thread.join()
        for each in self.sockets:
            each.close()
        self.selector.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
