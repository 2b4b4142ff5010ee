"""The calls of the Python server to its clients: CB_COMPOUND over the back channel of a session (§2.6 of the draft)."""

import itertools
import struct
import threading

import rpc_messages as rpc
import wire
from iwarp_peer import Ended, Silence
from wire import Reader, opaque, u32

CB_COMPOUND, CB_RECALL = 1, 4
SECONDS = 60


class Unreachable(Exception):
    """The client cannot be called, or has not answered."""


class Callbacks:
    def __init__(self):
        self.xids, self.lock, self.waiting = itertools.count(0xCB000000), threading.Condition(), {}
        self.busy = set()  # (channel, streamid) of the calls that are out

    def handle_reply(self, message):
        """Takes a message from a client that is no call."""
        with self.lock:
            (xid,) = struct.unpack_from(">I", message)
            if xid in self.waiting:
                self.waiting[xid] = message
                self.lock.notify_all()

    def _take_stream(self, channel):
        def free():
            return next((n for n in range(channel.limits["maxrequests"]) if (channel, n) not in self.busy), None)
        with self.lock:
            if not self.lock.wait_for(lambda: free() is not None, SECONDS):
                raise Unreachable()
            stream = free()
            self.busy.add((channel, stream))
            return stream

    def exchange(self, session, channel, operations):
        """Makes a CB_COMPOUND of operations as they are; returns the octets of the reply."""
        credential = rpc.AUTH_SYS if session.client.principal[0] else rpc.AUTH_NONE  # as the session came
        xid = next(self.xids)
        message = rpc.call(CB_COMPOUND, wire.callback_compound(operations), wire.CALLBACK_PROGRAM, xid, credential=credential)
        with self.lock:
            self.waiting[xid] = None
        try:
            channel.connection.link.send_call(message)
            with self.lock:
                self.lock.wait_for(lambda: self.waiting[xid] or channel.number not in session.channels, SECONDS)
        except (OSError, Ended, Silence):
            pass
        with self.lock:
            answer = self.waiting.pop(xid)
        if answer is None:
            raise Unreachable()
        return answer

    def call(self, session, *operations):
        """Calls a client. Returns the [(operation, status)] of its results, the first one of OPERATION_CONTROL."""
        channel = next(iter(session.live(wire.BACK)), None)
        if channel is None:
            raise Unreachable()
        stream = self._take_stream(channel)
        control = wire.arguments(wire.OPERATION_CONTROL, channelid=channel.number, streamid=stream, chainflags=wire.NOCHAIN)
        try:
            return self.results(self.exchange(session, channel, [control, *operations]), stream)
        finally:
            with self.lock:
                self.busy.discard((channel, stream))
                self.lock.notify_all()

    @staticmethod
    def results(answer, stream):
        """Reads the reply to a CB_COMPOUND with this streamid: [(operation, status)]."""
        reply = rpc.RpcReply(answer)
        if reply.status != ("success",):
            raise Unreachable()
        reader, results = Reader(reply.results), []
        status, _, count = reader.u32(), reader.opaque(), reader.u32()
        for _ in range(count):
            number = reader.u32()
            if number == wire.OPERATION_CONTROL:
                each, values = wire.read_results(number, reader)
                assert each != wire.OK or values["streamid"] == stream, "a reply for another streamid"
            else:
                each = reader.u32()
            results.append((number, each))
        assert results and results[-1][1] == status, "a status that is not that of the last operation"
        return results

    def recall(self, session, stateid, handle):
        """Recalls a delegation. Does not wait for the answer."""
        operation = u32(CB_RECALL) + stateid + u32(0) + opaque(handle)

        def run():
            try:
                self.call(session, operation)
            except Unreachable:
                pass
        threading.Thread(target=run, daemon=True).start()

    def recall_credits(self, session, target):
        """Asks the client to use the streamids below `target` only. Returns the status."""
        return self.call(session, wire.arguments(wire.CB_CREDITRECALL, target=target))[-1][1]

    def forget(self):
        """Wakes the callers: a channel has ended."""
        with self.lock:
            self.lock.notify_all()
