"""Checks of SESSION_CREATE, SESSION_BIND and SESSION_DESTROY (§6.1 to §6.3 of the draft)."""

import os

import nfs4_messages as nfs4
import rpc_messages as rpc
import wire
from check import NotHere, bind_both, demand, exists, expect, expect_end, refused, run_or_end
from client import GETFH, RDMA, STEP_UP, TCP, Refused, Results, open_file, unchecked
from patience import wait_until
from wire import u32

CLID_INUSE, ACCESS = 10017, 13


def creation(place):
    client = place.client()
    made = client.create(client.open(), totalrequests=5)
    demand(made["totalrequests"] >= 1, "no requests are granted")
    demand(made["sessionid"] != 0, "a sessionid of zero, which is not random")


def repetition_gives_the_same_sessionid(place):
    client = place.client()
    caller = client.open()
    first = client.create(caller)
    demand(client.create(caller) == first, "another session over the same connection")
    demand(client.create(client.open()) == first, "another session over another connection")
    client.bind(caller)
    demand(client.create(client.open()) == first, "another session after a bind")


def second_session_on_a_connection_is_refused(place):
    client = place.client()
    caller = client.open()
    client.create(caller)
    with refused(wire.BADBIND, "a second session on the connection"):
        client.create(caller, id=client.name + b"-other")


def other_principal_cannot_take_the_name(place):
    client, thief = place.client(), place.client(uid=place.uid + 1)
    client.start()
    thief.name = client.name
    with refused(CLID_INUSE, "the name of a client of another principal"):
        thief.create(thief.open())


def other_principal_cannot_take_the_name_of_an_unbound_session(place):
    client, thief = place.client(), place.client(uid=place.uid + 1)
    client.create(client.open())
    thief.name = client.name
    with refused(CLID_INUSE, "the name of an unbound session of another principal"):
        thief.create(thief.open())
    expect(client.bind(client.open()).run(place.root, 0), wire.OK, "a request of the first principal")


def new_verifier_replaces_the_session_at_its_bind(place):
    client = place.client()
    channel = client.start()
    again = place.client(name=client.name, verifier=os.urandom(8))
    caller = again.open()
    demand(again.create(caller)["sessionid"] != client.sessionid, "the old session for a new instance of the client")
    expect(channel.run(place.root), wire.OK, "the old session, before the bind of the new one")
    again.bind(caller)
    with refused(wire.BADSESSION, "a bind to the replaced session"):
        client.bind(client.open())


def create_is_alone(place):
    client = place.client()
    create = wire.arguments(wire.SESSION_CREATE, verifier=bytes(8), id=client.name, persist=True, totalrequests=1)
    expect(client.raw(client.open(), [create, *place.root]), wire.CONTROL_POS, "SESSION_CREATE before another operation")


def values_outside_enumerations_are_bad_xdr(place):
    client = place.client()
    caller = client.open()
    create = wire.u32(wire.SESSION_CREATE) + bytes(8) + wire.opaque(client.name)
    expect(client.raw(caller, [create + u32(2) + u32(1)]), wire.BADXDR, "persist = 2")
    client.create(caller)
    for channel, mode in ((2, 0), (0, 2), (1 << 31, 0), (0, (1 << 32) - 1)):
        limits = u32(8192) * 2 + u32(0) + u32(4) + u32(0) * 2
        bind = u32(wire.SESSION_BIND) + wire.u64(client.sessionid) + u32(channel) + u32(mode) + limits
        expect(client.raw(caller, [bind]), wire.BADXDR, f"channel {channel}, mode {mode}")
    channel = client.bind(caller)
    for flag in (4, (1 << 32) - 1):
        control = u32(wire.OPERATION_CONTROL) + u32(channel.number) + u32(0) + u32(flag)
        expect(client.raw(caller, [control, *place.root]), wire.BADXDR, f"chain flag {flag}")
    expect(client.raw(caller, [u32(wire.OPERATION_CONTROL) + u32(channel.number)]), wire.BADXDR, "a control cut short")
    expect(channel.run(place.root), wire.OK, "a request after these")


def guessed_sessionids_are_refused(place):
    client = place.client()
    caller = client.open()
    client.create(caller)
    for bit in range(64):
        with refused(wire.BADSESSION, f"a sessionid with another bit {bit}"):
            client.bind(caller, sessionid=client.sessionid ^ 1 << bit)
    for number in (0, (1 << 64) - 1):
        with refused(wire.BADSESSION, f"sessionid {number}"):
            client.bind(caller, sessionid=number)
    client.bind(caller)


def other_principal_cannot_bind(place):
    client = place.client()
    client.start()
    with refused(wire.BADSESSION, "a bind of another principal"):
        client.bind(client.open(), uid=place.uid + 1)


def back_channel_comes_first(place):
    client = place.client()
    client.start()
    with refused(wire.BADBIND, "a back channel behind an operations channel"):
        client.bind(client.open(), wire.BACK)


def one_operations_channel_on_a_connection(place):
    client = place.client()
    channel = client.start()
    with refused(wire.BADBIND, "a second operations channel on the connection"):
        client.bind(channel.caller)
    expect(channel.run(place.root), wire.OK, "the first one afterwards")


def one_back_channel_lives(place):
    client = place.client()
    client.start(back=True)
    with refused(wire.BADBIND, "a second back channel"):
        client.bind(client.open(), wire.BACK)
    client.back.caller.lose()
    numbers = []

    def bound():
        with_it = client.open()
        try:
            numbers.append(client.bind(with_it, wire.BACK).number)
        except Refused as why:  # the server may not yet have seen the end of the first one
            demand(why.status == wire.BADBIND, f"status {why.status} of the new back channel")
        return numbers
    wait_until(bound, "no new back channel after the loss of the first one")
    demand(numbers[0] > client.back.number, "a channelid that was used before")


def both_channels_share_a_connection(place):
    client = place.client()
    back, operations = bind_both(client)
    caller = operations.caller
    demand(back.number != operations.number, "two channels with the same channelid")
    expect(operations.run(place.root), wire.OK, "a request on the shared connection")
    message = operations.message(place.root, named=back.number)
    expect(Results(caller.call(message)), wire.BADCHANNEL, "a request with the back channel's number")


def channelids_are_unique(place):
    client = place.client()
    numbers = [client.start().number]
    for _ in range(3):
        channel = client.bind(client.open())
        numbers.append(channel.number)
        channel.caller.close()
    demand(len(set(numbers)) == 4, f"channelids {numbers}")


def sizes_are_negotiated(place):
    client = place.client()
    client.create(client.open())
    for sizes in ({"maxrequestsize": 1}, {"maxrequestsize": 2047}, {"maxresponsesize": 1023}):
        with refused(wire.TOOSMALL, str(sizes)):
            client.bind(client.open(), **sizes)
    asked = {"maxrequestsize": 4096, "maxresponsesize": 2048, "maxrequests": 3}
    limits = client.bind(client.open(), **asked).limits
    demand(2048 <= limits["maxrequestsize"] <= 4096 and 1024 <= limits["maxresponsesize"] <= 2048, f"{limits} for {asked}")
    demand(limits["maxrequests"] >= 1, "no requests are granted")
    limits = client.bind(client.open(), maxrequestsize=0, maxresponsesize=0).limits
    demand(limits["maxrequestsize"] >= 2048 and limits["maxresponsesize"] >= 1024, f"{limits} where the server may choose")


def pads_are_powers_of_two(place):
    client = place.client()
    client.create(client.open())
    pad = client.bind(client.open(), headerpadsize=512).limits["headerpadsize"]
    demand(pad <= 512 and (pad == 0 or pad >= 64) and pad & pad - 1 == 0, f"a pad of {pad}")
    demand(pad == 0 or place.model != TCP, "a pad over TCP")


def attributes_tell_the_mode(place):
    client = place.client()
    client.create(client.open())
    client.bind(client.open(), transportattrs=wire.attributes((77, b"nobody knows this"), (1 << 31, b"")))
    channel = client.bind(client.open())
    mode = wire.granted_mode(channel.limits["transportattrs"])
    demand(mode == (wire.STREAM if place.model == TCP else wire.RDMA), f"mode {mode}")
    demand(client.instance is not None and len(client.instance) == 8, "no instance of the server")
    expect(channel.run(place.root), wire.OK, "a request after the bind")


def bad_attributes_are_refused(place):
    client = place.client()
    client.create(client.open())
    with refused(wire.INVAL, "attributes of 1,028 octets"):
        client.bind(client.open(), transportattrs=wire.attributes((77, bytes(1016))))
    for bad in (u32(1), u32(2) + u32(1) + u32(0), u32(0xffffffff), u32(1) + u32(1) + u32(0xffffffff), wire.attributes() + bytes(4), b"x"):
        with refused((wire.INVAL, wire.BADXDR), f"attributes {bad.hex()}"):
            client.bind(client.open(), transportattrs=bad)
    client.bind(client.open(), transportattrs=wire.attributes((77, bytes(1012))))


def stream_mode_on_rdma_is_refused(place):
    if place.model != RDMA:
        raise NotHere("only on RDMA connections")
    client = place.client()
    caller = client.open()
    client.create(caller)
    with refused(wire.BADBIND, "mode STREAM on an RDMA connection"):
        client.bind(caller, mode=wire.STREAM)


def bind_has_harmless_company_only(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".d"
    with refused(wire.CONTROL_POS, "SESSION_BIND before a CREATE"):
        client.bind(client.open(), behind=place.mkdir(name))
    demand(not exists(place, channel, name), "the CREATE behind a refused SESSION_BIND was executed")
    with_handle = client.bind(client.open(), behind=[*place.root, GETFH])
    demand(with_handle.results.status == wire.OK and with_handle.results.value(nfs4.GETFH), "no file handle behind SESSION_BIND")


def destroy_ends_everything(place):
    client = place.client()
    channel, other = client.start(), client.bind(client.open())
    name = client.name + b".f"
    opened = expect(channel.run([*place.root, open_file(b"owner", name, create=unchecked()), GETFH]), wire.OK, "OPEN")
    destroy = u32(wire.SESSION_DESTROY)
    expect(channel.run([destroy, *place.root]), wire.CONTROL_POS, "SESSION_DESTROY before another operation")
    expect(Results(channel.caller.call(channel.message([destroy], uid=place.uid + 1))), ACCESS, "SESSION_DESTROY of another principal")
    expect(channel.run([*place.root, destroy]), wire.OK, "SESSION_DESTROY")
    late = run_or_end(other, other.message(place.root))
    demand(late is None or late.status == wire.NOT_BOUND, "the other connection stays bound")
    with refused(wire.BADBIND, "another session over the connection of a destroyed one"):
        place.client().create(channel.caller)
    stranger = place.client()
    stranger.create(stranger.open())
    with refused(wire.BADBIND, "a bind of the connection of a destroyed session"):
        stranger.bind(channel.caller)
    with refused(wire.BADSESSION, "a bind to the destroyed session"):
        client.bind(client.open())
    again = place.client(name=client.name, verifier=client.verifier)
    fresh = again.start()
    demand(again.sessionid != client.sessionid, "the sessionid of a destroyed session comes back")
    read = [nfs4.putfh(opened.value(nfs4.GETFH)), nfs4.op(nfs4.READ, opened.value(nfs4.OPEN)["stateid"], rpc.hyper(0), rpc.words(1))]
    demand(fresh.run(read).status != wire.OK, "a stateid lives on after SESSION_DESTROY")
    expect(fresh.run(place.remove(name)), wire.OK, "REMOVE")


def stepping_up_refuses_other_octets(place):
    if place.model != STEP_UP:
        raise NotHere("only where a connection steps up")
    client = place.client()
    caller = client.open()
    client.create(caller)
    caller.steps_up_with = None
    values = dict(sessionid=client.sessionid, channel=wire.OPERATION, mode=wire.RDMA, maxrequestsize=8192, maxresponsesize=8192,
                  headerpadsize=0, maxrequests=4, maxrdmareads=1, transportattrs=b"")
    results = client.raw(caller, [wire.arguments(wire.SESSION_BIND, **values)])
    expect(results, wire.OK, "SESSION_BIND")
    demand(wire.granted_mode(results.values[0]["transportattrs"]) == wire.RDMA, "RDMA mode is not granted")
    caller.send(rpc.call(0, b"", (100003, 4)))  # a record, where only an MPA Request may stand
    expect_end(caller, "an RPC record where an MPA Request is due")


CHECKS = [creation, repetition_gives_the_same_sessionid, second_session_on_a_connection_is_refused, other_principal_cannot_take_the_name,
          other_principal_cannot_take_the_name_of_an_unbound_session,
          new_verifier_replaces_the_session_at_its_bind, create_is_alone, values_outside_enumerations_are_bad_xdr,
          guessed_sessionids_are_refused, other_principal_cannot_bind, back_channel_comes_first, one_operations_channel_on_a_connection,
          one_back_channel_lives, both_channels_share_a_connection, channelids_are_unique, sizes_are_negotiated, pads_are_powers_of_two,
          attributes_tell_the_mode, bad_attributes_are_refused, stream_mode_on_rdma_is_refused, bind_has_harmless_company_only,
          destroy_ends_everything, stepping_up_refuses_other_octets]
