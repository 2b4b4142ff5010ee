"""Checks of the back channel: the recall of delegations (§2.6 of the draft) and of credits (§2.4, §6.5)."""

import time

import os

import nfs4_messages as nfs4
import wire
from check import Failed, NotHere, bind_both, demand, expect, expect_end
from client import GETFH, TCP, Refused, Results, open_file, unchecked
from patience import wait_until
from wire import opaque

DELAY = 10008


def make_file(place, channel, name):
    """Makes an empty file, and closes it. A server may keep it open for writing for a while, and grant no delegation until then. So it
    is made behind the server's back where that is possible."""
    if place.folder:
        with open(os.path.join(place.folder, name.decode()), "xb"):
            return
    opened = expect(channel.run([*place.root, open_file(b"maker", name, create=unchecked()), GETFH]), wire.OK, "OPEN of a new file")
    close = nfs4.close_op(opened.value(nfs4.OPEN)["stateid"])
    expect(channel.run([nfs4.putfh(opened.value(nfs4.GETFH)), close]), wire.OK, "CLOSE")


def delegated(place, client, channel, name):
    """Makes a file and opens it until a delegation comes. Returns (file handle, stateid of the delegation)."""
    make_file(place, channel, name)
    for i in range(10):
        operations = [*place.root, open_file(b"reader-%d" % i, name, nfs4.READ_ACCESS), GETFH]
        opened = expect(channel.run(operations), wire.OK, "OPEN for reading")
        held = opened.value(nfs4.OPEN)["delegation"]
        handle = opened.value(nfs4.GETFH)
        if held:
            return handle, held
    raise NotHere("the server grants no delegation")


def open_against(place, channel, name):
    """Opens a file for writing, which a delegation forbids. Returns whether it is open now."""
    results = channel.run([*place.root, open_file(b"writer", name, nfs4.WRITE_ACCESS), GETFH])
    expect(results, (wire.OK, DELAY), "OPEN for writing")
    return results.status == wire.OK


def recall(place, client, channel, name):
    """Has another client recall a delegation, and returns it."""
    handle, held = delegated(place, client, channel, name)
    writer = place.client()
    other = writer.start()
    demand(not open_against(place, other, name), "an OPEN beside a delegation of another client is granted at once")
    stateid, recalled = client.wait_for_recall()
    demand(recalled == handle and stateid[4:] == held[4:], "a recall of something else")
    expect(channel.run([nfs4.putfh(handle), nfs4.op(nfs4.DELEGRETURN, held)]), wire.OK, "DELEGRETURN")
    wait_until(lambda: open_against(place, other, name), "no OPEN after the delegation was returned")
    demand(not client.control_errors, f"callbacks with a wrong OPERATION_CONTROL: {client.control_errors}")


def delegation_is_recalled_over_its_own_connection(place):
    client = place.client()
    channel = client.start(back=True)
    recall(place, client, channel, client.name + b".f")


def delegation_is_recalled_over_the_operations_connection(place):
    client = place.client()
    _, channel = bind_both(client)
    recall(place, client, channel, client.name + b".f")


def recall_takes_the_new_back_channel(place):
    client = place.client()
    channel = client.start(back=True)
    client.back.caller.lose()

    def bound():
        try:
            client.back = client.bind(client.open(), wire.BACK, maxrequests=2)
            return True
        except Refused as why:  # the server may not yet have seen the end of the first one
            demand(why.status == wire.BADBIND, f"status {why.status} of the new back channel")
            return False
    wait_until(bound, "no new back channel")
    recall(place, client, channel, client.name + b".f")


def no_delegation_without_a_back_channel(place):
    client = place.client()
    channel = client.start()
    try:
        delegated(place, client, channel, client.name + b".f")
    except NotHere:
        return
    raise Failed("a delegation for a client that cannot be called")


def second_operations_channel_serves_beside_the_first(place):
    client = place.client(requests=8)
    channels = [client.start(back=True), client.bind(client.open()), client.bind(client.open())]
    name = client.name + b".d"
    expect(channels[0].run(place.mkdir(name)), wire.OK, "CREATE")
    for i in range(30):
        operations = [*place.look_up(name), nfs4.create_op(nfs4.NF4DIR, b"%d" % i)]
        expect(channels[i % 3].run(operations), wire.OK, f"CREATE {i} over channel {i % 3}")
    channels[1].caller.lose()
    for i in range(30):
        operations = [*place.look_up(name), nfs4.op(nfs4.REMOVE, opaque(b"%d" % i))]
        expect(channels[2 * (i % 2)].run(operations), wire.OK, f"REMOVE {i} after one channel was lost")
    expect(channels[0].run(place.remove(name)), wire.OK, "REMOVE")


def opens_outlive_connections(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".f"
    opened = expect(channel.run([*place.root, open_file(b"owner", name, create=unchecked()), GETFH]), wire.OK, "OPEN")
    channel.caller.lose()
    handle, stateid = opened.value(nfs4.GETFH), opened.value(nfs4.OPEN)["stateid"]
    again = client.bind(client.open())
    expect(again.run([nfs4.putfh(handle), nfs4.write_op(stateid, 0, b"abc")]), wire.OK, "WRITE with the stateid of before")
    expect(again.run([nfs4.putfh(handle), nfs4.close_op(stateid)]), wire.OK, "CLOSE")
    expect(again.run(place.remove(name)), wire.OK, "REMOVE")


REQUESTS = 64  # of a client whose credits are recalled


def keep_a_reply(place, **how):
    """Makes a session with a kept reply. Returns (client, channel, the request, its reply)."""
    if not place.recalls:
        raise NotHere("the server recalls no credits now")
    client = place.client(requests=REQUESTS)
    for name, value in how.items():
        setattr(client, name, value)
    channel = client.start(back=True)
    message = channel.message(place.mkdir(client.name + b".d"), 5)
    reply = channel.caller.call(message)
    expect(Results(reply), wire.OK, "CREATE")
    return client, channel, message, reply


def return_credits(place, by_sends):
    """The server recalls credits, and the client returns them."""
    client, channel, _, _ = keep_a_reply(place, return_by_sends=by_sends)
    wait_until(lambda: client.credit_targets, "no recall")
    (target,) = client.credit_targets
    demand(0 < target < REQUESTS, f"a recall to {target} of {REQUESTS} credits")

    def is_refused():
        return Results(channel.caller.call(channel.message(place.root, target))).status == wire.BADSTREAM
    wait_until(is_refused, "a streamid that was returned is still valid")
    expect(channel.run(place.root, target - 1), wire.OK, "the highest streamid that is left")
    link = channel.caller.link
    if link.is_rdma:
        demand(link.granted == target, f"{link.granted} credits over RDMA after a recall to {target}")
    time.sleep(1.5 * place.recalls)
    expect(channel.run(place.remove(client.name + b".d"), 0), wire.OK, "a request when the time for the recall is over")
    demand(not client.back.caller.ended, "the back channel has ended although the client has followed")
    demand(not client.control_errors, f"callbacks with a wrong OPERATION_CONTROL: {client.control_errors}")


def credits_are_returned_by_calls(place):
    return_credits(place, False)


def credits_are_returned_by_empty_sends(place):
    if place.model == TCP:
        raise NotHere("only over RDMA")
    return_credits(place, True)


def client_that_ignores_a_recall_is_disconnected(place):
    client, channel, message, reply = keep_a_reply(place, ignores_recalls=True)
    for caller in (channel.caller, client.back.caller):
        expect_end(caller, "a recall without an answer")
    demand(client.ignored, "the server ends connections without a recall")
    again = client.bind(client.open())
    demand(again.caller.call(message) == reply, "another answer to a retry: the session does not go on")
    expect(again.run(place.root, REQUESTS - 1), wire.OK, "a streamid that the client has not returned")
    expect(again.run(place.remove(client.name + b".d"), 0), wire.OK, "REMOVE")


RECALL_CHECKS = [credits_are_returned_by_calls, credits_are_returned_by_empty_sends, client_that_ignores_a_recall_is_disconnected]
CHECKS = [delegation_is_recalled_over_its_own_connection, delegation_is_recalled_over_the_operations_connection,
          recall_takes_the_new_back_channel, no_delegation_without_a_back_channel, second_operations_channel_serves_beside_the_first,
          opens_outlive_connections, *RECALL_CHECKS]
