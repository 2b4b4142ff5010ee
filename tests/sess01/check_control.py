"""Checks of OPERATION_CONTROL (§3.3, §6.4 of the draft), and of the operations that a session makes superfluous (§3.5)."""

import nfs4_messages as nfs4
import wire
from check import demand, exists, expect, expect_end, run_or_end
from client import GETFH, Results, open_file, unchecked
from wire import opaque, u32, u64

MINOR_VERS_MISMATCH, OP_ILLEGAL, NEEDS_CONFIRMATION = 10021, 10044, 2


def unbound_connections_cannot_ask(place):
    client = place.client()
    caller = client.open()
    client.create(caller)
    control = wire.arguments(wire.OPERATION_CONTROL, channelid=1, streamid=0, chainflags=0)
    expect(client.raw(caller, [control, *place.root]), wire.NOT_BOUND, "OPERATION_CONTROL before the bind")
    expect(client.raw(caller, [u32(wire.SESSION_DESTROY)]), wire.NOT_BOUND, "SESSION_DESTROY before the bind")
    client.bind(caller)


def control_is_first_and_once(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".d"
    make = place.mkdir(name)
    control = wire.arguments(wire.OPERATION_CONTROL, channelid=channel.number, streamid=0, chainflags=0)
    bind = wire.arguments(wire.SESSION_BIND, sessionid=client.sessionid, channel=1, mode=0, maxrequestsize=0, maxresponsesize=0,
                          headerpadsize=0, maxrequests=1, maxrdmareads=0, transportattrs=b"")
    for what, operations in {"missing": make, "late": [*make[:1], control, *make[1:]], "twice": [control, control, *make],
                             "behind nothing": [], "SESSION_DESTROY without it": [u32(wire.SESSION_DESTROY)],
                             "SESSION_BIND behind it": [control, bind, *make]}.items():
        expect(client.raw(channel.caller, operations), wire.CONTROL_POS, f"OPERATION_CONTROL {what}")
        demand(not exists(place, channel, name), f"OPERATION_CONTROL {what}: the COMPOUND was executed")


def other_minor_versions_are_refused_when_bound(place):
    channel = place.client().start()
    for minor in (0, 2, 3):
        expect(channel.client.raw(channel.caller, place.root, minor), MINOR_VERS_MISMATCH, f"minor version {minor}")
    expect(channel.run(place.root), wire.OK, "minor version 1")


def result_has_the_streamid(place):
    channel = place.client(requests=4).start()
    for stream in range(channel.client.streams.limit):
        results = Results(channel.caller.call(channel.message(place.root, stream)))
        expect(results, wire.OK, f"streamid {stream}")
        demand(results.operations[0] == wire.OPERATION_CONTROL and results.values[0] == stream, "no streamid in the first result")


def streamids_are_bounded(place):
    client = place.client(requests=4)
    channel = client.start()
    name = client.name + b".d"
    for stream in (client.streams.limit, client.streams.limit + 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1):
        expect(Results(channel.caller.call(channel.message(place.mkdir(name), stream))), wire.BADSTREAM, f"streamid {stream}")
    demand(not exists(place, channel, name), "a request with a wrong streamid was executed")


def channelids_are_known(place):
    client = place.client()
    channel = client.start(back=True)
    name = client.name + b".d"
    for named in (0, channel.number + 1, 1 << 31, (1 << 32) - 1, client.back.number):
        expect(Results(channel.caller.call(channel.message(place.mkdir(name), 0, named=named))), wire.BADCHANNEL, f"channelid {named}")
    demand(not exists(place, channel, name), "a request with a wrong channelid was executed")


def superfluous_operations_are_not_supported(place):
    channel = place.client().start()
    operations = {"OPEN_CONFIRM": nfs4.op(nfs4.OPEN_CONFIRM, bytes(16), u32(1)), "RENEW": nfs4.op(nfs4.RENEW, u64(0)),
                  "SETCLIENTID": nfs4.set_client_id_op(b"somebody"),
                  "SETCLIENTID_CONFIRM": nfs4.op(nfs4.SETCLIENTID_CONFIRM, bytes(16))}
    for name, operation in operations.items():
        results = expect(channel.run([*place.root, operation]), wire.NOTSUPP, name)
        demand(results.statuses[:-1] == [wire.OK] * (len(results.statuses) - 1), f"{name}: an operation before it failed")


def operations_of_rfc8881_are_illegal(place):
    channel = place.client().start()
    for name, operation in {"SEQUENCE": nfs4.sequence_op(bytes(16), 0, 1), "EXCHANGE_ID": nfs4.exchange_id_op(b"somebody"),
                            "RECLAIM_COMPLETE": nfs4.op(nfs4.RECLAIM_COMPLETE, u32(0)), "number 2": u32(2), "number 76": u32(76),
                            "number 200406": u32(200406)}.items():
        results = expect(channel.run([*place.root, operation]), OP_ILLEGAL, name)
        demand(results.operations[-1] == OP_ILLEGAL, f"{name}: the result is that of operation {results.operations[-1]}")


def clientids_and_seqids_are_ignored(place):
    client = place.client()
    channel = client.start()
    name = client.name + b".f"
    for i, clientid in enumerate((0, 1, (1 << 64) - 1)):
        opened = nfs4.open_op(clientid, b"owner", name, create=unchecked(), seqid=77 * i)
        results = expect(channel.run([*place.root, opened, GETFH]), wire.OK, f"OPEN with clientid {clientid}")
        demand(not results.value(nfs4.OPEN)["flags"] & NEEDS_CONFIRMATION, "OPEN asks for a confirmation")
    handle, stateid = results.value(nfs4.GETFH), results.value(nfs4.OPEN)["stateid"]
    lock = nfs4.lock_op(9, b"locker", stateid, 0, 10, seqid=5, lock_seqid=1 << 31)
    locked = expect(channel.run([nfs4.putfh(handle), lock]), wire.OK, "LOCK").value(nfs4.LOCK)
    expect(channel.run([nfs4.putfh(handle), nfs4.locku_op(locked, 0, 10, seqid=3)]), wire.OK, "LOCKU")
    expect(channel.run([nfs4.putfh(handle), nfs4.close_op(stateid, 99)]), wire.OK, "CLOSE")
    expect(channel.run(place.remove(name)), wire.OK, "REMOVE")


def oversized_requests_are_refused(place):
    client = place.client()
    client.create(client.open())
    channel = client.bind(client.open(), maxrequestsize=4096)
    name = client.name + b".d"
    channel.caller.link.max_send = 1 << 20
    message = channel.message([*[nfs4.op(nfs4.LOOKUP, opaque(b"x" * 200))] * 40, *place.mkdir(name)])
    results = run_or_end(channel, message)
    if channel.caller.link.is_rdma and results is None:
        expect_end(channel.caller, "a Send above the agreed size")
    else:
        demand(results is not None and results.status == wire.TOOSMALL and results.operations == [wire.OPERATION_CONTROL],
               "a request above the agreed size is not refused by OPERATION_CONTROL")
    other = client.bind(client.open())
    demand(not exists(place, other, name), "a request above the agreed size was executed")


def overflowing_operation_is_too_small(place):
    client = place.client()
    client.create(client.open())
    channel = client.bind(client.open(), maxresponsesize=1024)
    name = client.name + b".f"
    opened = expect(channel.run([*place.root, open_file(b"owner", name, create=unchecked()), GETFH]), wire.OK, "OPEN")
    handle, stateid = opened.value(nfs4.GETFH), opened.value(nfs4.OPEN)["stateid"]
    expect(channel.run([nfs4.putfh(handle), nfs4.write_op(stateid, 0, b"x" * 1500)], data=1500), wire.OK, "WRITE")
    read = nfs4.op(nfs4.READ, stateid, u64(0), u32(1500))
    results = expect(channel.run([nfs4.putfh(handle), GETFH, read, GETFH]), wire.TOOSMALL, "a READ of more than the response may have")
    demand(results.operations[-1] == nfs4.READ, f"the overflow is reported by operation {results.operations[-1]}")
    expect(channel.run([nfs4.putfh(handle), nfs4.op(nfs4.READ, stateid, u64(0), u32(500))]), wire.OK, "a READ that fits")
    expect(channel.run([nfs4.putfh(handle), nfs4.close_op(stateid)]), wire.OK, "CLOSE")
    expect(channel.run(place.remove(name)), wire.OK, "REMOVE")


def null_needs_no_session(place):
    client = place.client()
    caller = client.open()
    caller.null()
    client.create(caller)
    client.bind(caller)
    caller.null()


CHECKS = [unbound_connections_cannot_ask, control_is_first_and_once, other_minor_versions_are_refused_when_bound, result_has_the_streamid,
          streamids_are_bounded, channelids_are_known, superfluous_operations_are_not_supported, operations_of_rfc8881_are_illegal,
          clientids_and_seqids_are_ignored, oversized_requests_are_refused, overflowing_operation_is_too_small, null_needs_no_session]
