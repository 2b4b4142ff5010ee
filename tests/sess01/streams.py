"""The exactly-once table of a session, its channels, and the chain of a channel: machines without connections.

A streamid has no sequence number, so a request that names another channel than its own may be a retry, or a retry of something
long past. The count of the session's events decides: every streamid remembers when it last accepted a request, and every
channel when it was closed. A request that names a closed channel was never received if its streamid has accepted nothing since
that channel was closed. Otherwise it is too old to be executed.
"""

import collections

import wire

REMEMBERED = 1024  # closed channels


class Refused(Exception):
    """OPERATION_CONTROL ends with this status."""

    def __init__(self, status):
        super().__init__(f"status {status}")
        self.status = status


class Request:
    """A request that a streamid has accepted. Its digest is known once its arguments are here, its reply once it has ended."""

    def __init__(self, channel, xid, digest, before):
        self.channel, self.xid, self.digest, self.before = channel, xid, digest, before
        self.reply = None


class Stream:
    def __init__(self):
        self.request, self.accepted = None, 0

    @property
    def busy(self):
        return self.request is not None and self.request.reply is None


class Channel:
    """A connection in one role. `limits` are the values that the bind granted."""

    def __init__(self, number, kind, connection, limits):
        self.number, self.kind, self.connection, self.limits = number, kind, connection, limits
        self.chain = Chain()


class Chain:
    """The chain of an operations channel: none, one that goes on, or a broken one. `cursor` lasts as long as the chain."""

    NONE, OPEN, BROKEN = range(3)

    def __init__(self):
        self.state, self.cursor = self.NONE, None

    def judge(self, flag, is_retry):
        """Applies the flag of a request before it is executed. Raises Refused if the request must not be executed."""
        if flag == wire.CHAINBEGIN and self.state != self.NONE:
            raise Refused(wire.CHAIN_INVALID)
        if flag in (wire.CHAINCONTINUE, wire.CHAINEND):
            if is_retry:
                raise Refused(wire.CHAIN_BROKEN)
            if self.state == self.NONE:
                raise Refused(wire.CHAIN_INVALID)
            if self.state == self.BROKEN:
                if flag == wire.CHAINEND:
                    self.state = self.NONE
                raise Refused(wire.CHAIN_BROKEN)
        if flag == wire.CHAINBEGIN:
            self.state, self.cursor = self.OPEN, None
        elif flag == wire.NOCHAIN:
            self.state, self.cursor = self.NONE, None

    def ended(self, flag, complete):
        """Records the end of a request that `judge` has let through."""
        if flag == wire.CHAINEND:
            self.state, self.cursor = self.NONE, None
        elif flag != wire.NOCHAIN and not complete and self.state == self.OPEN:
            self.state, self.cursor = self.BROKEN, None


class Session:
    """The channels and streamids of a session. Whoever uses it holds the lock of the server."""

    def __init__(self, number, client, persist, totalrequests):
        self.number, self.client, self.keeps, self.limit = number, client, persist, totalrequests
        self.events, self.next_channel = 1, 1
        self.channels, self.closed = {}, collections.OrderedDict()  # by number: the live ones; when the others were closed
        self.streams = [Stream() for _ in range(totalrequests)]
        self.had_operations = self.had_back = self.recalled = False

    def tick(self):
        self.events += 1
        return self.events

    def live(self, kind):
        return [channel for channel in self.channels.values() if channel.kind == kind]

    def bind(self, kind, connection, limits):
        channel = self.channels[self.next_channel] = Channel(self.next_channel, kind, connection, limits)
        self.next_channel += 1
        self.had_operations |= kind == wire.OPERATION
        self.had_back |= kind == wire.BACK
        return channel

    def close(self, channel):
        """The channel accepts no more requests."""
        if self.channels.pop(channel.number, None) and channel.kind == wire.OPERATION:
            self.closed[channel.number] = self.tick()
            if len(self.closed) > REMEMBERED:
                self.closed.popitem(last=False)

    def judge(self, own, named, number, xid, digest):
        """Judges a request that arrives on the channel `own` and names the channel `named`. Returns (request, True) for a
        new one, which must be executed, or (an earlier request, False) whose reply answers this one too. Raises Refused otherwise.
        Closes the named channel if it is another one that lives, and has it in `cut`."""
        self.cut = []
        if number >= self.limit:
            raise Refused(wire.BADSTREAM)
        if not 0 < named < self.next_channel:
            raise Refused(wire.BADCHANNEL)
        is_retry = named != own.number
        if is_retry and named in self.channels:
            other = self.channels[named]
            if other.kind != wire.OPERATION:
                raise Refused(wire.BADCHANNEL)
            self.close(other)
            self.cut.append(other)
        stream = self.streams[number]
        last = stream.request
        if last is not None and (last.channel, last.xid) == (named, xid):
            if None not in (last.digest, digest) and last.digest != digest:
                raise Refused(wire.STREAM_INUSE)
            if last.reply is None or self.keeps:
                return last, False
        elif stream.busy or is_retry and stream.accepted >= self.closed.get(named, 0):
            raise Refused(wire.STREAM_INUSE)
        stream.request, stream.accepted = Request(named, xid, digest, (last, stream.accepted)), self.tick()
        return stream.request, True

    def take_back(self, number, request):
        """The connection has gone before the request could be executed: it was never received."""
        stream = self.streams[number]
        if stream.request is request:
            stream.request, stream.accepted = request.before
        request.before = None

    def ended(self, request, reply):
        request.reply, request.before = reply, None

    def lower(self, target):
        """The client has given credits back: it uses the streamids below the target only."""
        self.limit = target
        del self.streams[target:]
