#!/usr/bin/python3
"""Tests the Python client of the sessions of 2004 against the Python server, and both codecs' vectors."""

import itertools
import os
import struct
import sys
import threading
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import cases  # noqa: E402
import check_back  # noqa: E402
import check_chains  # noqa: E402
import check_control  # noqa: E402
import check_once  # noqa: E402
import check_rdma  # noqa: E402
import check_sessions  # noqa: E402
import client as ends  # noqa: E402
import core  # noqa: E402
import iwarp_peer  # noqa: E402
import links  # noqa: E402
import nfs4_messages as nfs4  # noqa: E402
import rpc_messages as rpc  # noqa: E402
import scenario  # noqa: E402
import streams  # noqa: E402
import vectors  # noqa: E402
import wire  # noqa: E402
from check import Place, expect  # noqa: E402
from client import GETFH, MODELS, RDMA, STEP_UP, TCP, Results  # noqa: E402
from iwarp_peer import CRC, ENHANCED, MARKERS, mpa_frame, private_data  # noqa: E402
from patience import wait_until  # noqa: E402
from rdma_messages import RDMA_MSG, RDMA_MSGP, Header  # noqa: E402
from server import Server  # noqa: E402

# The checks that a model cannot run.
NOT_HERE = {
    TCP: {"stream_mode_on_rdma_is_refused", "stepping_up_refuses_other_octets", "busy_streamid_is_refused",
          "retry_of_a_request_that_was_not_pulled_is_executed", *(check.__name__ for check in check_rdma.CHECKS)},
    STEP_UP: {"stream_mode_on_rdma_is_refused"},
    RDMA: {"stepping_up_refuses_other_octets"},
}


RECALLS = {check.__name__ for check in check_back.RECALL_CHECKS}
for each in NOT_HERE.values():
    each |= RECALLS


class Serving:
    """A context manager: a server and the Place of a model on it."""

    def __init__(self, model, **how):
        self.model, self.how = model, how

    def __enter__(self):
        self.server = Server(**self.how)
        self.place = Place("127.0.0.1", self.server.tcp, self.server.rdma, self.model, recalls=self.how.get("recalls"))
        return self.server, self.place

    def __exit__(self, *_):
        self.place.tidy()
        self.server.stop()


def scenario_of(model):
    def run(scratch):
        with Serving(model) as (_, place):
            failed, not_here = scenario.run(place, scenario.CHECKS)
            assert not failed, f"checks failed: {failed}"
            assert set(not_here) == NOT_HERE[model], f"checks that did not apply: {not_here}"
    return run


def refused_step_up(scratch):
    """A server without RDMA mode grants STREAM, and the connection goes on as it is."""
    with Serving(STEP_UP, steps_up=False) as (_, place):
        channel = place.client().start(back=True, headerpadsize=512, maxrdmareads=4)
        assert wire.granted_mode(channel.limits["transportattrs"]) == wire.STREAM and not channel.caller.stepped_up
        assert channel.limits["headerpadsize"] == 0 and channel.limits["maxrdmareads"] == 0
        expect(channel.run(place.root), wire.OK, "a request over TCP")


def data(scratch):
    """READ and WRITE of sizes that go inline, with pads, and by chunks, forth and back."""
    for model in MODELS:
        with Serving(model) as (_, place):
            client = place.client()
            channel = client.start(maxrequestsize=0, maxresponsesize=0, headerpadsize=512)
            opened = channel.run([*place.root, ends.open_file(b"owner", b"file", create=ends.unchecked()), GETFH])
            handle, stateid = opened.value(nfs4.GETFH), opened.value(nfs4.OPEN)["stateid"]
            is_rdma = channel.caller.link.is_rdma
            for size in (0, 1, 511, 512, 513, 4099, 7000, 30001, 100003):
                octets = os.urandom(size)
                write = [nfs4.putfh(handle), nfs4.write_op(stateid, 0, octets)]
                expect(channel.run(write, data=size), wire.OK, f"{model}: WRITE of {size} octets")
                if is_rdma:
                    kind = channel.caller.link.kinds[-1]
                    assert kind == (RDMA_MSGP if 512 <= size <= 7000 else RDMA_MSG), f"{size} octets went by RDMA procedure {kind}"
                read = [nfs4.putfh(handle), nfs4.op(nfs4.READ, stateid, rpc.hyper(0), rpc.words(size))]
                for room in ({"read_room": size}, {"room": size + 1000}) if is_rdma and size else ({},):
                    assert channel.run(read, **room).value(nfs4.READ)[1] == octets, f"{model}: READ of {size} octets with {room}"


def padded_original(scratch):
    """A retry has the digest of the original, although pads and chunks differ."""
    for model in (STEP_UP, RDMA):
        with Serving(model) as (server, place):
            client = place.client()
            channel = client.start(headerpadsize=512)
            opened = channel.run([*place.root, ends.open_file(b"owner", b"file", create=ends.unchecked()), GETFH])
            handle, stateid = opened.value(nfs4.GETFH), opened.value(nfs4.OPEN)["stateid"]
            message = channel.message([nfs4.putfh(handle), nfs4.write_op(stateid, 0, b"w" * 3000)], 5)
            how = {"payload": (len(message) - 3000, 3000)}
            original = channel.caller.call(message, **how)
            channel.caller.lose()
            executed, again = server.core.executed, client.bind(client.open(), headerpadsize=64)
            assert again.caller.call(message, **how) == original and again.caller.link.kinds[-1] == RDMA_MSGP
            third = client.bind(client.open())
            assert third.caller.call(message) == original and third.caller.link.kinds[-1] == RDMA_MSG
            assert server.core.executed == executed, "the WRITE was executed again"


def credits_return(scratch):
    """CB_CREDITRECALL: the client uses fewer streamids, and RDMA channels lose credits by calls or by empty Sends."""
    for model in MODELS:
        for by_sends in (False, True):
            with Serving(model) as (server, place):
                client = place.client(requests=8)
                client.return_by_sends = by_sends
                channel = client.start(back=True)
                expect(channel.run(place.root), wire.OK, "a request")
                assert server.recall_credits(client.sessionid, 0) == wire.INVAL
                assert server.recall_credits(client.sessionid, 3) == wire.OK and client.streams.limit == 3
                expect(Results(channel.caller.call(channel.message(place.root, 3))), wire.BADSTREAM, "a streamid that was given back")
                expect(channel.run(place.root, 2), wire.OK, "the highest streamid that is left")
                if channel.caller.link.is_rdma:
                    assert channel.caller.link.granted == 3, f"{channel.caller.link.granted} credits"
                    wait_until(lambda: returned(server) >= 5 * by_sends, "the empty Sends did not arrive")


def returned(server):
    return sum(each.link.empty_sends for each in server.connections if each.link.is_rdma)


def credits_are_recalled(scratch):
    """The checks of CB_CREDITRECALL, in each model."""
    for model in MODELS:
        with Serving(model, recalls=1) as (_, place):
            failed, not_here = scenario.run(place, check_back.RECALL_CHECKS)
            assert not failed, f"checks failed: {failed}"
            assert not_here == ["credits_are_returned_by_empty_sends"] * (model == TCP), not_here


def recall_waits_for_outstanding_requests(scratch):
    """The client answers CB_CREDITRECALL when no streamid from the target on is in use."""
    with Serving(TCP) as (server, place):
        client = place.client(requests=4)
        client.start(back=True)
        answers = []
        with client.stream(), client.stream(), client.stream():
            thread = threading.Thread(target=lambda: answers.append(server.recall_credits(client.sessionid, 2)))
            thread.start()
            wait_until(lambda: client.streams.limit == 2, "the recall did not arrive")
            assert not answers, "an answer while streamid 2 is in use"
        thread.join()
        assert answers == [wire.OK]


def callbacks_obey_the_rules(scratch):
    """The client refuses callbacks whose OPERATION_CONTROL is wrong, and answers a retry from what it has kept."""
    with Serving(TCP) as (server, place):
        client = place.client()
        client.start(back=True)
        session, callbacks = server.core.sessions()[client.sessionid], server.core.callbacks
        channel = session.live(wire.BACK)[0]
        recall = wire.u32(4) + bytes(16) + wire.u32(0) + wire.opaque(b"file")

        def status(*operations):
            return callbacks.results(callbacks.exchange(session, channel, operations), 0)[-1][1]

        def control(channelid=channel.number, streamid=0, chainflags=wire.NOCHAIN):
            return wire.arguments(wire.OPERATION_CONTROL, channelid=channelid, streamid=streamid, chainflags=chainflags)
        assert status(control(), recall) == wire.OK and len(client.recalls) == 1
        assert status(control(channel.number + 1), recall) == wire.BADCHANNEL
        assert status(control(0), recall) == wire.BADCHANNEL
        assert status(control(streamid=channel.limits["maxrequests"]), recall) == wire.BADSTREAM
        for flag in (wire.CHAINBEGIN, wire.CHAINCONTINUE, wire.CHAINEND):
            assert status(control(chainflags=flag), recall) == wire.CHAIN_INVALID
        assert status(control(), control(), recall) == wire.CONTROL_POS
        assert Results(callbacks.exchange(session, channel, [recall])).status == wire.CONTROL_POS
        assert len(client.recalls) == 1, "a callback with a wrong OPERATION_CONTROL was executed"
        callbacks.xids = itertools.repeat(next(callbacks.xids))
        assert [status(control(), recall) for _ in range(2)] == [wire.OK] * 2 and len(client.recalls) == 2, "a retry was executed"


def unbound_sessions_stay_few(scratch):
    """Sessions that nobody binds do not pile up: the oldest one goes."""
    with Serving(TCP) as (server, place), mock.patch.object(core, "MOST_UNBOUND", 10):
        bound, clients = place.client(), [place.client() for _ in range(12)]
        channel = bound.start()
        for client in clients:
            client.create(client.open())
        assert len(server.core.unbound) == 10
        for client in clients[:2]:
            try:
                client.bind(client.open())
            except ends.Refused as why:
                assert why.status == wire.BADSESSION
            else:
                raise AssertionError("a session that had to go is still there")
        clients[-1].bind(clients[-1].open())
        expect(channel.run(place.root), wire.OK, "a request of a bound session")


def closed_channels_stay_few(scratch):
    """A channel that is long closed counts as one whose requests are stale."""
    with Serving(TCP) as (_, place), mock.patch.object(streams, "REMEMBERED", 3):
        client = place.client()
        first = client.start()
        message = first.message(place.root, 0)
        first.caller.close()
        for _ in range(5):
            client.bind(client.open()).caller.close()
        last = client.bind(client.open())
        wait_until(lambda: len(client.callers) == 7, "connections")
        last.run(place.root)
        expect(Results(last.caller.call(message)), wire.STREAM_INUSE, "a retry that names a channel of long ago")


# ---- mistakes of a server that the scenario must find ----

def matches_nothing(judge):
    def wrong(session, own, named, number, xid, digest):
        session.streams[number].request = None
        return judge(session, own, named, number, xid, digest)
    return wrong


def closes_nothing(judge):
    def wrong(session, own, named, number, xid, digest):
        with mock.patch.object(streams.Session, "close", lambda *_: None):
            result = judge(session, own, named, number, xid, digest)
        session.cut = []
        return result
    return wrong


def takes_every_retry(judge):
    def wrong(session, own, named, number, xid, digest):
        last = session.streams[number].request
        if last and (last.channel, last.xid) != (named, xid):
            session.streams[number] = streams.Stream()
        return judge(session, own, named, number, xid, digest)
    return wrong


def has_no_bounds(judge):
    def wrong(session, own, named, number, xid, digest):
        return judge(session, own, named, number % session.limit, xid, digest)
    return wrong


def replays_by_xid(judge):
    def wrong(session, own, named, number, xid, digest):
        request, is_new = judge(session, own, named, number, xid, None)
        request.digest = digest
        return request, is_new
    return wrong


def never_breaks(ended):
    return lambda chain, flag, complete: ended(chain, flag, True)


def keeps_its_cursor(ended):
    def wrong(chain, flag, complete):
        cursor = chain.cursor
        ended(chain, flag, complete)
        chain.judge = lambda flag, is_retry: setattr(chain, "cursor", cursor)
    return wrong


MISTAKES = [
    (streams.Session, "judge", matches_nothing, check_once.retry_over_a_new_connection),
    (streams.Session, "judge", closes_nothing, check_once.late_original_is_not_executed),
    (streams.Session, "judge", takes_every_retry, check_once.late_retry_is_not_executed),
    (streams.Session, "judge", has_no_bounds, check_control.streamids_are_bounded),
    (streams.Session, "judge", replays_by_xid, check_once.other_request_with_the_same_xid_is_refused),
    (streams.Chain, "ended", never_breaks, check_chains.error_breaks_the_chain),
    (streams.Chain, "ended", keeps_its_cursor, check_chains.file_handles_last_over_the_chain),
    (core.Core, "_check_bind", lambda _: lambda *_: None, check_sessions.back_channel_comes_first),
    (core.Core, "destroy", lambda _: lambda *_: None, check_sessions.destroy_ends_everything),
]


def mistakes(scratch):
    """The scenario finds mistakes that are planted in the server."""
    for owner, name, plant, check in MISTAKES:
        with Serving(TCP) as (_, place):
            with mock.patch.object(owner, name, plant(getattr(owner, name))):
                failed, _ = scenario.run(place, [check])
            assert failed, f"{check.__name__} did not find the mistake in {name}"


# ---- octets that are no messages ----

def broken_messages(scratch):
    """The server ends a connection, or answers with an error, whatever arrives; others go on."""
    with Serving(RDMA) as (server, place):
        channel = place.client().start()
        good = channel.message(place.root)
        tcp = Place("127.0.0.1", server.tcp, server.rdma, TCP)
        for size in range(0, len(good), 3):
            other = tcp.client().open()
            other.endpoint.raw(links.fragment(good[:size]))
            other.close()
        for bad in (bytes(8), bytes(64), os.urandom(200), rpc.header(1, 9),
                    rpc.header(1, RDMA_MSGP, chunks=rpc.words(3, 0, 0, 0, 0)),
                    rpc.rdma_call(good, reads=rpc.read_list((4, 1, 1 << 31)))):
            other = place.client().open()
            other.endpoint.send(bad)
            other.wait_for_end()
        tcp.tidy()
        expect(channel.run(place.root), wire.OK, "a request of another client afterwards")


def enhanced_mpa(scratch):
    """The server answers an MPA Request of revision 2 (RFC 6581): it lets the client read nothing, and reads no more than is allowed."""
    with Serving(RDMA) as (server, _):
        for theirs, ours in (((16, 16), (0, 8)), ((3, 0), (0, 3)), ((0x8000 | 16, 16), (0xC000, 8))):
            data = struct.pack(">HH", *theirs) + private_data()
            endpoint = iwarp_peer.connect(server.rdma, mpa_frame(flags=CRC | ENHANCED, revision=2, private_data=data))
            assert endpoint.private_data == struct.pack(">HH", *ours) + private_data(), endpoint.private_data.hex()
            endpoint.send(rpc.rdma_call(rpc.call(0, b"", (100003, 4))))
            assert rpc.RpcReply(Header(endpoint.receive()).body).status == ("success",)
            endpoint.close()
        for flags, revision in ((CRC, 3), (CRC | MARKERS, 1)):
            endpoint = iwarp_peer.dial(server.rdma)
            endpoint.raw(mpa_frame(flags=flags, revision=revision))
            endpoint.end_of_stream()


CASES = {"vectors": vectors.check, "data": data, "padded_original": padded_original, "credits": credits_return, "recall": credits_are_recalled,
         "recall_waits": recall_waits_for_outstanding_requests, "callback_rules": callbacks_obey_the_rules,
         "refused_step_up": refused_step_up, "unbound_sessions": unbound_sessions_stay_few, "closed_channels": closed_channels_stay_few,
         "mistakes": mistakes, "broken_messages": broken_messages, "enhanced_mpa": enhanced_mpa,
         **{f"scenario_{model.replace('-', '_')}": scenario_of(model) for model in MODELS}}

if __name__ == "__main__":
    cases.main(CASES)
