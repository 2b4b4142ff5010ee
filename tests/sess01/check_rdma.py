"""Checks of data over RDMA: chunks, pads and credits (§2.2.5, §2.4, §2.8 of the draft)."""

import os

import nfs4_messages as nfs4
import rpc_messages as rpc
import wire
from check import NotHere, demand, expect
from client import GETFH, Results, open_file, unchecked
from rdma_messages import RDMA_MSG, RDMA_MSGP, RDMA_NOMSG
from wire import opaque, u32, u64

LARGE = 20000  # octets that fit no Send here


def start(place, **changes):
    """Returns (client, channel, operation PUTFH of a new file, its stateid, its name) on a channel that uses RDMA."""
    client = place.client()
    channel = client.start(**changes)
    if not channel.caller.link.is_rdma:
        raise NotHere("only over RDMA")
    name = client.name + b".f"
    opened = expect(channel.run([*place.root, open_file(b"owner", name, create=unchecked()), GETFH]), wire.OK, "OPEN")
    return client, channel, nfs4.putfh(opened.value(nfs4.GETFH)), opened.value(nfs4.OPEN)["stateid"], name


def finish(place, channel, at, stateid, name):
    expect(channel.run([at, nfs4.close_op(stateid)]), wire.OK, "CLOSE")
    expect(channel.run(place.remove(name)), wire.OK, "REMOVE")


def read(stateid, size):
    return nfs4.op(nfs4.READ, stateid, u64(0), u32(size))


def data_go_by_chunks(place):
    _, channel, at, stateid, name = start(place)
    for size in (1, 3, 1023, 5000, LARGE, 65537):
        octets = os.urandom(size)
        expect(channel.run([at, nfs4.write_op(stateid, 0, octets)], data=size), wire.OK, f"WRITE of {size} octets")
        for how in ({"read_room": size}, {"read_room": size + 4096}, {"room": size + 1000}):
            results = expect(channel.run([at, read(stateid, size)], **how), wire.OK, f"READ of {size} octets with {how}")
            demand(results.value(nfs4.READ)[1] == octets, f"READ of {size} octets with {how}: other data")
    finish(place, channel, at, stateid, name)


def small_reads_need_no_chunk(place):
    _, channel, at, stateid, name = start(place)
    expect(channel.run([at, nfs4.write_op(stateid, 0, b"w" * 700)], data=700), wire.OK, "WRITE")
    demand(channel.run([at, read(stateid, 700)]).value(nfs4.READ) == (1, b"w" * 700), "other data inline")
    expect(channel.run([at, nfs4.write_op(stateid, 0, b"w" * LARGE)], data=LARGE), wire.OK, "WRITE")
    expect(channel.run([at, read(stateid, LARGE)]), wire.TOOSMALL, "a READ that fits neither a Send nor a chunk")
    finish(place, channel, at, stateid, name)


def long_requests_and_replies_go_by_chunks(place):
    """§2.2.5: "Message as an RDMA Read Chunk" and "RDMA Write of Long Replies"."""
    client, channel, at, stateid, name = start(place)
    where = client.name + b".d"
    expect(channel.run(place.mkdir(where)), wire.OK, "CREATE")
    names = [b"%03d" % i + b"x" * 200 for i in range(60)]
    for start_of in range(0, 60, 10):
        operations = []
        for each in names[start_of:start_of + 10]:
            operations += [*place.look_up(where), nfs4.create_op(nfs4.NF4DIR, each)]
        expect(channel.run(operations), wire.OK, "CREATE of ten directories")
    message = channel.message([*place.look_up(where), nfs4.op(nfs4.READDIR, u64(0), bytes(8), u32(LARGE), u32(LARGE),
                                                                  nfs4.bitmap())], 0)
    reply = channel.caller.call(message, room=2 * LARGE)
    demand(len(reply) > channel.limits["maxresponsesize"] and Results(reply).status == wire.OK, "no long reply of READDIR")
    demand(all(each in reply for each in names), "READDIR misses names")
    longest = [nfs4.op(nfs4.LOOKUP, opaque(b"y" * 255))] * (channel.limits["maxrequestsize"] // 255 + 5)
    results = expect(channel.run([*place.root, *longest], 0), 2, "a COMPOUND that is longer than a Send")
    demand(channel.caller.link.kinds[-1] == RDMA_NOMSG and results.operations[-1] == nfs4.LOOKUP, "it was no long request")
    for each in names:
        expect(channel.run([*place.look_up(where), nfs4.op(nfs4.REMOVE, opaque(each))]), wire.OK, "REMOVE")
    expect(channel.run(place.remove(where)), wire.OK, "REMOVE")
    finish(place, channel, at, stateid, name)


def replays_use_the_memory_of_the_retry(place):
    """§2.5: the handles of the original are of no use on another connection."""
    client, channel, at, stateid, name = start(place)
    expect(channel.run([at, nfs4.write_op(stateid, 0, b"1" * LARGE)], data=LARGE), wire.OK, "WRITE")
    message = channel.message([at, read(stateid, LARGE)], 3)
    original = channel.caller.call(message, read_room=LARGE)
    channel.caller.lose()
    again = client.bind(client.open())
    again.caller.link.next_handle = 0x9000
    demand(again.caller.call(message, read_room=LARGE) == original, "another answer to the retry of a READ")
    finish(place, again, at, stateid, name)


def retried_write_is_pulled_again(place):
    client, channel, at, stateid, name = start(place)
    message = channel.message([at, nfs4.write_op(stateid, 0, b"2" * LARGE)], 3)
    how = {"payload": (len(message) - LARGE, LARGE)}
    original = channel.caller.call(message, **how)
    expect(Results(original), wire.OK, "WRITE")
    channel.caller.lose()
    again = client.bind(client.open())
    again.caller.link.next_handle = 0x9000
    demand(again.caller.call(message, **how) == original, "another answer to the retry of a WRITE")
    finish(place, again, at, stateid, name)


def padded_writes_are_read(place):
    client, channel, at, stateid, name = start(place, headerpadsize=256)
    if not channel.limits["headerpadsize"]:
        raise NotHere("the server grants no padding")
    for size in (511, 512, 513, 2048, 3001):
        octets = os.urandom(size)
        expect(channel.run([at, nfs4.write_op(stateid, 0, octets)], data=size), wire.OK, f"a padded WRITE of {size} octets")
        kind = channel.caller.link.kinds[-1]
        demand(kind == (RDMA_MSGP if size >= 512 else RDMA_MSG), f"{size} octets went by procedure {kind}")
        results = expect(channel.run([at, read(stateid, size)], read_room=size), wire.OK, "READ")
        demand(results.value(nfs4.READ)[1] == octets, f"a padded WRITE of {size} octets wrote something else")
    again = client.bind(client.open())
    message = channel.message([at, nfs4.write_op(stateid, 0, b"p" * 600)], 3)
    original = channel.caller.call(message, payload=(len(message) - 600, 600))
    demand(again.caller.call(message) == original, "the unpadded retry of a padded WRITE is answered otherwise")
    finish(place, again, at, stateid, name)


def empty_sends_are_taken(place):
    """§2.4: a client returns credits by messages of length zero."""
    _, channel, at, stateid, name = start(place)
    for _ in range(3):
        channel.caller.link.return_credit()
        expect(channel.run(place.root), wire.OK, "a request behind an empty Send")
    finish(place, channel, at, stateid, name)


def grants_allow_the_requests_of_the_bind(place):
    client, channel, at, stateid, name = start(place, maxrequests=4)
    link = channel.caller.link
    demand(1 <= link.granted, "no credits")
    messages = [channel.message([at, GETFH], stream) for stream in range(min(link.granted, channel.limits["maxrequests"]))]
    for message in messages:
        channel.caller.send(message)
    for message in messages:
        expect(Results(channel.caller.wait(rpc.xid_of(message))), wire.OK, "one of as many requests as the credits allow")
    finish(place, channel, at, stateid, name)


CHECKS = [data_go_by_chunks, small_reads_need_no_chunk, long_requests_and_replies_go_by_chunks, replays_use_the_memory_of_the_retry,
          retried_write_is_pulled_again, padded_writes_are_read, empty_sends_are_taken, grants_allow_the_requests_of_the_bind]
