"""Hostile requests to the sessions of 2004 (draft-talpey-nfsv4-rdma-sess-01): operations, numbers, sessions and chains. The checks of
tests/sess01 that concern bad input run here, too, beside a neighbour that must be served."""

import check_chains
import check_control
import check_once
import check_sessions
import nfs4_messages as nfs4
import rpc_messages as rpc
import wire
from check import demand, exists, expect, expect_end, refused, run_or_end
from client import GETFH, STEP_UP, TCP, Refused, Results
from iwarp_cases import MAX32
from sess01_attack import bind_again, bind_operation
from wire import BADXDR, CHAINBEGIN, CHAINCONTINUE, CHAINEND, NOCHAIN, opaque, u32

OP_ILLEGAL = 10044

REUSED = [check_sessions.values_outside_enumerations_are_bad_xdr, check_sessions.guessed_sessionids_are_refused,
          check_sessions.other_principal_cannot_bind, check_sessions.other_principal_cannot_take_the_name,
          check_sessions.bad_attributes_are_refused, check_sessions.create_is_alone, check_sessions.bind_has_harmless_company_only,
          check_sessions.one_operations_channel_on_a_connection, check_sessions.one_back_channel_lives,
          check_sessions.destroy_ends_everything, check_sessions.stream_mode_on_rdma_is_refused,
          check_sessions.stepping_up_refuses_other_octets, check_control.control_is_first_and_once,
          check_control.unbound_connections_cannot_ask, check_control.streamids_are_bounded, check_control.channelids_are_known,
          check_control.oversized_requests_are_refused, check_control.other_minor_versions_are_refused_when_bound,
          check_control.operations_of_rfc8881_are_illegal, check_once.late_retry_is_not_executed,
          check_once.other_request_with_the_same_xid_is_refused, check_chains.chain_needs_a_beginning, check_chains.chain_begins_once,
          check_chains.error_breaks_the_chain, check_chains.lost_channel_breaks_its_chain]


def truncated(operation):
    return [operation[:size] for size in range(4, len(operation), 4)]


def arguments_cut_short_are_bad_xdr(place):
    client = place.client()
    caller = client.open()
    create = wire.arguments(wire.SESSION_CREATE, verifier=bytes(8), id=client.name, persist=True, totalrequests=1)
    for each in truncated(create):
        expect(client.raw(caller, [each]), BADXDR, f"SESSION_CREATE of {len(each)} octets")
    client.create(caller)
    for each in truncated(bind_operation(place, client, transportattrs=wire.attributes((77, b"abc")))):
        expect(client.raw(caller, [each]), BADXDR, f"SESSION_BIND of {len(each)} octets")
    channel = client.bind(caller)
    control = wire.arguments(wire.OPERATION_CONTROL, channelid=channel.number, streamid=0, chainflags=NOCHAIN)
    for each in truncated(control):
        expect(client.raw(caller, [each]), BADXDR, f"OPERATION_CONTROL of {len(each)} octets")
    expect(client.raw(caller, [control, u32(nfs4.PUTFH)]), BADXDR, "an operation cut short behind OPERATION_CONTROL")
    expect(channel.run(place.root), wire.OK, "a request after these")


def lengths_are_bounded(place):
    client = place.client()
    caller = client.open()
    for size in (1025, 1 << 16, MAX32):
        owner = u32(wire.SESSION_CREATE) + bytes(8) + u32(size) + bytes(1100) + u32(1) * 2
        expect(client.raw(caller, [owner]), BADXDR, f"a client's name of {size} octets")
    client.create(caller)
    bind = bind_operation(place, client)[:-4]  # without the length of transportattrs
    for size in (4, 1024, MAX32 - 3, MAX32):
        expect(client.raw(caller, [bind + u32(size)]), BADXDR, f"attributes of {size} octets that are not there")
    for size in (1025, 3000):
        expect(client.raw(caller, [bind + opaque(bytes(size))]), wire.INVAL, f"{size} octets of attributes")
    expect(client.bind(caller).run(place.root), wire.OK, "a request after these")


def extreme_numbers_are_lowered(place):
    client = place.client()
    made = client.create(client.open(), totalrequests=MAX32, id=client.name + b"-greedy")
    demand(1 <= made["totalrequests"] <= 1024, f"{made['totalrequests']} requests are granted")
    modest = place.client(requests=0)
    demand(modest.create(modest.open())["totalrequests"] >= 1, "no request is granted")
    client.create(client.open())
    huge = dict.fromkeys(("maxrequestsize", "maxresponsesize", "headerpadsize", "maxrequests", "maxrdmareads"), MAX32)
    channel = client.bind(client.open(), **huge)
    limits = channel.limits
    demand(limits["maxrequestsize"] <= 4 << 20 and limits["maxresponsesize"] <= 4 << 20, f"sizes of {limits}")
    demand(limits["maxrequests"] <= 1024 and limits["headerpadsize"] <= 4096, f"{limits}")
    expect(channel.run(place.root), wire.OK, "a request with the largest numbers")
    nothing = dict.fromkeys(("maxrequests", "headerpadsize", "maxrdmareads"), 0)
    channel = client.bind(client.open(), **nothing)
    demand(channel.limits["maxrequests"] >= 1, "no requests over a channel")
    expect(channel.run(place.root), wire.OK, "a request with the smallest numbers")
    for pad in (3, 63, 65, 257, 8192, 1 << 31):
        try:
            granted = client.bind(client.open(), headerpadsize=pad).limits["headerpadsize"]
        except Refused as why:
            demand(why.status == wire.INVAL, f"status {why.status} for a pad of {pad}")
            continue
        demand(granted <= pad and granted & granted - 1 == 0 and granted != 1, f"a pad of {granted} where {pad} was asked for")


def operations_of_the_draft_have_their_places(place):
    """Not first in a COMPOUND of another version, and never the operation of a callback."""
    client = place.client()
    caller = client.open()
    control = wire.arguments(wire.OPERATION_CONTROL, channelid=1, streamid=0, chainflags=NOCHAIN)
    create = wire.arguments(wire.SESSION_CREATE, verifier=bytes(8), id=client.name, persist=True, totalrequests=1)
    for minor in (0, 2):
        for operation in (control, create, u32(wire.SESSION_DESTROY)):
            results = client.raw(caller, [*place.root, operation], minor)
            demand(results.status != wire.OK and results.operations[-1] in (OP_ILLEGAL, nfs4.PUTROOTFH),
                   f"minor version {minor}: operation {results.operations[-1]} ended with {results.status}")
        demand(client.raw(caller, [create], minor).status != wire.OK, f"SESSION_CREATE in minor version {minor}")
    client.create(caller)
    channel = client.bind(caller)
    recall = wire.arguments(wire.CB_CREDITRECALL, target=1)
    results = expect(channel.run([*place.root, recall]), OP_ILLEGAL, "CB_CREDITRECALL of a client")
    demand(results.operations[-1] == OP_ILLEGAL, f"the result is that of operation {results.operations[-1]}")
    expect(channel.run([*place.root, create]), (OP_ILLEGAL, wire.CONTROL_POS), "SESSION_CREATE in the middle")


def counts_of_operations_are_checked(place):
    client = place.client()
    channel = client.start()
    control = wire.arguments(wire.OPERATION_CONTROL, channelid=channel.number, streamid=0, chainflags=NOCHAIN)

    def counted(count):
        return channel.caller.call(client.compound([control, *place.root], count=count))
    for count in (3, 64):
        reply = counted(count)
        demand(rpc.RpcReply(reply).status != ("success",) or Results(reply).status != wire.OK, f"{count} operations, 2 of them there")
    for count in (1000, MAX32):
        reply = counted(count)
        demand(rpc.RpcReply(reply).status != ("success",) or Results(reply).status != wire.OK, f"{count} operations")
    reply = counted(1)
    demand(rpc.RpcReply(reply).status != ("success",) or Results(reply).status in (wire.OK, BADXDR), "octets behind the last operation")
    expect(channel.run(place.root), wire.OK, "a request after these")


def channels_of_other_sessions_are_unreachable(place):
    """channelids are the session's own: a request that names another session's channel neither closes it nor runs."""
    victim, thief = place.client(), place.client()
    channels = [victim.start(), *(victim.bind(victim.open()) for _ in range(4))]
    own = thief.start()
    name = thief.name + b".d"
    for channel in channels:
        if channel.number != own.number:
            result = Results(own.caller.call(own.message(place.mkdir(name), named=channel.number)))
            expect(result, wire.BADCHANNEL, "a channel of another session")
    demand(not exists(place, own, name), "a request with another session's channel was executed")
    for channel in channels:
        expect(channel.run(place.root), wire.OK, "a request over the channel that the other session named")


def bound_connections_keep_their_session(place):
    first, second = place.client(), place.client()
    channel = first.start()
    second.create(second.open())
    with refused(wire.BADBIND, "another session on a bound connection"):
        first.sessionid, kept = second.sessionid, first.sessionid
        first.bind(channel.caller)
    first.sessionid = kept
    with refused(wire.BADBIND, "SESSION_CREATE of another client on a bound connection"):
        second.create(channel.caller, id=second.name + b"-third")
    expect(channel.run(place.root), wire.OK, "a request in the first session")


def destroyed_sessions_take_nothing_with_them(place):
    client = place.client()
    channel, other = client.start(back=True), client.bind(client.open())
    names = [client.name + b".%d" % i for i in range(3)]
    destroy = channel.message([u32(wire.SESSION_DESTROY)], 0)
    channel.caller.send(destroy)
    late = [run_or_end(each, each.message(place.mkdir(name), stream))
            for each, name, stream in zip((other, other, channel), names, (1, 2, 3))]
    demand(all(each is None or each.status in (wire.OK, wire.NOT_BOUND, wire.BADSESSION) for each in late),
           f"{[each and each.status for each in late]} behind SESSION_DESTROY")
    with refused(wire.BADSESSION, "a bind to the destroyed session"):
        client.bind(client.open())


def calls_before_and_behind_the_bind_keep_the_stream(place):
    """A connection steps up only where nothing else is under way: with a call behind the bind it stays on TCP, and is bound."""
    if place.model != STEP_UP:
        return
    client = place.client()
    caller = client.open()
    client.create(caller)
    bind = client.compound([bind_operation(place, client)])
    behind = [client.compound([wire.arguments(wire.OPERATION_CONTROL, channelid=1, streamid=i, chainflags=NOCHAIN), *place.root])
              for i in range(3)]
    caller.steps_up_with = None
    octets = b"".join(u32(len(each) | 1 << 31) + each for each in (bind, *behind))
    caller.endpoint.raw(octets)
    results = expect(Results(caller.wait(rpc.xid_of(bind))), wire.OK, "SESSION_BIND before other calls")
    limits = results.value(wire.SESSION_BIND)
    demand(wire.granted_mode(limits["transportattrs"]) == wire.STREAM, "RDMA mode, though calls follow the bind")
    for each in behind:
        status = Results(caller.wait(rpc.xid_of(each))).status
        demand(status in (wire.OK, wire.NOT_BOUND), f"a call behind the bind ended with {status}")
    control = wire.arguments(wire.OPERATION_CONTROL, channelid=limits["channelid"], streamid=0, chainflags=NOCHAIN)
    expect(client.raw(caller, [control, *place.root]), wire.OK, "a request over the bound stream")


def a_chain_may_stay_open(place):
    """Chains that nobody ends hold up neither the other channels of their session nor other clients."""
    client = place.client(requests=16)
    channel = client.start()
    expect(channel.run(place.root, 0, CHAINBEGIN), wire.OK, "BEGIN of a chain that stays open")
    for i in range(20):
        another = client.bind(client.open())
        expect(another.run(place.root, 1, CHAINBEGIN), wire.OK, f"BEGIN {i} of a chain that stays open")
        if i % 2:
            another.caller.lose()
    other = client.bind(client.open())
    expect(other.run(place.root, 2), wire.OK, "a request over another channel")
    expect(channel.run([GETFH], 0, CHAINEND), wire.OK, "END of the first chain")


def chains_may_be_long(place):
    """The server keeps no more of a long chain than of a short one; each request gets its answer."""
    client = place.client()
    channel = client.start()
    expect(channel.run(place.root, 0, CHAINBEGIN), wire.OK, "BEGIN")
    for _ in range(1500):
        expect(channel.run([GETFH], 0, CHAINCONTINUE), wire.OK, "CONTINUE")
    expect(channel.run([GETFH], 0, CHAINEND), wire.OK, "END")


def chain_flags_at_random_are_answered(place):
    """Pipelined requests with all flags in a wild order: each has its one answer, and the channel goes on."""
    client = place.client(requests=8)
    channel = client.start(maxrequests=8)
    order = [CHAINEND, CHAINBEGIN, CHAINBEGIN, CHAINCONTINUE, NOCHAIN, CHAINEND, CHAINCONTINUE, CHAINBEGIN]
    for round_ in range(30):
        flags = order[round_ % 8:] + order[:round_ % 8]
        messages = [channel.message(place.look_up(b"no such name") if (round_ + i) % 5 == 0 else place.root, i, flag)
                    for i, flag in enumerate(flags)]
        for message in messages:
            channel.caller.send(message)
        for message in messages:
            status = Results(channel.caller.wait(rpc.xid_of(message))).status
            demand(status in (wire.OK, 2, wire.CHAIN_INVALID, wire.CHAIN_BROKEN), f"status {status}")
    expect(channel.run(place.root, 0, NOCHAIN), wire.OK, "an unchained request")


def retries_of_everything_close_only_own_channels(place):
    """A client names all its channels in retries over each other: they close, and its session goes on."""
    client = place.client()
    channels = [client.start(), *(client.bind(client.open()) for _ in range(5))]
    for channel in channels[1:]:
        message = channel.message(place.root, named=channels[0].number)
        run_or_end(channel, message)
        run_or_end(channels[0], channels[0].message(place.root, named=channel.number))
    for named in range(1, 40):
        run_or_end(channels[-1], channels[-1].message(place.root, named=named))
    bind_again(place, client)


def a_second_bind_in_a_compound_is_refused(place):
    """SESSION_BIND twice in a COMPOUND, and beside the other operations of the draft."""
    client = place.client()
    caller = client.open()
    client.create(caller)
    caller.steps_up_with = None
    bind = bind_operation(place, client)
    create = wire.arguments(wire.SESSION_CREATE, verifier=bytes(8), id=client.name, persist=True, totalrequests=1)
    for operations in ([bind, bind], [bind, create], [create, bind], [bind, u32(wire.SESSION_DESTROY)],
                       [bind, wire.arguments(wire.OPERATION_CONTROL, channelid=1, streamid=0, chainflags=0)]):
        expect(client.raw(caller, operations), wire.CONTROL_POS, f"operations {[each[:4].hex() for each in operations]}")
    expect(client.bind(caller).run(place.root), wire.OK, "a request after these")


def requests_above_the_credits_wait(place):
    """Over TCP the server reads on when it has answered; over RDMA such a client loses its connection (sess01_wire)."""
    if place.model != TCP:
        return
    client = place.client(requests=8)
    channel = client.start(maxrequests=1)
    messages = [channel.message(place.root, i % 8) for i in range(2000)]
    channel.caller.endpoint.raw(b"".join(u32(len(each) | 1 << 31) + each for each in messages))
    for message in messages:
        status = Results(channel.caller.wait(rpc.xid_of(message))).status
        demand(status in (wire.OK, wire.STREAM_INUSE), f"status {status}")


def records_beyond_every_size_end_the_connection(place):
    """A record of a gibibyte over a bound stream."""
    if place.model != TCP:
        return
    client = place.client()
    channel = client.start()
    channel.caller.endpoint.raw(u32(1 << 31 | 1 << 30) + bytes(1000))
    expect_end(channel.caller, "a record of a gibibyte")
    bind_again(place, client)


CASES = [*REUSED, arguments_cut_short_are_bad_xdr, lengths_are_bounded, extreme_numbers_are_lowered,
         operations_of_the_draft_have_their_places, counts_of_operations_are_checked, channels_of_other_sessions_are_unreachable,
         bound_connections_keep_their_session, destroyed_sessions_take_nothing_with_them,
         calls_before_and_behind_the_bind_keep_the_stream, a_chain_may_stay_open, chains_may_be_long, chain_flags_at_random_are_answered,
         retries_of_everything_close_only_own_channels, a_second_bind_in_a_compound_is_refused, requests_above_the_credits_wait,
         records_beyond_every_size_end_the_connection]
