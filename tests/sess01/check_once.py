"""Checks of exactly-once execution (§2.5, §3.2 of the draft). A request is executed once if a CREATE that is sent twice does not
end with NFS4ERR_EXIST, and if a directory that was removed meanwhile does not come back."""

import random

import nfs4_messages as nfs4
import rpc_messages as rpc
import wire
from check import Failed, NotHere, demand, exists, expect, expect_end, run_or_end
from client import GETFH, Results, exclusive, open_file, unchecked
from iwarp_peer import Ended
from patience import wait_until
from wire import u32, u64

NOENT, EXIST = 2, 17


def send(channel, message):
    return Results(channel.caller.call(message))


def lost_reply(channel, message):
    """Sends a request, and loses the connection when it has been executed, before its reply is used."""
    channel.caller.call(message)
    channel.caller.lose()


def retry_over_a_new_connection(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".d"
    message = channel.message(place.mkdir(name), 3)
    lost_reply(channel, message)
    again = client.bind(client.open())
    first = expect(send(again, message), wire.OK, "the retry")
    second = expect(send(again, message), wire.OK, "the second retry")
    demand(first.octets == second.octets, "two answers to one request")
    expect(again.run(place.remove(name)), wire.OK, "REMOVE")
    expect(send(again, message), wire.OK, "the third retry")
    demand(not exists(place, again, name), "the retry was executed")


def retry_over_another_channel_closes_the_original(place):
    client = place.client()
    channel = client.start()
    other = client.bind(client.open())
    name = client.name + b".d"
    message = channel.message(place.mkdir(name), 3)
    original = expect(send(channel, message), wire.OK, "the original")
    demand(expect(send(other, message), wire.OK, "the retry").octets == original.octets, "another answer to the retry")
    expect_end(channel.caller, "a channel whose request came again over another one")
    expect(other.run(place.remove(name)), wire.OK, "REMOVE")


def every_result_is_replayed(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".d"
    message = channel.message(place.look_up(name), 2)
    expect(send(channel, message), NOENT, "LOOKUP of nothing")
    expect(channel.run(place.mkdir(name), 3), wire.OK, "CREATE")
    channel.caller.lose()
    again = client.bind(client.open())
    expect(send(again, message), NOENT, "the retry of the LOOKUP")
    expect(again.run(place.look_up(name), 2), wire.OK, "a new LOOKUP")
    expect(again.run(place.remove(name)), wire.OK, "REMOVE")


def exclusive_create_is_replayed(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".f"
    message = channel.message([*place.root, open_file(b"owner", name, create=exclusive(b"verifier")), GETFH], 1)
    first = send(channel, message)
    expect(first, wire.OK, "OPEN")
    channel.caller.lose()
    again = client.bind(client.open())
    demand(send(again, message).octets == first.octets, "another answer to the retry of an OPEN")
    handle, stateid = first.value(nfs4.GETFH), first.value(nfs4.OPEN)["stateid"]
    expect(again.run([nfs4.putfh(handle), nfs4.close_op(stateid)]), wire.OK, "CLOSE of the one OPEN")
    expect(again.run(place.remove(name)), wire.OK, "REMOVE")


def request_that_was_never_received_is_executed(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".d"
    message = channel.message(place.mkdir(name), 3)
    channel.caller.lose()
    again = client.bind(client.open())
    expect(send(again, message), wire.OK, "the retry of a request that was never received")
    expect(send(again, message), wire.OK, "its retry")
    expect(again.run(place.remove(name)), wire.OK, "REMOVE")


def late_original_is_not_executed(place):
    client = place.client()
    channel = client.start()
    other = client.bind(client.open())
    name = client.name + b".d"
    message = channel.message(place.mkdir(name), 3)
    expect(send(other, message), wire.OK, "the retry, which comes before the original")
    expect(other.run(place.remove(name)), wire.OK, "REMOVE")
    late = run_or_end(channel, message)
    demand(late is None or late.status != wire.OK, "the original is answered after its retry, over a closed channel")
    demand(not exists(place, other, name), "the original was executed after its retry")


def late_retry_is_not_executed(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".d"
    message = channel.message(place.mkdir(name), 3)
    lost_reply(channel, message)
    first, second = client.bind(client.open()), client.bind(client.open())
    expect(send(first, message), wire.OK, "the retry")
    expect(first.run(place.remove(name), 3), wire.OK, "REMOVE with the same streamid")
    expect(send(second, message), wire.STREAM_INUSE, "a retry that comes after its streamid has been used again")
    demand(not exists(place, first, name), "the late retry was executed")


def other_request_with_the_same_xid_is_refused(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".d"
    message = channel.message(place.mkdir(name), 3)
    expect(send(channel, message), wire.OK, "the original")
    forged = channel.message(place.mkdir(name + b"2"), 3, xid=rpc.xid_of(message))
    channel.caller.lose()
    again = client.bind(client.open())
    expect(send(again, forged), wire.STREAM_INUSE, "another request with the XID of an earlier one")
    demand(not exists(place, again, name + b"2"), "the other request was executed")
    expect(send(again, message), wire.OK, "the right retry")
    expect(again.run(place.remove(name)), wire.OK, "REMOVE")


def repetition_on_the_live_channel_is_not_executed(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".d"
    message = channel.message(place.mkdir(name), 3)
    first = expect(send(channel, message), wire.OK, "the original")
    demand(expect(send(channel, message), wire.OK, "the repetition").octets == first.octets, "another answer to the repetition")
    expect(channel.run(place.remove(name)), wire.OK, "REMOVE")


def streamids_are_used_again(place):
    client = place.client(requests=2)
    channel = client.start()
    for i in range(50):
        name = client.name + b".%d" % i
        expect(channel.run(place.mkdir(name), i % 2), wire.OK, f"CREATE {i}")
        expect(channel.run(place.remove(name), i % 2), wire.OK, f"REMOVE {i}")


def without_persist_nothing_is_kept(place):
    client = place.client(persist=False)
    channel = client.start()
    name = client.name + b".d"
    message = channel.message(place.mkdir(name), 3)
    lost_reply(channel, message)
    again = client.bind(client.open())
    expect(send(again, message), EXIST, "the retry in a session without replies")
    expect(again.run(place.remove(name)), wire.OK, "REMOVE")


def retries_over_many_connections_execute_once(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".d"
    message = channel.message(place.mkdir(name), 5)
    channel.caller.send(message)
    for i in range(8):
        try:
            again = client.bind(client.open())
            again.caller.send(message)
            if i % 2:
                expect(Results(again.caller.wait(rpc.xid_of(message))), wire.OK, f"retry {i}")
            again.caller.lose()
        except Ended as why:
            raise Failed(f"retry {i}: the server ended the connection: {why}") from None
    last = client.bind(client.open())
    expect(send(last, message), wire.OK, "the last retry")
    expect(last.run(place.remove(name)), wire.OK, "REMOVE")


def losses_at_random_execute_once(place):
    """Each request is lost up to three times, before or after it is executed, and sent again over a new connection."""
    chance = random.Random(2004)
    client = place.client(requests=4)
    channel = client.start()
    name = client.name + b".d"
    for i in range(40):
        message = channel.message(place.remove(name) if i % 2 else place.mkdir(name), chance.randrange(client.streams.limit))
        for _ in range(chance.randrange(4)):
            how = chance.choice(("unsent", "sent", "answered"))
            if how == "sent":
                channel.caller.send(message)
            elif how == "answered":
                channel.caller.call(message)
            channel.caller.lose()
            channel = client.bind(client.open())
        expect(send(channel, message), wire.OK, f"request {i}")


def copies_at_once_execute_once(place):
    """The same request arrives over three connections at once."""
    client = place.client()
    first = client.start()
    name = client.name + b".d"
    for i in range(10):
        message = first.message(place.remove(name) if i % 2 else place.mkdir(name), 0)
        first.caller.send(message)
        others = [client.bind(client.open()) for _ in range(2)]
        for other in others:
            other.caller.send(message)
        for other in others:
            expect(Results(other.caller.wait(rpc.xid_of(message))), wire.OK, f"a copy of request {i}")
        others[0].caller.close()
        first = others[1]
    demand(not exists(place, first, name), "the directory after as many REMOVEs as CREATEs")


def begin_pulled_write(place, client):
    """Returns (channel, message, file handle, stateid) of a WRITE whose data the server cannot read yet. The streamid is 4."""
    channel = client.start()
    if not channel.caller.link.is_rdma:
        raise NotHere("only where the server reads data by RDMA")
    name = client.name + b".f"
    opened = expect(channel.run([*place.root, open_file(b"owner", name, create=unchecked()), GETFH]), wire.OK, "OPEN")
    handle, stateid = opened.value(nfs4.GETFH), opened.value(nfs4.OPEN)["stateid"]
    size = channel.limits["maxrequestsize"] * 2
    message = channel.message([nfs4.putfh(handle), nfs4.write_op(stateid, 0, b"w" * size)], 4)
    channel.caller.endpoint.answer_reads = False
    channel.caller.send(message, payload=(len(message) - size, size))
    return channel, message, handle, stateid, size


def busy_streamid_is_refused(place):
    client = place.client()
    channel, message, handle, _, size = begin_pulled_write(place, client)
    other = client.bind(client.open())
    endpoint = channel.caller.endpoint
    wait_until(lambda: endpoint.reads_seen, "the server does not read the data of a WRITE")
    expect(send(other, other.message(place.root, 4)), wire.STREAM_INUSE, "a new request with the streamid of one that is under way")
    expect(send(other, other.message(place.root, 5)), wire.OK, "a request with another streamid")
    endpoint.answer_reads = True
    for read in list(endpoint.reads_seen):
        endpoint.answer_read(*read)
    expect(Results(channel.caller.wait(rpc.xid_of(message))), wire.OK, "the WRITE, once its data have been read")
    expect(send(other, other.message(place.root, 4)), wire.OK, "the streamid afterwards")


def retry_of_a_request_that_was_not_pulled_is_executed(place):
    client = place.client()
    channel, message, handle, stateid, size = begin_pulled_write(place, client)
    other = client.bind(client.open())
    wait_until(lambda: channel.caller.endpoint.reads_seen, "the server does not read the data of a WRITE")
    other.caller.send(message, payload=(len(message) - size, size))
    expect(Results(other.caller.wait(rpc.xid_of(message))), wire.OK, "the retry of a WRITE whose data were never read")
    expect_end(channel.caller, "the channel of the original")
    read = nfs4.op(nfs4.READ, stateid, u64(size - 4), u32(4))
    results = expect(other.run([nfs4.putfh(handle), read]), wire.OK, "READ")
    demand(results.value(nfs4.READ)[1] == b"wwww", "the WRITE was not executed")


CHECKS = [retry_over_a_new_connection, retry_over_another_channel_closes_the_original, every_result_is_replayed,
          exclusive_create_is_replayed, request_that_was_never_received_is_executed, late_original_is_not_executed,
          late_retry_is_not_executed, other_request_with_the_same_xid_is_refused, repetition_on_the_live_channel_is_not_executed,
          streamids_are_used_again, without_persist_nothing_is_kept, retries_over_many_connections_execute_once,
          losses_at_random_execute_once, copies_at_once_execute_once,
          busy_streamid_is_refused, retry_of_a_request_that_was_not_pulled_is_executed]
