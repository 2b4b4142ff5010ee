"""Peers that stall, flood, or connect by the thousand: the responses that they get, and their effect on others."""

import random
import resource
import socket
import threading
import time

import record_cases
import rpc_messages as rpc
from attack import GOOD_REQUEST, MAX_WAIT, MIB, Attacked, Case, Closed
from iwarp_peer import REJECTED, SEND, Ended, dial, fpdu, mpa_frame, untagged
from patience import SECONDS
from rpc_messages import Client, hyper, opaque, words
from tcp_peer import TcpClient, fragment

STALL_SECONDS = 2
# The time until a stalled peer is certainly disconnected: the server may take a quarter more than the limit, and a busy
# machine gets the rest. It is less than the server's default limit (60 s), so that the tests detect a server that
# ignores --stall-limit.
GONE_WITHIN = STALL_SECONDS + 13
MAX_PULLED, MAX_QUEUED = 32 * MIB, 8 * MIB  # rpcrdma::ResponderOptions
SMALL_BUFFER = 4096
# The memory of an idle connection. A sanitizer, with its large coroutine frames, nearly trebles it.
CONNECTION = 3 * 68 * 4096


ESTABLISHED = "01"


def over(endpoint, within=GONE_WITHIN):
    """Checks that the server has ended the connection, by the server's side of it, because we do not read what it has
    sent."""
    ours, theirs = (f"{port:04X}" for port in endpoint.ports)
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        with open("/proc/net/tcp") as table:
            states = [fields[3] for fields in map(str.split, table)
                      if fields[1].endswith(":" + theirs) and fields[2].endswith(":" + ours)]
        if ESTABLISHED not in states:
            return True
        time.sleep(0.05)
    return False


# ---- stalls ----

def half_done(data):
    return lambda client: client.endpoint.raw(data)


def unanswered_read(client):
    client.endpoint.answer_reads = False
    message = rpc.call(rpc.WRITE, opaque(client.root()) + hyper(0) + words(64, 0, 64))
    client.endpoint.send(rpc.rdma_call(message, reads=rpc.read_list((len(message), 1, 64))))


def stall_cases():
    frame = fpdu(untagged(payload=rpc.rdma_call(rpc.call())))
    for name, act in (("one octet", half_done(frame[:1])), ("half a DDP header", half_done(frame[:9])),
                      ("half a payload", half_done(frame[:60])), ("no check value", half_done(frame[:-4])),
                      ("the longest frame, not sent", half_done(fpdu(untagged(), length=65535))),
                      ("half a message", half_done(fpdu(untagged(payload=bytes(8), last=False)))),
                      ("a Read that is not answered", unanswered_read)):
        yield Case(f"stalled: {name}", "RFC 8267 §6.7", act, Closed(GONE_WITHIN))


def all_at_once(server, cases, connect):
    """Runs slow cases side by side, so that their stalls overlap."""
    failures = []

    def one(case):
        try:
            client = connect()
            case.expect.check(client, case.act(client))
            client.close()
        except Exception as failure:
            failures.append((case.name, failure))

    threads = [threading.Thread(target=one, args=(case,)) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, f"{failures}"
    print(f"{len(threads)} cases", flush=True)


def stalls(scratch):
    with Attacked(scratch, stall_limit=STALL_SECONDS) as server:
        idle = Client(server.port)
        all_at_once(server, list(stall_cases()), lambda: Client(server.port))
        all_at_once(server, list(record_cases.stalls(GONE_WITHIN)), lambda: TcpClient(server.tcp))
        all_at_once(server, [Case(f"MPA request, {size} octets of it", "RFC 5044 §7.1.2",
                                  lambda client, size=size: client.raw(GOOD_REQUEST[:size]), record_cases.Ends())
                             for size in range(0, 20, 3)], lambda: TcpClient(server.port))
        idle.call()  # peers without an unfinished transfer may stay
        idle.close()


# ---- peers that never read, and peers that never stop ----

def flood(client, message_of, count):
    """Sends until the server stops reading, or until `count` messages; reads no reply."""
    endpoint = client.endpoint
    endpoint.socket.settimeout(0.2)
    for _ in range(count // 50):
        batch = b"".join(fpdu(untagged(SEND, 0, endpoint.next_msn(0), 0, message_of())) for _ in range(50))
        try:
            endpoint.socket.sendall(batch)
        except (TimeoutError, OSError):
            break


def never_reads(server, message_of, count=4000):
    """Sends READs. `count` must suffice to fill the kernel's socket buffer with replies (tcp_wmem: some megabytes)."""
    client = Client(server.port, receive_buffer=SMALL_BUFFER)
    flood(client, lambda: message_of(client), count)
    assert over(client.endpoint), "the server puts up with a peer that takes no answers"
    server.watch_memory()
    client.close()


def read_call(client):
    """A READ of 128 KiB into a Write chunk."""
    message = rpc.call(rpc.READ, opaque(client.file) + hyper(0) + words(128 << 10))
    return rpc.rdma_call(message, writes=rpc.write_list([(1, 128 << 10)]))


def folder_call(client):
    """A READDIRPLUS into a Reply chunk: the server must keep the reply in memory."""
    message = rpc.call(rpc.READDIRPLUS, opaque(client.folder) + hyper(0) + bytes(8) + words(1 << 15, 1 << 16))
    return rpc.rdma_call(message, reply=rpc.reply_chunk((1, 1 << 17)))


def credits_ignored(server):
    """Sends far more calls than granted, which the server cannot answer because their Read chunks never arrive."""
    client = Client(server.port)
    client.endpoint.answer_reads = False
    handle = client.root()
    for n in range(200):
        message = rpc.call(rpc.WRITE, opaque(handle) + hyper(0) + words(4, 0, 4))
        client.endpoint.send(rpc.rdma_call(message, reads=rpc.read_list((len(message), 1, 4))))
    client.endpoint.end(10)
    client.close()


def pulls(server):
    """Sends as many Long Calls of 4 MiB as credits allow, and answers no RDMA Read. The server reserves at most 32 MiB
    for them."""
    client = Client(server.port)
    client.endpoint.answer_reads = False
    granted = client.exchange(rpc.rdma_call(rpc.call(), credits=1000)).credits
    for n in range(granted):
        client.endpoint.send(rpc.header(0xAB0000 + n, 1, reads=rpc.read_list((0, 1, 4 << 20))))
    try:
        client.endpoint.receive(1)
    except Exception:
        pass
    server.watch_memory()
    asked = sum(size for _, _, size, _, _ in client.endpoint.reads_seen)
    assert 0 < asked <= MAX_PULLED, f"{asked} octets are being pulled at once"
    client.endpoint.end(GONE_WITHIN)
    client.close()


def tcp_never_reads(server):
    """Sends READs of 128 KiB over TCP and reads no reply."""
    helper = Client(server.port)
    file = helper.lookup(helper.root(), b"big")
    helper.close()
    endpoint = dial(server.tcp, SMALL_BUFFER)
    record = fragment(rpc.call(rpc.READ, opaque(file) + hyper(0) + words(128 << 10)))
    endpoint.socket.settimeout(0.2)
    try:
        for _ in range(200):
            endpoint.socket.sendall(record * 50)
    except (TimeoutError, OSError):
        pass
    server.watch_memory()
    assert over(endpoint), "the server puts up with a TCP peer that takes no replies"
    endpoint.close()


def floods(scratch):
    with Attacked(scratch, stall_limit=STALL_SECONDS, max_growth=MAX_PULLED + 2 * MAX_QUEUED + 64 * MIB) as server:
        probe = Client(server.port)
        root = probe.root()
        file, folder = probe.lookup(root, b"big"), probe.lookup(root, b"dir")
        probe.close()

        def on_files(call):
            def message(client):
                client.file, client.folder = file, folder
                return call(client)
            return message

        for name, attack in (
                ("NULL calls whose answers are not read", lambda: never_reads(server, lambda _: rpc.rdma_call(rpc.call()), 200000)),
                ("bad headers whose answers are not read", lambda: never_reads(
                    server, lambda _: rpc.rdma_call(rpc.call(), version=9), 200000)),
                ("bad chunk lists whose answers are not read", lambda: never_reads(
                    server, lambda _: rpc.rdma_call(rpc.call(), reads=words(7)), 200000)),
                ("READs whose data is not read", lambda: never_reads(server, on_files(read_call))),
                ("folders that are not read", lambda: never_reads(server, on_files(folder_call))),
                ("credits ignored", lambda: credits_ignored(server)),
                ("gigabytes to be pulled", lambda: pulls(server)),
                ("TCP replies that are not read", lambda: tcp_never_reads(server))):
            began = time.monotonic()
            attack()
            print(f"  {name}: over after {time.monotonic() - began:.1f} s, memory {server.peak / MIB:.1f} MiB more at most",
                  flush=True)
        assert server.watch_memory() <= server.max_growth


# ---- numbers ----

def conversation(client):
    """Returns a valid conversation as octets."""
    parts = []
    endpoint = client.endpoint
    for procedure, arguments in ((rpc.NULL, b""), (rpc.GETATTR, opaque(client.file)),
                                 (rpc.READ, opaque(client.file) + hyper(0) + words(1000))):
        fields = {"writes": rpc.write_list([(1, 1000)])} if procedure == rpc.READ else {}
        message = rpc.rdma_call(rpc.call(procedure, arguments), **fields)
        parts.append(fpdu(untagged(SEND, 0, endpoint.next_msn(0), 0, message)))
    return b"".join(parts)


def await_departure(server):
    """Waits until the server has noticed that most of a crowd has gone."""
    give_up = time.monotonic() + SECONDS
    while server.count_descriptors()[0] > server.descriptors[0] + 50:
        assert time.monotonic() < give_up, "the server keeps connections that were reset or closed"
        time.sleep(0.05)


def crowds(scratch):
    limit = 400  # for the receives of so many connections
    with Attacked(scratch, all_for_one(limit), max_growth=limit * CONNECTION + 64 * MIB) as server:
        client = Client(server.port)
        file = client.lookup(client.root(), b"big")
        dice = random.Random(7)
        for _ in range(300):  # Reset at any time, with replies under way or not.
            client = Client(server.port)
            client.file = file
            data = conversation(client)
            client.endpoint.raw(data[:dice.randrange(len(data) + 1)])
            client.endpoint.reset()
        for ports, opening in (((server.port, server.tcp, server.mount), b""), ((server.port,), GOOD_REQUEST)):
            for _ in range(6 if opening else 4):
                crowd = [dial(port) for _ in range(500 // len(ports)) for port in ports]
                for each in crowd:
                    each.raw(opening)
                for each in crowd:
                    each.reset() if dice.random() < 0.5 else each.close()
        await_departure(server)
        slow_loris(server)


def slow_loris(server):
    """Three hundred peers send their requests octet by octet. The server ends them in time, and serves new clients
    meanwhile."""
    crowd = [dial(server.port) for _ in range(300)]
    for i in range(4):
        for each in crowd:
            each.raw(GOOD_REQUEST[i:i + 1])
        time.sleep(0.2)
    Client(server.port).close()
    for each in crowd:
        each.end_of_stream()
        each.close()


def silence(scratch):
    """One host connects thousands of times without sending a request, far more often than the server's limit
    (max_pending). Another host can still connect."""
    crowd_size = 2500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, crowd_size + 500)), hard))
    with Attacked(scratch) as server:
        crowd = [dial(server.port, source="127.0.0.2") for _ in range(crowd_size)]
        for _ in range(10):
            newcomer = dial(server.port)
            newcomer.raw(GOOD_REQUEST)
            _, flags, _, _ = newcomer.mpa(MAX_WAIT)
            assert not flags & REJECTED
            newcomer.close()
        crowd[0].end_of_stream()
        for each in crowd:
            each.close()


def all_for_one(limit):
    """Options that give one address all connections."""
    return [f"--max-connections={limit}", f"--max-connections-per-address={limit}"]


def await_room(server):
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return Client(server.port).close()
        except AssertionError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def many(scratch):
    """The server accepts no more connections than the operator allows."""
    limit = 20
    options = [*all_for_one(limit), "--idle-limit=86400"]
    with Attacked(f"{scratch}/rdma", options) as server:
        accepted, refused = [], 0
        for _ in range(3 * limit):
            endpoint = dial(server.port)
            endpoint.raw(mpa_frame())
            _, flags, _, _ = endpoint.mpa()
            if flags & REJECTED:
                refused += 1
                endpoint.end()
                endpoint.close()
            else:
                accepted.append(endpoint)
        assert len(accepted) == limit - 1 and refused == 2 * limit + 1, f"{len(accepted)} accepted"  # plus the bystander
        for endpoint in accepted:
            endpoint.close()
        await_room(server)
    with Attacked(f"{scratch}/tcp", options) as server:
        tcp = [dial(server.tcp if n % 2 else server.mount) for n in range(3 * limit)]
        message = fragment(rpc.call())
        served = 0
        for endpoint in tcp:
            endpoint.raw(message)
            try:
                endpoint.fill(28, time.monotonic() + SECONDS)
                served += 1
            except Ended:
                pass
        for endpoint in tcp:
            endpoint.close()
        assert served == limit - 1, f"{served} TCP connections were served"
        await_room(server)


def stopped_among_them(scratch):
    """SIGTERM with connected peers of every kind: the server ends in time, with exit code 0."""
    with Attacked(scratch) as server:
        hanging = [Client(server.port) for _ in range(4)]
        half_done(fpdu(untagged(payload=bytes(80)))[:40])(hanging[0])
        unanswered_read(hanging[1])
        client = Client(server.port, receive_buffer=SMALL_BUFFER)
        client.file = client.lookup(client.root(), b"big")
        client.endpoint.raw(b"".join(fpdu(untagged(SEND, 0, client.endpoint.next_msn(0), 0, read_call(client)))
                                     for _ in range(30)))
        tcp = dial(server.tcp, SMALL_BUFFER)
        tcp.raw(fragment(rpc.call(rpc.READ, opaque(client.file) + hyper(0) + words(128 << 10))) * 100)
        half = dial(server.mount)
        half.raw(b"\x80\0\0")
        begun = dial(server.port)
        begun.raw(GOOD_REQUEST[:7])
        time.sleep(0.5)
        began = time.monotonic()
        server.bystander.finish()
        code = server.server.stop()
        print(f"stopped after {time.monotonic() - began:.1f} s", flush=True)
        server.stopped = True
        assert code == 0, f"exit code {code}"
