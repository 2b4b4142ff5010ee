"""Checks of chained requests (§2.7 of the draft)."""

import nfs4_messages as nfs4
import rpc_messages as rpc
import wire
from check import demand, exists, expect
from client import GETFH, Results, lookup, open_file, unchecked
from wire import CHAINBEGIN, CHAINCONTINUE, CHAINEND, NOCHAIN, opaque, u32, u64

NOENT, NOFILEHANDLE, RESTOREFH = 2, 10020, 10030
LOOK = [GETFH]  # needs a current file handle


def run(channel, operations, flag, **how):
    return channel.run(operations, 0, flag, **how)


def file_handles_last_over_the_chain(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".d"
    make, move = nfs4.create_op(nfs4.NF4DIR, name), nfs4.op(nfs4.SAVEFH)
    results = channel.chain([*place.root, move], [make, GETFH], [nfs4.op(nfs4.RESTOREFH), lookup(name)], [GETFH])
    for i, each in enumerate(results):
        expect(each, wire.OK, f"request {i} of the chain")
    demand(results[1].value(nfs4.GETFH) == results[3].value(nfs4.GETFH), "the chain lost its file handle")
    expect(run(channel, LOOK, NOCHAIN), NOFILEHANDLE, "GETFH behind the chain")
    expect(run(channel, [nfs4.op(nfs4.RESTOREFH)], NOCHAIN), RESTOREFH, "RESTOREFH behind the chain")
    expect(run(channel, place.remove(name), NOCHAIN), wire.OK, "REMOVE")


def file_handles_begin_anew_with_a_chain(place):
    channel = place.client().start()
    expect(run(channel, place.root, CHAINBEGIN), wire.OK, "BEGIN")
    expect(run(channel, LOOK, CHAINEND), wire.OK, "END")
    expect(run(channel, LOOK, CHAINBEGIN), NOFILEHANDLE, "GETFH at the beginning of the next chain")


def chain_needs_a_beginning(place):
    channel = place.client().start()
    for flag in (CHAINCONTINUE, CHAINEND):
        expect(run(channel, place.root, flag), wire.CHAIN_INVALID, f"flag {flag} without a chain")
    expect(run(channel, place.root, CHAINBEGIN), wire.OK, "BEGIN")
    expect(run(channel, LOOK, CHAINEND), wire.OK, "END")
    for flag in (CHAINCONTINUE, CHAINEND):
        expect(run(channel, place.root, flag), wire.CHAIN_INVALID, f"flag {flag} behind a chain")


def chain_begins_once(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".d"
    expect(run(channel, place.root, CHAINBEGIN), wire.OK, "BEGIN")
    expect(run(channel, place.mkdir(name), CHAINBEGIN), wire.CHAIN_INVALID, "BEGIN inside a chain")
    expect(run(channel, place.look_up(name), NOCHAIN), NOENT, "the directory of the request that was refused")


def error_breaks_the_chain(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".d"
    expect(run(channel, place.root, CHAINBEGIN), wire.OK, "BEGIN")
    expect(run(channel, [lookup(name)], CHAINCONTINUE), NOENT, "a CONTINUE that fails")
    for _ in range(2):
        expect(run(channel, place.mkdir(name), CHAINCONTINUE), wire.CHAIN_BROKEN, "CONTINUE of a broken chain")
    expect(run(channel, place.root, CHAINBEGIN), wire.CHAIN_INVALID, "BEGIN inside a broken chain")
    expect(run(channel, place.mkdir(name), CHAINEND), wire.CHAIN_BROKEN, "END of a broken chain")
    expect(run(channel, place.root, CHAINEND), wire.CHAIN_INVALID, "END behind the broken chain")
    demand(not exists(place, channel, name), "a request of a broken chain was executed")
    expect(run(channel, place.root, CHAINBEGIN), wire.OK, "BEGIN of the next chain")
    expect(run(channel, LOOK, CHAINEND), wire.OK, "END of the next chain")


def failing_beginning_breaks_the_chain(place):
    channel = place.client().start()
    expect(run(channel, place.look_up(b"there is no such name"), CHAINBEGIN), NOENT, "a BEGIN that fails")
    expect(run(channel, place.root, CHAINCONTINUE), wire.CHAIN_BROKEN, "CONTINUE behind it")
    expect(run(channel, place.root, NOCHAIN), wire.OK, "an unchained request")
    expect(run(channel, place.root, CHAINEND), wire.CHAIN_INVALID, "END behind the unchained request")


def unchained_request_ends_the_chain(place):
    channel = place.client().start()
    expect(run(channel, place.root, CHAINBEGIN), wire.OK, "BEGIN")
    expect(run(channel, LOOK, NOCHAIN), NOFILEHANDLE, "an unchained request does not have the chain's file handle")
    expect(run(channel, LOOK, CHAINCONTINUE), wire.CHAIN_INVALID, "CONTINUE behind it")


def read_to_the_end_does_not_break_the_chain(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".f"
    opened = expect(channel.run([*place.root, open_file(b"owner", name, create=unchecked()), GETFH]), wire.OK, "OPEN")
    handle, stateid = opened.value(nfs4.GETFH), opened.value(nfs4.OPEN)["stateid"]
    expect(run(channel, [nfs4.putfh(handle), nfs4.write_op(stateid, 0, b"abc")], CHAINBEGIN), wire.OK, "BEGIN with a WRITE")
    results = expect(run(channel, [nfs4.op(nfs4.READ, stateid, u64(0), u32(100))], CHAINCONTINUE), wire.OK, "a READ to the end of the file")
    demand(results.value(nfs4.READ) == (1, b"abc"), "other data")
    expect(run(channel, [nfs4.close_op(stateid)], CHAINEND), wire.OK, "END")
    expect(run(channel, place.remove(name), NOCHAIN), wire.OK, "REMOVE")


def chain_runs_in_order(place):
    """All requests are sent before the first reply, and each one needs the one before."""
    client = place.client(requests=8)
    channel = client.start()
    name = client.name + b".d"
    steps = [place.root] + [[nfs4.create_op(nfs4.NF4DIR, name)] for _ in range(4)] + [[GETFH]]
    for i, each in enumerate(channel.chain(*steps)):
        expect(each, wire.OK, f"request {i}")
    for depth in range(4, 0, -1):
        where = [*place.root, *[lookup(name)] * (depth - 1)]
        expect(channel.run([*where, nfs4.op(nfs4.REMOVE, opaque(name))]), wire.OK, f"REMOVE of the directory {depth} deep")


def channels_have_chains_of_their_own(place):
    client = place.client()
    one, two = client.start(), client.bind(client.open())
    expect(one.run(place.root, 0, CHAINBEGIN), wire.OK, "BEGIN on the first channel")
    expect(two.run(place.root, 1, CHAINCONTINUE), wire.CHAIN_INVALID, "CONTINUE on the second channel")
    expect(two.run(place.root, 1, CHAINBEGIN), wire.OK, "BEGIN on the second channel")
    expect(two.run(place.look_up(b"there is no such name"), 1, CHAINCONTINUE), NOENT, "a CONTINUE that fails there")
    expect(one.run(LOOK, 0, CHAINEND), wire.OK, "END on the first channel")
    expect(two.run(LOOK, 1, CHAINEND), wire.CHAIN_BROKEN, "END on the second channel")


def lost_channel_breaks_its_chain(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".d"
    begin = channel.message(place.root, 0, CHAINBEGIN)
    expect(Results(channel.caller.call(begin)), wire.OK, "BEGIN")
    rest = [channel.message([nfs4.create_op(nfs4.NF4DIR, name)], 1, CHAINCONTINUE), channel.message(LOOK, 2, CHAINEND)]
    channel.caller.lose()
    again = client.bind(client.open())
    expect(Results(again.caller.call(begin)), wire.OK, "the replay of BEGIN")
    for message in rest:
        expect(Results(again.caller.call(message)), wire.CHAIN_BROKEN, "a retry of what was not executed")
    demand(not exists(place, again, name), "the retried CONTINUE was executed")


def executed_requests_of_a_chain_are_replayed(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".d"
    messages = [channel.message(place.root, 0, CHAINBEGIN), channel.message([nfs4.create_op(nfs4.NF4DIR, name)], 1, CHAINCONTINUE),
                channel.message([GETFH], 2, CHAINEND)]
    originals = [Results(channel.caller.call(message)) for message in messages]
    channel.caller.lose()
    again = client.bind(client.open())
    for message, original in zip(messages, originals):
        replayed = expect(Results(again.caller.call(message)), wire.OK, f"the replay of {rpc.xid_of(message):#x}")
        demand(replayed.octets == original.octets, "another answer to a retry")
    expect(again.run(place.remove(name)), wire.OK, "REMOVE")


CHECKS = [file_handles_last_over_the_chain, file_handles_begin_anew_with_a_chain, chain_needs_a_beginning, chain_begins_once,
          error_breaks_the_chain, failing_beginning_breaks_the_chain, unchained_request_ends_the_chain,
          read_to_the_end_does_not_break_the_chain, chain_runs_in_order, channels_have_chains_of_their_own, lost_channel_breaks_its_chain,
          executed_requests_of_a_chain_are_replayed]
