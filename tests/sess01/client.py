"""A client of the sessions of 2004, written from draft-talpey-nfsv4-rdma-sess-01: sessions, channels, retries, chains and the back
channel, over TCP, over RDMA, and over TCP connections that step up to RDMA."""

import itertools
import os
import threading

import nfs4_messages as nfs4
import rpc_messages as rpc
import wire
from caller import Caller
from patience import SECONDS
from wire import Reader, opaque, u32

TCP, STEP_UP, RDMA = "tcp", "step-up", "rdma"
MODELS = (TCP, STEP_UP, RDMA)
CB_COMPOUND, CB_GETATTR, CB_RECALL = 1, 3, 4
OP_ILLEGAL, BADHANDLE = 10044, 10001
names = itertools.count(1)


class Refused(Exception):
    """SESSION_CREATE or SESSION_BIND ended with this status."""

    def __init__(self, status):
        super().__init__(f"status {status}")
        self.status = status


class Ignored(Exception):
    """The client does not answer a callback, as the check wants it."""


class Where:
    """A server: its ports and the connection model. `tap` is a function of a socket that returns the function for Tapped."""

    def __init__(self, host, tcp, rdma, model, tap=None):
        self.host, self.tcp, self.rdma, self.model, self.tap = host, tcp, rdma, model, tap


def credential(uid):
    return rpc.words(1) + rpc.opaque(rpc.words(0) + rpc.opaque(b"sess01") + rpc.words(uid, uid, 0))


DECODERS = {wire.OPERATION_CONTROL: Reader.u32, wire.SESSION_DESTROY: None,
            wire.SESSION_CREATE: lambda reader: wire.read(wire.LAYOUTS[wire.SESSION_CREATE][1], reader),
            wire.SESSION_BIND: lambda reader: wire.read(wire.LAYOUTS[wire.SESSION_BIND][1], reader)}


class Results(nfs4.Results):
    """The results of a COMPOUND of the draft; `values` of our operations are dictionaries, or the streamid."""

    def __init__(self, reply):
        decoders = {number: lambda reader, decode=decode: self._decode(reader, decode) for number, decode in DECODERS.items() if decode}
        super().__init__(reply, decoders)

    @staticmethod
    def _decode(reader, decode):
        ours = Reader(reader.data, reader.at)
        value = decode(ours)
        reader.at = ours.at
        return value


class Channel:
    """A connection that is bound for a purpose. `limits` are the values of the bind's result."""

    def __init__(self, client, caller, kind, limits):
        self.client, self.caller, self.kind, self.limits, self.number = client, caller, kind, limits, limits["channelid"]

    def message(self, operations, stream=0, flag=wire.NOCHAIN, named=None, xid=None, uid=None):
        """Makes a COMPOUND behind an OPERATION_CONTROL. A retry names another channel than this one."""
        number = self.number if named is None else named
        control = wire.arguments(wire.OPERATION_CONTROL, channelid=number, streamid=stream, chainflags=flag)
        return self.client.compound([control, *operations], xid=xid, uid=uid)

    def run(self, operations, stream=None, flag=wire.NOCHAIN, data=None, seconds=SECONDS, **how):
        """Runs a COMPOUND; returns its Results. `stream` is a free one unless it is given. `data` is the size of the data of a WRITE
        that is the last operation. `how` are further arguments of the link's send_call."""
        with self.client.stream(stream) as number:
            message = self.message(operations, number, flag)
            if data is not None:
                how["payload"] = len(message) - data - -data % 4, data
            results = Results(self.caller.call(message, seconds, **how))
        if results.operations and results.statuses[0] == wire.OK:
            assert results.values[0] == number, "a result for another streamid"
        return results

    def chain(self, *requests):
        """Sends COMPOUNDs as one chain, all before the first reply. Returns their Results."""
        flags = [wire.CHAINBEGIN, *[wire.CHAINCONTINUE] * (len(requests) - 2), wire.CHAINEND]
        messages = [self.message(each, stream, flag) for stream, (each, flag) in enumerate(zip(requests, flags))]
        for message in messages:
            self.caller.send(message)
        return [Results(self.caller.wait(rpc.xid_of(message))) for message in messages]


class Streams:
    """The streamids of a session that have no outstanding request, below a limit that the server may lower."""

    def __init__(self, limit):
        self.limit, self.busy, self.changed = limit, set(), threading.Condition()

    def take(self):
        with self.changed:
            assert self.changed.wait_for(lambda: len([each for each in self.busy if each < self.limit]) < self.limit, SECONDS)
            number = next(each for each in range(self.limit) if each not in self.busy)
            self.busy.add(number)
            return number

    def give(self, number):
        with self.changed:
            self.busy.discard(number)
            self.changed.notify_all()

    def lower(self, target):
        """Uses the streamids below the target only; returns when none above it is busy."""
        with self.changed:
            self.limit = min(self.limit, target)
            return self.changed.wait_for(lambda: all(each < target for each in self.busy), SECONDS)


class Taken:
    """A context manager for a streamid. One that the test chooses itself is not counted."""

    def __init__(self, streams, chosen):
        self.streams, self.chosen = streams, chosen

    def __enter__(self):
        self.number = self.streams.take() if self.chosen is None else self.chosen
        return self.number

    def __exit__(self, *_):
        if self.chosen is None:
            self.streams.give(self.number)


class Client:
    """A client instance and its session."""

    def __init__(self, where, name=None, verifier=None, uid=0, persist=True, requests=8):
        self.where, self.name = where, name or b"sess01-%d-%d" % (os.getpid(), next(names))
        self.verifier, self.uid, self.persist, self.requests = verifier or os.urandom(8), uid, persist, requests
        self.sessionid = self.streams = self.instance = None
        self.channels, self.recalls, self.called = [], [], threading.Condition()
        self.control_errors, self.credit_targets, self.return_by_sends = [], [], False
        self.ignores_recalls, self.ignored = False, 0  # CB_CREDITRECALL
        self.callers, self.back_channels = [], {}  # of back channels: by their Caller
        self.answered = {}  # the last callback by its channelid and streamid: (XID, results)

    def open(self):
        """Opens a connection of the model."""
        rdma = self.where.model == RDMA
        caller = Caller(self.where.host, self.where.rdma if rdma else self.where.tcp, rdma, self.answer, self.where.tap)
        self.callers.append(caller)
        return caller

    def compound(self, operations, minor=wire.MINOR_VERSION, xid=None, uid=None, count=None):
        return rpc.call(1, wire.compound(operations, minor=minor, count=count), (100003, 4), xid,
                        credential=credential(self.uid if uid is None else uid))

    def raw(self, caller, operations, minor=wire.MINOR_VERSION, uid=None):
        """Runs a COMPOUND as it is."""
        return Results(caller.call(self.compound(operations, minor, uid=uid)))

    def create(self, caller, **changes):
        """Creates the session, or asks for it again. Returns the values of the result."""
        values = dict(verifier=self.verifier, id=self.name, persist=self.persist, totalrequests=self.requests) | changes
        results = self.raw(caller, [wire.arguments(wire.SESSION_CREATE, **values)])
        if results.status != wire.OK:
            raise Refused(results.status)
        made = results.value(wire.SESSION_CREATE)
        if not changes:
            self.sessionid = made["sessionid"]
            self.streams = self.streams or Streams(made["totalrequests"])
        return made

    def bind(self, caller, kind=wire.OPERATION, behind=(), uid=None, **changes):
        """Binds a connection to the session; enters RDMA mode if the model steps up and the server grants it. `behind` are
        operations behind the SESSION_BIND. Returns the Channel."""
        mode = wire.STREAM if self.where.model == TCP else wire.RDMA
        values = dict(sessionid=self.sessionid, channel=kind, mode=mode, maxrequestsize=8192, maxresponsesize=8192, headerpadsize=0,
                      maxrequests=self.requests, maxrdmareads=4, transportattrs=b"") | changes
        message = self.compound([wire.arguments(wire.SESSION_BIND, **values), *behind], uid=uid)
        if not caller.link.is_rdma:
            caller.steps_up_with = rpc.xid_of(message), lambda reply: self._grants_rdma(reply)
        results = Results(caller.call(message))
        if results.statuses[:1] != [wire.OK]:
            raise Refused(results.status)
        limits = results.values[0]
        self.instance = wire.read_attributes(limits["transportattrs"]).get(wire.SERVER_INSTANCE)
        channel = Channel(self, caller, kind, limits)
        channel.results = results
        if kind == wire.BACK:
            self.back_channels[caller] = channel
            if caller.stepped_up:
                caller.null()  # the server sends nothing before our first FPDU (RFC 5044 §7.1.2)
        elif caller.link.is_rdma:
            link = caller.link
            link.max_send, link.pad = limits["maxrequestsize"] or link.max_send, limits["headerpadsize"]
            link.wanted = max(link.wanted, limits["maxrequests"])
        self.channels.append(channel)
        return channel

    @staticmethod
    def _grants_rdma(reply):
        results = Results(reply)
        return results.statuses[:1] == [wire.OK] and wire.granted_mode(results.values[0]["transportattrs"]) == wire.RDMA

    def start(self, back=False, **changes):
        """Creates the session and binds an operations channel; with `back`, first a back channel over its own connection."""
        caller = self.open()
        self.create(caller)
        if back:
            self.back = self.bind(self.open(), wire.BACK, maxrequests=2)
        return self.bind(caller, **changes)

    def stream(self, chosen=None):
        return Taken(self.streams, chosen)

    def close(self):
        for caller in self.callers:
            caller.close()

    # ---- the back channel ----

    def answer(self, caller, message):
        """Answers a callback; returns None if there is to be no answer."""
        reader = Reader(message)
        xid, _, version, program, number, procedure = (reader.u32() for _ in range(6))
        reader.u32(), reader.opaque(400), reader.u32(), reader.opaque(400)
        assert version == 2
        head = rpc.words(xid, 1, 0, 0, 0)
        if (program, number) != wire.CALLBACK_PROGRAM:
            return head + u32(rpc.PROG_UNAVAIL)
        if procedure != CB_COMPOUND:
            return head + u32(0 if procedure == 0 else rpc.PROC_UNAVAIL)
        try:
            return head + u32(0) + self._callback(caller, xid, reader)
        except wire.BadXdr:
            return head + u32(rpc.GARBAGE_ARGS)
        except Ignored:
            return None

    def _callback(self, caller, xid, reader):
        tag, minor, _, count = reader.opaque(), reader.u32(), reader.u32(), reader.u32()
        if minor != wire.MINOR_VERSION:
            return wire.reply(10021, [], tag)
        if not count or reader.u32() != wire.OPERATION_CONTROL:
            return wire.reply(wire.CONTROL_POS, [], tag)
        control = wire.read_arguments(wire.OPERATION_CONTROL, reader)
        status = self._control(caller, control)
        results = [wire.results(wire.OPERATION_CONTROL, status, streamid=control["streamid"])]
        if status != wire.OK:
            self.control_errors.append(status)
            return wire.reply(status, results, tag)
        named = control["channelid"], control["streamid"]
        if self.answered.get(named, (None,))[0] == xid:
            return self.answered[named][1]
        for _ in range(count - 1):
            status, number = self._execute(reader.u32(), reader)
            results.append(u32(number) + u32(status))
            if status != wire.OK:
                break
        self.answered[named] = xid, wire.reply(status, results, tag)
        return self.answered[named][1]

    def _control(self, caller, arguments):
        """Returns the status of OPERATION_CONTROL. A callback that names an earlier back channel may be a retry."""
        channel = self.back_channels.get(caller)
        status = wire.OK
        if channel is None:
            status = wire.NOT_BOUND
        elif arguments["channelid"] not in (each.number for each in self.back_channels.values() if each.number <= channel.number):
            status = wire.BADCHANNEL
        elif arguments["streamid"] >= channel.limits["maxrequests"]:
            status = wire.BADSTREAM
        elif arguments["chainflags"] != wire.NOCHAIN:
            status = wire.CHAIN_INVALID
        return status

    def _execute(self, number, reader):
        """Executes an operation of a callback behind OPERATION_CONTROL; returns (status, number)."""
        if number == wire.OPERATION_CONTROL:
            return wire.CONTROL_POS, number
        if number == CB_RECALL:
            stateid, _, handle = reader.fixed(16), reader.boolean(), reader.opaque(128)
            with self.called:
                self.recalls.append((stateid, handle))
                self.called.notify_all()
            return wire.OK, number
        if number == wire.CB_CREDITRECALL:
            return self._return_credits(wire.read_arguments(number, reader)["target"]), number
        if number == CB_GETATTR:
            return BADHANDLE, number
        return OP_ILLEGAL, OP_ILLEGAL

    def _return_credits(self, target):
        """Uses fewer streamids, and returns the credits of the operations channels that use RDMA: each call or empty Send consumes a
        receive that the server does not post again."""
        if self.ignores_recalls:
            self.ignored += 1
            raise Ignored
        if target == 0:
            return wire.INVAL
        self.streams.lower(target)
        for channel in self.channels:
            link = channel.caller.link
            if channel.kind != wire.OPERATION or not link.is_rdma or channel.caller.ended:
                continue
            for _ in range(max(0, link.granted - target)):
                if self.return_by_sends:
                    link.return_credit()
                else:
                    channel.caller.null()
            link.granted = min(link.granted, target)
        with self.called:
            self.credit_targets.append(target)
            self.called.notify_all()
        return wire.OK

    def wait_for_recall(self, seconds=SECONDS):
        with self.called:
            assert self.called.wait_for(lambda: self.recalls, seconds), "no recall"
            return self.recalls.pop(0)


# ---- operations ----

ROOT = nfs4.op(nfs4.PUTROOTFH)
GETFH = nfs4.op(nfs4.GETFH)


def mkdir(name):
    return [ROOT, nfs4.create_op(nfs4.NF4DIR, name)]


def lookup(name):
    return nfs4.op(nfs4.LOOKUP, opaque(name))


def remove(name):
    return [ROOT, nfs4.op(nfs4.REMOVE, opaque(name))]


def open_file(owner, name, access=nfs4.BOTH, create=b""):
    """OPEN of a file in the current directory. `create` is a createhow4. The clientid is zero: the session names the client."""
    return nfs4.open_op(0, owner, name, access, create=create)


def unchecked(mode=0o644):
    return u32(nfs4.UNCHECKED) + nfs4.fattr(mode=mode)


def exclusive(verifier):
    return u32(nfs4.EXCLUSIVE) + verifier

