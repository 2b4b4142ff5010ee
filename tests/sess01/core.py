"""What the Python server does with COMPOUNDs: sessions, bindings, OPERATION_CONTROL and execution.

One lock guards all state. A connection's thread judges a request when it arrives, may then wait for its arguments, and executes
it. Only the last two steps let other connections in between.
"""

import collections
import hashlib
import os
import threading
import time

import wire
from held import Held
from links import READS
from operations import TABLE, Cursor, Operations
from streams import Refused, Session
from tree import LEASE_SECONDS, Failed, Tree
from wire import BadXdr, Reader, u32

MINOR_VERS_MISMATCH, OP_ILLEGAL, CLID_INUSE, ACCESS = 10021, 10044, 10017, 13
NOT_SUPPORTED = (20, 30, 35, 36)  # OPEN_CONFIRM, RENEW, SETCLIENTID, SETCLIENTID_CONFIRM
MOST_REQUESTS, MOST_UNBOUND, MOST_CHANNELS = 64, 1024, 64
LARGEST = {False: 1 << 17, True: 8192}  # largest request and response, by whether the channel uses RDMA
SMALLEST_REQUEST, SMALLEST_RESPONSE = 2048, 1024
LARGEST_PAD = 512
OVERHEAD = 24 + 12 + 8  # the header of an RPC reply, of a COMPOUND's results, and a result that is only a status
RESERVE = 256  # for the result of an operation that changes something


class Client:
    """A client instance (nfs_client_id4) with its principal."""

    def __init__(self, name, verifier, principal):
        self.name, self.verifier, self.principal, self.renewed = name, verifier, principal, time.monotonic()

    @property
    def holds_lease(self):
        return time.monotonic() - self.renewed < LEASE_SECONDS


class Answer:
    """The results of a COMPOUND, and where its payloads are in them."""

    def __init__(self, octets, payloads=()):
        self.octets, self.payloads = octets, payloads
        self.after = None  # a function to call when the reply is sent


def failure(operation, status, tag):
    return Answer(wire.reply(status, [u32(operation) + u32(status)], tag))


class Core:
    """`callbacks` is a callbacks.Callbacks; `steps_up` tells whether a TCP connection may enter RDMA mode."""

    def __init__(self, callbacks, steps_up=True, delegates=True):
        self.lock, self.callbacks, self.steps_up, self.delegates = threading.Condition(), callbacks, steps_up, delegates
        self.tree, self.held, self.instance = Tree(), Held(), os.urandom(8)
        self.bound, self.unbound = {}, collections.OrderedDict()  # sessions by the client's name; by sessionid
        self.executed = 0  # COMPOUNDs behind an OPERATION_CONTROL
        self.after_request = lambda session: None  # called when a session has ended a request

    def sessions(self):
        """Returns the living sessions by their sessionids."""
        for number, session in list(self.unbound.items()):
            if not session.client.holds_lease:
                del self.unbound[number]
        return {session.number: session for session in [*self.bound.values(), *self.unbound.values()]}

    def compound(self, connection, request, call):
        """Answers a COMPOUND. Its prefix is complete up to the arguments of its first operation."""
        reader = request.reader(request.prefix)
        reader.at = call.at
        tag, minor, count = reader.opaque(), reader.u32(), reader.u32()
        if minor != wire.MINOR_VERSION:
            return Answer(wire.reply(MINOR_VERS_MISMATCH, [], tag))
        if not count:
            return Answer(wire.reply(wire.CONTROL_POS if connection.session else MINOR_VERS_MISMATCH, [], tag))
        first = reader.u32()
        if first == wire.SESSION_CREATE:
            return self._alone(self._create, connection, call, first, tag, reader, count)
        if first == wire.SESSION_BIND:
            return self._bind_first(connection, request, call, tag, count)
        if connection.session is None:
            return failure(first, wire.NOT_BOUND, tag) if first in wire.OURS else Answer(wire.reply(MINOR_VERS_MISMATCH, [], tag))
        if first != wire.OPERATION_CONTROL:
            return failure(first, wire.CONTROL_POS, tag)
        try:
            return self._controlled(connection, request, call, tag, wire.read_arguments(first, reader), count, reader.at)
        except BadXdr:
            return failure(first, wire.BADXDR, tag)

    def _alone(self, run, connection, call, operation, tag, reader, count):
        if count != 1:
            return failure(operation, wire.CONTROL_POS, tag)
        try:
            arguments = wire.read_arguments(operation, reader)
            reader.end()
            with self.lock:
                return Answer(wire.reply(wire.OK, [wire.results(operation, **run(connection, call, arguments))], tag))
        except BadXdr:
            return failure(operation, wire.BADXDR, tag)
        except Refused as why:
            return failure(operation, why.status, tag)

    # ---- SESSION_CREATE ----

    def _create(self, connection, call, arguments):
        name, verifier = arguments["id"], arguments["verifier"]
        known = [session for session in self.sessions().values() if session.client.name == name]
        same = [each for each in known if (each.client.verifier, each.client.principal) == (verifier, call.principal)]
        if connection.is_spent or connection.created not in (None, *(session.number for session in same)):
            raise Refused(wire.BADBIND)
        if same:
            session = same[0]
        else:
            if any(each.client.principal != call.principal and each.client.holds_lease for each in known):
                raise Refused(CLID_INUSE)
            requests = min(max(arguments["totalrequests"], 1), MOST_REQUESTS)
            client = Client(name, verifier, call.principal)
            session = Session(int.from_bytes(os.urandom(8), "big"), client, arguments["persist"], requests)
            self.unbound[session.number] = session
            if len(self.unbound) > MOST_UNBOUND:
                self.unbound.popitem(last=False)
        connection.created = session.number
        # Nothing here survives a restart, so no session is persistent.
        return {"sessionid": session.number, "persist": False, "totalrequests": session.limit}

    # ---- SESSION_BIND ----

    def _bind_first(self, connection, request, call, tag, count):
        octets = request.pull()
        reader = Reader(octets, call.at)
        reader.opaque(), reader.u32(), reader.u32(), reader.u32()
        try:
            arguments = wire.read_arguments(wire.SESSION_BIND, reader)
        except BadXdr:
            return failure(wire.SESSION_BIND, wire.BADXDR, tag)
        rest = self._decode(reader, count - 1)
        if any(number not in TABLE or TABLE[number][1] for number, _ in rest):
            return failure(wire.SESSION_BIND, wire.CONTROL_POS, tag)
        with self.lock:
            try:
                result, channel = self._bind(connection, call, arguments)
            except Refused as why:
                return failure(wire.SESSION_BIND, why.status, tag)
            if connection.link.is_rdma and channel.kind == wire.OPERATION:
                connection.link.granted = channel.limits["maxrequests"]
            steps_up = not connection.link.is_rdma and wire.granted_mode(result["transportattrs"]) == wire.RDMA
            answer, _ = self._execute(connection, request, tag, [wire.results(wire.SESSION_BIND, **result)], rest, Cursor())
            answer.after = lambda: connection.limit(channel, steps_up)
            return answer

    def _check_bind(self, connection, session, arguments):
        kind, pad = arguments["channel"], arguments["headerpadsize"]
        if connection.is_spent or connection.session not in (None, session) or kind in connection.channels:
            raise Refused(wire.BADBIND)
        if kind == wire.BACK and (session.live(wire.BACK) or session.had_operations and not session.had_back):
            raise Refused(wire.BADBIND)
        if len(session.channels) >= MOST_CHANNELS or connection.link.is_rdma and arguments["mode"] == wire.STREAM:
            raise Refused(wire.BADBIND)
        if len(arguments["transportattrs"]) > wire.LONGEST_ATTRIBUTES or pad & pad - 1:
            raise Refused(wire.INVAL)
        for name, smallest in (("maxrequestsize", SMALLEST_REQUEST), ("maxresponsesize", SMALLEST_RESPONSE)):
            if 0 < arguments[name] < smallest:
                raise Refused(wire.TOOSMALL)
        try:
            wire.read_attributes(arguments["transportattrs"])
        except BadXdr:
            raise Refused(wire.INVAL) from None

    def _bind(self, connection, call, arguments):
        session = self.sessions().get(arguments["sessionid"])
        if session is None or session.client.principal != call.principal:
            raise Refused(wire.BADSESSION)
        self._check_bind(connection, session, arguments)
        rdma = connection.link.is_rdma or arguments["mode"] == wire.RDMA and self.steps_up
        largest, padded = LARGEST[rdma], rdma and arguments["channel"] == wire.OPERATION
        limits = {name: min(arguments[name] or largest, largest) for name in ("maxrequestsize", "maxresponsesize")}
        limits["headerpadsize"] = min(arguments["headerpadsize"], LARGEST_PAD) if padded and arguments["headerpadsize"] >= 64 else 0
        limits["maxrequests"] = min(arguments["maxrequests"] or session.limit, session.limit)
        limits["maxrdmareads"] = min(arguments["maxrdmareads"], READS) if padded else 0
        if self.unbound.pop(session.number, None):
            if session.client.name in self.bound:
                self.destroy(self.bound[session.client.name], connection)
            self.bound[session.client.name] = session
        session.client.renewed = time.monotonic()
        channel = session.bind(arguments["channel"], connection, limits)
        connection.session, connection.channels[channel.kind] = session, channel
        attributes = wire.attributes((wire.MODE_GRANTED, u32(rdma)), (wire.SERVER_INSTANCE, self.instance))
        return {"channelid": channel.number, **limits, "transportattrs": attributes}, channel

    # ---- OPERATION_CONTROL ----

    def _controlled(self, connection, request, call, tag, control, count, at):
        has_chunks = request.header is not None and bool(request.header.reads or request.header.align)
        digest = None if has_chunks else self._digest(call, request.prefix)
        with self.lock:
            try:
                session = connection.session
                accepted, is_new = self._judge(connection, request, call, control, digest)
            except Refused as why:
                return failure(wire.OPERATION_CONTROL, why.status, tag)
            if not is_new:
                return accepted.reply
            is_retry = accepted.channel != connection.channels[wire.OPERATION].number
        try:
            octets = request.pull()
        except BaseException:
            with self.lock:
                session.take_back(control["streamid"], accepted)
                self.lock.notify_all()
            raise
        reader = request.reader(octets)
        reader.at = at
        operations = self._decode(reader, count - 1)
        with self.lock:
            if has_chunks:
                accepted.digest = self._digest(call, self._without_pads(octets, reader))
            answer = self._run(connection, request, call, tag, control, is_retry, operations)
            session.ended(accepted, Answer(answer.octets, answer.payloads))
            self.lock.notify_all()
            self.after_request(session)
            return answer

    @staticmethod
    def _digest(call, octets):
        return hashlib.sha256(repr(call.principal).encode() + octets[call.at:]).digest()

    @staticmethod
    def _without_pads(octets, reader):
        for at, size in reversed(getattr(reader, "pads", [])):
            octets = octets[:at] + octets[at + size:]
        return octets

    def _judge(self, connection, request, call, control, digest):
        """Returns (the request in the table, whether it is a new one). Waits for the end of an earlier one that this one repeats."""
        channel, session = connection.channels.get(wire.OPERATION), connection.session
        if channel is None or channel.number not in session.channels:
            raise Refused(wire.NOT_BOUND)
        if not connection.link.is_rdma and request.size > channel.limits["maxrequestsize"]:
            raise Refused(wire.TOOSMALL)
        session.client.renewed = time.monotonic()
        while True:
            accepted, is_new = session.judge(channel, control["channelid"], control["streamid"], call.xid, digest)
            for other in session.cut:
                other.connection.cut()
            if is_new:
                return accepted, True
            if accepted.reply is not None:
                if digest not in (None, accepted.digest):
                    raise Refused(wire.STREAM_INUSE)
                return accepted, False
            if connection.is_cut or not connection.session:
                raise Refused(wire.NOT_BOUND)
            self.lock.wait(1)

    def _run(self, connection, request, call, tag, control, is_retry, operations):
        """Executes the operations behind an OPERATION_CONTROL that is in order, unless the chain forbids it."""
        if any(number in wire.OURS[:3] for number, _ in operations) or \
                any(number == wire.SESSION_DESTROY for number, _ in operations[:-1]):
            return failure(wire.OPERATION_CONTROL, wire.CONTROL_POS, tag)
        chain = connection.channels[wire.OPERATION].chain
        try:
            chain.judge(control["chainflags"], is_retry)
        except Refused as why:
            return failure(wire.OPERATION_CONTROL, why.status, tag)
        chain.cursor = chain.cursor or Cursor()
        self.executed += 1
        first = wire.results(wire.OPERATION_CONTROL, streamid=control["streamid"])
        answer, complete = self._execute(connection, request, tag, [first], operations, chain.cursor, call)
        chain.ended(control["chainflags"], complete)
        if control["chainflags"] == wire.NOCHAIN:
            chain.cursor = None
        return answer

    # ---- execution ----

    @staticmethod
    def _decode(reader, count):
        """Returns [(number, arguments)] of operations. The arguments are a status where the operation cannot be executed; nothing
        behind it is read."""
        operations = []
        for _ in range(count):
            try:
                number = reader.u32()
                if number in NOT_SUPPORTED:
                    operations.append((number, wire.NOTSUPP))
                    break
                if number in wire.OURS:
                    operations.append((number, ()))
                    continue
                if number not in TABLE:
                    operations.append((OP_ILLEGAL, OP_ILLEGAL))
                    break
                operations.append((number, wire.BADXDR))
                operations[-1] = number, [read(reader) for read in TABLE[number][2:]]
            except BadXdr:
                break
        return operations

    def _execute(self, connection, request, tag, results, operations, cursor, call=None):
        """Returns (Answer, whether everything was done completely)."""
        session = connection.session
        work = Operations(self.tree, self.held, session.client, cursor, self.recall, lambda: self._may_delegate(session))
        limit = connection.channels[wire.OPERATION].limits["maxresponsesize"] if wire.OPERATION in connection.channels else request.room
        room = (request.room if connection.link.is_rdma else min(limit, request.room)) - OVERHEAD - len(wire.opaque(tag))
        status, payloads, size, moved = wire.OK, [], sum(map(len, results)), 0
        for number, arguments in operations:
            status, body, payload = self._one(connection, call, work, number, arguments, room - size)
            result = u32(number) + u32(status) + body
            inline = len(result)
            if payload and not payloads and 0 < payload[1] <= request.chunk:
                inline -= payload[1] + -payload[1] % 4
            if size + inline > room:
                status, result, payload = wire.TOOSMALL, u32(number) + u32(wire.TOOSMALL), None
            if payload:
                payloads.append((sum(map(len, results)) + 8 + payload[0], payload[1]))
            results.append(result)
            size += inline
            if status != wire.OK:
                break
        head = 4 + len(wire.opaque(tag)) + 4
        answer = Answer(wire.reply(status, results, tag), [(head + at, length) for at, length in payloads])
        return answer, status == wire.OK and work.complete

    def _one(self, connection, call, work, number, arguments, room):
        """Executes an operation. Returns (status, the body of its result, (position, size) of its payload in the body)."""
        if isinstance(arguments, int):
            return arguments, b"", None
        if number == wire.SESSION_DESTROY:
            if call.principal != connection.session.client.principal:
                return ACCESS, b"", None
            self.destroy(connection.session, connection)
            connection.is_spent = True
            return wire.OK, b"", None
        run, changes = TABLE[number][:2]
        if changes and room < RESERVE:
            return wire.TOOSMALL, b"", None
        try:
            outcome = run(work, *arguments)
        except Failed as why:
            return why.status, why.body, None
        if isinstance(outcome, tuple):
            return wire.OK, outcome[0], outcome[1:]
        return wire.OK, outcome or b"", None

    # ---- what others ask for, with the lock ----

    def _may_delegate(self, session):
        return self.delegates and bool(session.live(wire.BACK))

    def recall(self, delegation):
        """Recalls a delegation, or revokes it if its client cannot be called or has not returned it in a lease time."""
        now = time.monotonic()
        if delegation.recalled is not None:
            if now - delegation.recalled > LEASE_SECONDS:
                self.held.drop(delegation)
            return
        delegation.recalled = now
        session = next((each for each in self.bound.values() if each.client is delegation.client), None)
        if session is None or not session.live(wire.BACK):
            self.held.drop(delegation)
        else:
            stateid = u32(delegation.seqid) + delegation.other
            self.callbacks.recall(session, stateid, delegation.node.handle)

    def destroy(self, session, own):
        """Discards a session and all that its client holds. Its connections are closed, except for `own`."""
        if self.bound.get(session.client.name) is session:
            del self.bound[session.client.name]
        self.unbound.pop(session.number, None)
        self.held.drop_client(session.client)
        for channel in list(session.channels.values()):
            session.close(channel)
            channel.connection.unbind()
            if channel.connection is not own:
                channel.connection.cut()

    def forget(self, connection):
        """The connection has ended, and its channels with it."""
        with self.lock:
            for channel in connection.channels.values():
                if connection.session:
                    connection.session.close(channel)
            self.lock.notify_all()
