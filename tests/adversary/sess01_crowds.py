"""Sessions of 2004 by the thousand, connections without end, and chained requests that take for ever."""

import os

import nfs4_messages as nfs4
import rpc_messages as rpc
import wire
from attack import MIB
from check import Place, demand, expect, expect_end, refused
from client import GETFH, MODELS, TCP, Results, open_file, unchecked
from disk import FailingDisk
from iwarp_peer import Ended
from patience import wait_until
from sess01_attack import Sess01Attacked, bind_again
from tcp_peer import TcpClient
from wire import CHAINBEGIN, CHAINCONTINUE, CHAINEND

MOST_CONNECTIONS, REMEMBERED = 64, 1024  # docs/limits.md, docs/sessions-2004.md


def create_over_a_connection(server, client, name, persist):
    """Creates a session, and leaves. Returns its sessionid."""
    peer = TcpClient(server.tcp)
    try:
        peer.send_call(client.compound([wire.arguments(wire.SESSION_CREATE, verifier=bytes(8), id=name, persist=persist,
                                                       totalrequests=64)]))
        results = expect(Results(peer.take_reply()), wire.OK, "SESSION_CREATE")
        return results.value(wire.SESSION_CREATE)["sessionid"]
    finally:
        peer.close()


def stored_sessions(server):
    return sum(len(files) for _, _, files in os.walk(f"{server.server.state.name}/nfs4-streams"))


def unbound_sessions_do_not_pile_up(count):
    """One host creates sessions that it never binds: the oldest ones go, and a real client gets its session all the time."""
    def check(server, place):
        thief = place.client()
        made, victims, stored = [], 0, stored_sessions(server)
        for i in range(count):
            made.append(create_over_a_connection(server, thief, b"unbound %d" % i, persist=i % 2 == 0))
            if i % (count // 5) == 0:
                server.check_neighbour()
                victim = place.client()
                expect(victim.start().run(place.root), wire.OK, "a request of a client that comes meanwhile")
                victim.close()
                victims += 1
                server.watch_memory()
        demand(len(set(made)) == count, "a sessionid came twice")
        thief.sessionid = made[0]
        with refused(wire.BADSESSION, "a bind to a session that had to go"):
            thief.bind(thief.open())
        thief.sessionid = made[-1]
        expect(thief.bind(thief.open()).run(place.root, 0), wire.OK, "a request in the latest session")
        demand(stored_sessions(server) <= stored + victims + 1, "sessions that were never bound have files")
    return check


def channels_of_a_session_are_limited(server, place):
    client = place.client()
    channels = [client.start()]
    while len(channels) < MOST_CONNECTIONS:
        channels.append(client.bind(client.open()))
    server.check_neighbour()
    for _ in range(3):
        with refused(wire.BADBIND, f"connection {MOST_CONNECTIONS + 1} of a session"):
            client.bind(client.open())
    for channel in channels[::7]:
        expect(channel.run(place.root, 0), wire.OK, "a request over one of many channels")
    server.watch_memory()
    channels[5].caller.lose()
    wait_until(lambda: can_bind(client), "no channel after the loss of another one")


def can_bind(client):
    try:
        with refused(wire.BADBIND, "one channel too many"):
            client.bind(client.open())
    except AssertionError:
        return True
    return False


def binds_without_end(count):
    """A client binds and loses connections. Its numbers never come again, and the session remembers a bounded number of them."""
    def check(server, place):
        client = place.client()
        channel = client.start()
        name = client.name + b".d"
        first = channel.message(place.mkdir(name), 1)
        numbers = [channel.number]
        for i in range(count):
            channel.caller.lose()
            channel = client.bind(client.open())
            numbers.append(channel.number)
        demand(numbers == sorted(set(numbers)), "a channelid came twice")
        if count > REMEMBERED:
            expect(Results(channel.caller.call(first)), wire.STREAM_INUSE, "a retry that names a channel of long ago")
        expect(channel.run(place.look_up(name)), 2, "the directory of that request")
        server.watch_memory()
    return check


def creates_bind_and_vanish(count):
    """Whole sessions, with an open file and an open chain each, whose clients vanish."""
    def check(server, place):
        for i in range(count):
            client = place.client()
            channel = client.start()
            name = b"left %d" % i
            expect(channel.run([*place.root, open_file(b"owner", name, create=unchecked()), GETFH], 0), wire.OK, "OPEN")
            expect(channel.run(place.root, 0, CHAINBEGIN), wire.OK, "BEGIN")
            channel.caller.lose()
            os.unlink(f"{server.folder}/{name.decode()}")
        server.watch_memory()
    return check


def run_all(sizes, max_growth):
    unbound, binds, sessions = sizes

    def run(scratch):
        with Sess01Attacked(scratch, max_growth=max_growth) as server:
            for model in MODELS:
                place = Place("127.0.0.1", server.tcp, server.port, model)
                checks = [channels_of_a_session_are_limited, binds_without_end(binds), creates_bind_and_vanish(sessions)]
                for check in checks + ([unbound_sessions_do_not_pile_up(unbound)] if model == TCP else []):
                    check(server, place)
                    place.tidy()
                    server.check_neighbour()
                    print(f"  {model} {check.__qualname__.split('.')[0]}: {server.watch_memory() / MIB:.1f} MiB", flush=True)
    return run


crowd = run_all((1500, 80, 6), 112 * MIB)
great_crowd = run_all((20000, 1500, 10), 112 * MIB)


# ---- a disk that hangs ----

def slow_file(place, client, channel):
    name = client.name + b".slow"
    opened = expect(channel.run([*place.root, open_file(b"owner", name, create=unchecked()), GETFH], 0), wire.OK, "OPEN")
    return name, nfs4.putfh(opened.value(nfs4.GETFH)), opened.value(nfs4.OPEN)["stateid"]


def chain_with_a_slow_write(server, place, disk):
    """Sends a chain whose first request hangs. Returns what the checks need."""
    client = place.client(requests=16)
    channel = client.start(maxrequests=16)
    other = client.bind(client.open())
    name, at, stateid = slow_file(place, client, channel)
    path = f"{server.folder}/{name.decode()}"
    disk.fail(f"pwrite hang {path}")
    messages = [channel.message([at, nfs4.write_op(stateid, 0, b"w" * 100)], 1, CHAINBEGIN),
                *(channel.message([GETFH], 2 + i, CHAINCONTINUE) for i in range(3)), channel.message([GETFH], 5, CHAINEND)]
    for message in messages:
        channel.caller.send(message)
    disk.await_hanging(path)
    return client, channel, other, messages


def slow_chains_hold_up_nobody_else(server, place, disk):
    client, channel, other, messages = chain_with_a_slow_write(server, place, disk)
    expect(other.run(place.root, 6), wire.OK, "a request over another channel")
    expect(other.run(place.root, 1), wire.STREAM_INUSE, "the streamid of the request that hangs")
    expect(other.run(place.root, 2), wire.STREAM_INUSE, "the streamid of a request that waits for its turn")
    expect(channel.run(place.root, 7), wire.OK, "an unchained request over the channel of the chain")
    server.check_neighbour()
    stranger = place.client()
    expect(stranger.start().run(place.root), wire.OK, "a request of a client that comes meanwhile")
    disk.mend()
    for i, message in enumerate(messages):
        expect(Results(channel.caller.wait(rpc.xid_of(message))), wire.OK, f"request {i} of the chain")


def lost_chains_end_with_their_slow_write(server, place, disk):
    """The channel goes while a chained request hangs: its retry gets the one reply, and the rest of the chain is broken."""
    client, channel, other, messages = chain_with_a_slow_write(server, place, disk)
    expect(other.run(place.root, 6), wire.OK, "a request over the other channel, which brings its credits")
    channel.caller.lose()
    other.caller.send(messages[0])
    expect(other.run(place.root, 7), wire.OK, "a request beside a retry that waits")
    server.check_neighbour()
    disk.mend()
    expect(Results(other.caller.wait(rpc.xid_of(messages[0]))), wire.OK, "the retry of the request that hung")
    for message in messages[1:]:
        expect(Results(other.caller.call(message)), wire.CHAIN_BROKEN, "the retry of a request that waited for its turn")
    expect(other.run(place.root, 2), wire.OK, "a new request with its streamid")


def slow_requests_of_a_destroyed_session_end(server, place, disk):
    client, channel, other, messages = chain_with_a_slow_write(server, place, disk)
    expect(other.run([wire.u32(wire.SESSION_DESTROY)], 6), wire.OK, "SESSION_DESTROY beside a request that hangs")
    expect_end(channel.caller, "a channel of a destroyed session")
    server.check_neighbour()
    disk.mend()
    with refused(wire.BADSESSION, "a bind to the destroyed session"):
        client.bind(client.open())


def floods_behind_a_slow_request_are_bounded(server, place, disk):
    """As many requests as there are streamids wait in a chain, over several connections that come and go."""
    client = place.client(requests=64)
    channel = client.start(maxrequests=64)
    name, at, stateid = slow_file(place, client, channel)
    path = f"{server.folder}/{name.decode()}"
    disk.fail(f"pwrite hang {path}")
    first = channel.message([at, nfs4.write_op(stateid, 0, b"w" * 100)], 1, CHAINBEGIN)
    channel.caller.send(first)
    disk.await_hanging(path)
    for _ in range(20):
        another = client.bind(client.open(), maxrequests=64)
        another.caller.null()  # brings its credits
        try:
            for stream in range(2, 12):
                another.caller.send(another.message([GETFH], stream, CHAINBEGIN if stream == 2 else CHAINCONTINUE))
            another.caller.send(first)  # a retry, which waits
        except Ended:
            pass
        another.caller.lose()
    server.watch_memory()
    server.check_neighbour()
    disk.mend()
    bind_again(place, client)


def slow(scratch):
    disk = FailingDisk(scratch)
    with Sess01Attacked(scratch, environment=disk.environment) as server:
        for model in MODELS:
            place = Place("127.0.0.1", server.tcp, server.port, model)
            for check in (slow_chains_hold_up_nobody_else, lost_chains_end_with_their_slow_write,
                          slow_requests_of_a_destroyed_session_end, floods_behind_a_slow_request_are_bounded):
                check(server, place, disk)
                place.tidy()
                server.check_neighbour()
                print(f"  {model} {check.__name__}", flush=True)
