#!/usr/bin/python3
"""The real program executes a call once, whatever happens to its reply. The test repeats the call over another
connection, of the same or the other transport. The call gets the original reply and is not executed again.

Version 3 and minor version 0 guarantee this while the server runs and its duplicate request cache remembers the call
(RFC 1813 §4.5). A session guarantees it as long as the session exists (RFC 8881 §2.10.6); a persistent session also
after the server was killed. It holds for WRITE too: a second execution has the same result, but would overwrite newer
data.
"""

import itertools
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import nfs4_messages as nfs4  # noqa: E402
import operations  # noqa: E402
from cases import main  # noqa: E402
from iwarp_peer import Ended  # noqa: E402
from nfs4_messages import Confirmed, Results, Session, at, op, transact  # noqa: E402
from operations import Place  # noqa: E402
from patience import SECONDS  # noqa: E402
from penstock import Server  # noqa: E402
from rpc_messages import Client, RpcReply, Words, call, hyper, words  # noqa: E402
from tcp_peer import TcpClient  # noqa: E402

TRANSPORTS = ("rdma", "tcp")


class Serving:
    """A server with an empty export, and connections to it."""

    def __init__(self, scratch):
        self.folder = f"{scratch}/export"
        os.mkdir(self.folder)
        self.server = Server({"/": f"{self.folder}:no_root_squash"}, ["--grace=0"])
        self.names = itertools.count()

    def __enter__(self):
        self.server.__enter__()
        self.client = self.connect("rdma")  # for everything that is not under test
        return self

    def __exit__(self, failure, *rest):
        self.client.close()
        return self.server.__exit__(failure, *rest)

    def connect(self, transport):
        return Client(self.server.rdma) if transport == "rdma" else TcpClient(self.server.tcp)

    def place(self, speaker=None, other=None):
        name = f"place{next(self.names)}"
        os.mkdir(f"{self.folder}/{name}")
        handle = self.client.lookup(self.client.root(), name.encode()) if speaker is None else \
            nfs4.look_up(self.client, name.encode())
        return Place(f"{self.folder}/{name}", handle, self.client, speaker, other)


def statuses(reply):
    """Returns (the RPC reply, the reply's own results)."""
    answer = RpcReply(reply)
    return answer.status, Words(answer.results).word() if answer.status == ("success",) else None


SUCCESS = (("success",), 0)


def lose_reply(serving, transport, message, payload):
    """Executes a call and ends its connection, as if the network had lost the reply. Returns the reply."""
    client = serving.connect(transport)
    reply = transact(client, message, payload)
    client.endpoint.reset()
    return reply


def lose_connection(serving, transport, message, payload, shows):
    """Ends the connection as soon as the operation is done, before or after the reply is sent."""
    client = serving.connect(transport)
    client.send_call(message, payload, room=1 << 16)
    if payload and transport == "rdma":
        client.endpoint.take_segment()  # answers the Read of the payload
    deadline = time.monotonic() + SECONDS
    while not shows():
        assert time.monotonic() < deadline, "it was not done"
    client.endpoint.reset()


def send_again(serving, transport, message, payload):
    """In a session, the answer is NFS4ERR_DELAY while the first one is being executed (RFC 8881 §2.10.6.2)."""
    client = serving.connect(transport)
    deadline = time.monotonic() + SECONDS
    while statuses(reply := transact(client, message, payload)) == (("success",), nfs4.DELAY):
        assert time.monotonic() < deadline, "still executed"
    client.close()
    return reply


def check(serving, operation, place, first, then, reply_is_lost):
    """Requests one operation over `first`, again over `then`, and a third time over `then`. When its effect is visible
    the operation may still be under way, so the first repetition comes before the other client's change."""
    operation.prepare(place)
    message, payload = operation.request(place)
    if reply_is_lost:
        reply = lose_reply(serving, first, message, payload)
        if statuses(reply)[1] == nfs4.NOTSUPP:
            return False
        assert statuses(reply) == SUCCESS, f"ended with {statuses(reply)}"
    else:
        lose_connection(serving, first, message, payload, lambda: operation.done(place))
        reply = send_again(serving, then, message, payload)
        assert statuses(reply) == SUCCESS, f"sent again, it ended with {statuses(reply)}"
    operation.meddle(place)
    for _ in range(2):
        again = send_again(serving, then, message, payload)
        assert statuses(again) == SUCCESS, f"sent again, it ended with {statuses(again)}"
        assert reply == again, "sent again, it had another reply"
        assert not operation.spoiled(place), "it was done again"
    return True


def check_all(serving, all_operations, speakers=lambda: ()):
    """Tests each operation over each pair of transports, with its reply or its connection lost."""
    failed, count, absent = [], 0, set()
    ways = list(itertools.product(TRANSPORTS, TRANSPORTS, (True, False)))
    for operation in all_operations:
        for first, then, reply_is_lost in ways:
            if not reply_is_lost and operation.done is None:
                continue
            what = f"{operation.name}, {'the reply' if reply_is_lost else 'the connection'} lost over {first}, again over {then}"
            if operation.name in absent:
                continue
            try:
                count += 1
                if not check(serving, operation, serving.place(*speakers()), first, then, reply_is_lost):
                    absent.add(operation.name)
                    print(f"  {operation.name}: this file system cannot do it", flush=True)
            except AssertionError as failure:
                failed.append(what)
                print(f"  FAILED {what}: {failure}", flush=True)
    print(f"{count} cases, {len(failed)} of them failed", flush=True)
    assert not failed, f"{len(failed)} of {count} cases: {failed}"


def version3(scratch):
    with Serving(scratch) as serving:
        check_all(serving, operations.version3())


def version4_0(scratch):
    with Serving(scratch) as serving:
        speakers = Confirmed(serving.client, b"one"), Confirmed(serving.client, b"another")
        check_all(serving, operations.version4(0), lambda: speakers)


def in_session(scratch, minor):
    with Serving(scratch) as serving:
        speakers = Session(serving.client, b"one", minor), Session(serving.client, b"another", minor)
        check_all(serving, operations.version4(minor), lambda: speakers)


def version4_1(scratch):
    in_session(scratch, 1)


def version4_2(scratch):
    in_session(scratch, 2)


def owners(scratch):
    """Minor version 0: an owner's sequence number identifies a repetition even with another XID (RFC 7530 §9.1.7)."""
    with Serving(scratch) as serving:
        speaker = Confirmed(serving.client, b"one")
        place = serving.place(speaker)
        place.write("file")
        owner = place.owner

        def twice(operations):
            first, again = (Results(lose_reply(serving, transport, nfs4.compound(operations), None)) for transport in TRANSPORTS)
            assert first.status == nfs4.OK and first.octets == again.octets, f"{first.status}, then {again.status}"
            return first

        opened = twice([nfs4.putfh(place.directory), owner.open_op(b"file"), op(nfs4.GETFH)])
        handle, stateid = opened.value(nfs4.GETFH), opened.value(nfs4.OPEN)["stateid"]
        if opened.value(nfs4.OPEN)["flags"] & 2:
            confirm = op(nfs4.OPEN_CONFIRM, stateid, words(owner.next_seqid()))
            stateid = twice(at(handle, confirm)).value(nfs4.OPEN_CONFIRM)
        lock = twice(at(handle, owner.lock_op(stateid, 0, 10))).value(nfs4.LOCK)
        twice(at(handle, nfs4.locku_op(lock, 0, 10, 1)))
        again = twice([nfs4.putfh(place.directory), owner.open_op(b"file", access=nfs4.READ_ACCESS)])
        stateid = again.value(nfs4.OPEN)["stateid"]
        stateid = twice(at(handle, nfs4.downgrade_op(stateid, nfs4.READ_ACCESS, owner.next_seqid()))).value(nfs4.OPEN_DOWNGRADE)
        twice(at(handle, nfs4.close_op(stateid, owner.next_seqid())))


def late(scratch):
    """The server receives a WRITE after its client has abandoned the connection, repeated the WRITE over another one,
    and written newer data to the same place. The server executes nothing more from the abandoned connection."""
    with Serving(scratch) as serving:
        speaker = Confirmed(serving.client, b"one")
        for version, (first, then) in itertools.product((3, 4), itertools.product(TRANSPORTS, TRANSPORTS)):
            place = serving.place(speaker if version == 4 else None)
            place.write("file", b"")
            older, newer, oldest = (operations.write_request(place, data * 16) for data in (b"x", b"y", b"z"))
            left = serving.connect(first)
            transact(left, call())
            client = serving.connect(then)
            for request in older, newer:
                assert statuses(transact(client, *request)) == SUCCESS
            for request in older, oldest:
                left.send_call(*request, room=1 << 16)
            try:
                left.take_reply()
                raise AssertionError(f"version {version}: there is a reply over {first}, which was left")
            except Ended:
                left.close()
            assert place.read("file") == b"y" * 16, f"version {version}, left {first} for {then}: {place.read('file')}"
            assert statuses(transact(client, *operations.write_request(place, b"w" * 16))) == SUCCESS
            client.close()


def sessions(scratch):
    """Operations that make and end sessions are repeated, too."""
    with Serving(scratch) as serving:
        for first, then in itertools.product(TRANSPORTS, TRANSPORTS):
            name = f"{first} {then}".encode()
            exchange = nfs4.compound([nfs4.exchange_id_op(name)], 1)
            lose_reply(serving, first, exchange, None)
            known = Results(send_again(serving, then, exchange, None)).value(nfs4.EXCHANGE_ID)
            create = nfs4.compound([nfs4.create_session_op(known["client"], known["sequence"])], 1)
            created = lose_reply(serving, first, create, None)
            assert created == send_again(serving, then, create, None), "CREATE_SESSION has another reply"
            session = Results(created).value(nfs4.CREATE_SESSION)["session"]
            bound = serving.connect(first)  # RFC 8881 §18.37.3: only a connection that is associated with a session may end it
            nfs4.run(bound, [nfs4.sequence_op(session, 0, 1)], 1).value(nfs4.SEQUENCE)
            destroy = nfs4.compound([op(nfs4.DESTROY_SESSION, session)], 1)
            assert statuses(transact(bound, destroy)) == SUCCESS
            bound.endpoint.reset()
            # The session has no slots any more that could keep the reply: RFC 8881 §18.37.3
            assert statuses(send_again(serving, then, destroy, None)) == (("success",), nfs4.BADSESSION)
            # This fails if the server has made the session twice: RFC 8881 §18.50.3
            forget = nfs4.compound([op(nfs4.DESTROY_CLIENTID, hyper(known["client"]))], 1)
            assert statuses(lose_reply(serving, first, forget, None)) == SUCCESS, "there is another session"


class Repeated:
    """An operation in a persistent session is done before the server is killed, and its reply is lost."""

    def __init__(self, serving, operation, first, name):
        self.operation, self.name = operation, f"{operation.name}, first over {first}"
        self.session = Session(serving.client, name, 2, nfs4.PERSIST)
        assert self.session.flags & nfs4.PERSIST, "the session is not persistent"
        self.place = serving.place(self.session, self.session)
        operation.prepare(self.place)
        self.message, self.payload = operation.request(self.place)
        self.reply = lose_reply(serving, first, self.message, self.payload)

    def meddle(self):
        # The server lost all locks when it was killed, and with them the client that could change them.
        if self.operation.name != "LOCKU":
            self.operation.meddle(self.place)

    def check(self, serving, then):
        again = send_again(serving, then, self.message, self.payload)
        assert again == self.reply, f"sent again over {then}, it ended with {statuses(again)}"
        assert self.operation.name == "LOCKU" or not self.operation.spoiled(self.place), "it was done again"
        # RFC 8881 §2.10.6.5: a session that was kept only for its replies executes no new request.
        new = self.session.request(at(self.place.directory, nfs4.create_op(nfs4.NF4DIR, b"made after the restart")))
        status = statuses(send_again(serving, then, new, None))
        assert status == (("success",), nfs4.DEADSESSION), f"something new ended with {status}"
        assert not self.place.exists("made after the restart")


def restart(scratch):
    """The server is killed before the reply is read, and started again; then once more."""
    with Serving(scratch) as serving:
        done = [Repeated(serving, operation, first, f"{operation.name} {first}".encode())
                for operation in operations.version4(2) for first in TRANSPORTS]
        done = [each for each in done if statuses(each.reply)[1] != nfs4.NOTSUPP]
        failed = []
        for life in range(2):
            serving.client.close()
            serving.server.kill()
            serving.server.start()
            serving.client = serving.connect("rdma")
            for each in done:
                if life == 0:
                    each.meddle()
                try:
                    for then in TRANSPORTS:
                        each.check(serving, then)
                except AssertionError as failure:
                    failed.append(each.name)
                    print(f"  FAILED {each.name}, after {life + 1} restarts: {failure}", flush=True)
        print(f"{len(done)} operations, {len(failed)} failed", flush=True)
        assert not failed, failed


main({case.__name__: case for case in (version3, version4_0, owners, late, version4_1, version4_2, sessions, restart)})
