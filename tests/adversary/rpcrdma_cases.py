"""RPC-over-RDMA headers and chunk lists (RFC 8166 §4) with every field wrong, and errors that only the RPC layer can
find."""

import rpc_messages as rpc
from attack import ERR_CHUNK, ERR_VERS, Case, Either, Nfs, Passed, Replied, Served, is_alive
from iwarp_cases import MAX32, MAX64
from rdma_messages import RDMA_ERROR, RDMA_MSG, RDMA_NOMSG
from rpc_messages import GARBAGE_ARGS, hyper, opaque, read_list, reply_chunk, words, write_list

RDMA_MSGP, RDMA_DONE = 2, 3
GARBAGE = Replied("accepted", GARBAGE_ARGS)


def send(message):
    def act(client):
        client.endpoint.send(message)
        return rpc.xid_of(message) if len(message) >= 4 else None
    return act


def null(**fields):
    """A NULL call with this header."""
    def act(client):
        return send(rpc.rdma_call(rpc.call(), **fields))(client)
    return act


def lists(data, payload=True, kind=RDMA_MSG):
    """Sends a header with `data` as chunk lists, and a NULL call after it if `payload` is true."""
    def act(client):
        message = rpc.call()
        return send(rpc.header(rpc.xid_of(message), kind, chunks=data) + (message if payload else b""))(client)
    return act


def header_cases():
    for version in (0, 2, 3, 1 << 31, MAX32):
        yield Case(f"version {version}", "RFC 8166 §4.5.1", null(version=version), ERR_VERS)
        yield Case(f"version {version} with nothing that we know", "RFC 8166 §4.5.1",
                   send(words(0xBAD, version, 1, 77) + b"\xff" * 24), ERR_VERS)
    for kind in (5, 6, 1 << 31, MAX32):
        yield Case(f"procedure {kind}", "RFC 8166 §4.5.2", null(kind=kind), ERR_CHUNK)
    yield Case("RDMA_MSGP", "RFC 8166 §4.6.1", null(kind=RDMA_MSGP), ERR_CHUNK)
    yield Case("RDMA_DONE", "RFC 8166 §4.6.2", null(kind=RDMA_DONE), Served())
    for body in (words(1, 1, 1), words(2), words(3), words(0), words(1), words(MAX32, MAX32, MAX32), b""):
        yield Case(f"RDMA_ERROR of {body.hex()}", "RFC 8166 §4.5", send(words(0xBAD, 1, 1, RDMA_ERROR) + body), Served())
    for size in range(28):
        yield Case(f"message of {size} octets", "RFC 8166 §4.5", send(rpc.rdma_call(rpc.call())[:size]), Served())
    for credits in (0, 1, 65, 1 << 31, MAX32):
        yield Case(f"{credits} credits asked for", "RFC 8166 §3.3.1", null(credits=credits), GrantOf(credits))
    for xid in (0, 0x5AFE, MAX32):
        yield Case(f"XID {xid:#x} in the header only", "RFC 8166 §4.5.2", null(xid=xid), ERR_CHUNK)
    yield Case("the same XID twice", "RFC 8166 §3.3", twice, Served())


class GrantOf:
    """The server answers, and grants between one credit and the requested or available number."""

    def __init__(self, asked):
        self.asked = asked

    def check(self, client, xid):
        answer = client.reply_to(xid)
        assert 1 <= answer.credits <= max(1, min(self.asked, 4096)), f"a grant of {answer.credits}"
        is_alive(client)


def twice(client):
    message = rpc.rdma_call(rpc.call())
    client.endpoint.send(message)
    client.endpoint.send(message)
    for _ in range(2):
        client.reply_to(rpc.xid_of(message))


def grammar_cases():
    full = read_list((4096, 1, 8), (8192, 2, 8)) + write_list([(3, 8), (4, 8)], [(5, 8)]) + reply_chunk((6, 8))
    for size in range(12, len(full)):
        yield Case(f"chunk lists cut off after {size} octets", "RFC 8166 §4.5.2", lists(full[:size], payload=False), ERR_CHUNK)
    for size in range(1, 4):
        yield Case(f"Payload stream of {size} octets", "RFC 8166 §4.2.4", lists(rpc.NO_CHUNKS + bytes(size), False), ERR_CHUNK)
    yield Case("RDMA_MSG without a Payload stream", "RFC 8166 §4.2.4", lists(rpc.NO_CHUNKS, False), ERR_CHUNK)
    for word in (2, 3, 1 << 31, MAX32):
        for name, data in (("Read list", words(word, 0, 0)), ("Write list", words(0, word, 0)),
                           ("Reply chunk", words(0, 0, word)),
                           ("second Read segment", words(1, 64) + rpc.segment(1, 4) + words(word, 0, 0)),
                           ("second Write chunk", words(0, 1, 0, word, 0))):
            yield Case(f"{name} begun with {word:#x}", "RFC 4506 §4.19", lists(data), ERR_CHUNK)
    for count in (100, 10_000, 1 << 28, 1 << 31, MAX32):
        yield Case(f"Write chunk of {count} segments, which are not there", "RFC 8166 §4.3.2",
                   lists(words(0, 1, count) + rpc.segment(1, 4) + words(0, 0)), ERR_CHUNK)
        yield Case(f"Reply chunk of {count} segments, which are not there", "RFC 8166 §4.3.3",
                   lists(words(0, 0, 1, count) + rpc.segment(1, 4)), ERR_CHUNK)
    yield Case("33 Write chunks", "RFC 8267 §6.4.2", null(writes=write_list(*[[]] * 33)), ERR_CHUNK)
    yield Case("32 Write chunks", "RFC 8267 §6.4.2", null(writes=write_list(*[[]] * 32)), Replied("success"))
    yield Case("200 segments in a Write chunk", "RFC 8267 §6.4.2", null(writes=write_list([(7, 4)] * 200)),
               Replied("success"))
    yield Case("160 Read segments of nothing", "RFC 8166 §4.3.1", null(reads=read_list(*[(64, 7, 0)] * 160)), GARBAGE_OR_DONE)
    yield Case("RDMA_NOMSG without chunks", "RFC 8166 §4.5.2", lists(rpc.NO_CHUNKS, False, RDMA_NOMSG), ERR_CHUNK)
    yield Case("RDMA_NOMSG with an empty Reply chunk", "RFC 8166 §4.5.2", lists(words(0, 0) + reply_chunk(), False, RDMA_NOMSG),
               ERR_CHUNK)
    yield Case("RDMA_NOMSG with a Write list only", "RFC 8166 §4.5.2",
               lists(words(0) + write_list([(1, 64)]) + words(0), False, RDMA_NOMSG), ERR_CHUNK)
    yield Case("RDMA_NOMSG with a Reply chunk only", "RFC 8166 §4.5.2",
               lists(words(0, 0) + reply_chunk((1, 4096)), False, RDMA_NOMSG), ERR_CHUNK)
    yield Case("RDMA_NOMSG with a chunk at position 4 only", "RFC 8166 §4.5.2",
               lists(read_list((4, 1, 64)) + words(0, 0), False, RDMA_NOMSG), ERR_CHUNK)
    yield Case("RDMA_NOMSG with a Payload stream too", "RFC 8166 §4.2.4",
               lists(read_list((0, 1, 64)) + words(0, 0), True, RDMA_NOMSG), ERR_CHUNK)
    yield Case("RDMA_MSG with a chunk at position zero", "RFC 8166 §4.5.2", null(reads=read_list((0, 1, 64))), ERR_CHUNK)


def long_call(message, *pieces):
    """Puts `message` at position zero in segments of these sizes; the last may be longer than the rest."""
    def act(client):
        reads, at = [], 0
        for size in pieces:
            part = message[at:at + size]
            reads.append((0, client.offer(part + bytes(size - len(part))), size))
            at += size
        return send(rpc.header(rpc.xid_of(message), RDMA_NOMSG, reads=read_list(*reads)))(client)
    return act


def write_call(said=64, sizes=(64,), shift=0, size_of_file=None):
    """A WRITE of `said` octets with Read chunks of `sizes` at the place of its data, moved by `shift`."""
    def act(client):
        file = client.lookup(client.root(), b"empty")
        message = rpc.call(rpc.WRITE, opaque(file) + hyper(0) + words(size_of_file or said, 0, said))
        reads = [(len(message) + shift, client.offer(bytes(size)), size) for size in sizes]
        return send(rpc.rdma_call(message, reads=read_list(*reads)))(client)
    return act


def overlapping(client):
    """Two chunks; the second begins within the first."""
    file = client.lookup(client.root(), b"empty")
    message = rpc.call(rpc.WRITE, opaque(file) + hyper(0) + words(64, 0, 64))
    reads = [(len(message), client.offer(bytes(64)), 64), (len(message) + 32, client.offer(bytes(64)), 64)]
    return send(rpc.rdma_call(message, reads=read_list(*reads)))(client)


def decreasing(client):
    """A Long Call that lists its chunks in reverse order: RFC 8166 §4.3.1 orders them by position."""
    file = client.lookup(client.root(), b"empty")
    message = rpc.call(rpc.WRITE, opaque(file) + hyper(0) + words(64, 0, 64))
    reads = [(len(message), client.offer(bytes(64)), 64), (0, client.offer(message), len(message))]
    return send(rpc.header(rpc.xid_of(message), RDMA_NOMSG, reads=read_list(*reads)))(client)


def sixteen_segments_each(client):
    """The most complex call that every server must accept: RFC 8267 §6.4.2."""
    file = client.lookup(client.root(), b"empty")
    data = bytes(range(256)) * 2
    message = rpc.call(rpc.WRITE, opaque(file) + hyper(0) + words(len(data), 0, len(data)))
    reads = []
    for position, whole in ((0, message), (len(message), data)):
        size = -(-len(whole) // 16)
        parts = [whole[at:at + size] for at in range(0, len(whole), size)]
        reads += [(position, client.offer(part), len(part)) for part in parts]
    sink = rpc.write_list([(client.offer(bytes(64)), 64) for _ in range(16)])
    return send(rpc.header(rpc.xid_of(message), RDMA_NOMSG, reads=read_list(*reads), writes=sink))(client)


def name_in_chunk(client):
    """A LOOKUP whose name, which is not DDP-eligible, is in a Read chunk."""
    message = rpc.call(rpc.LOOKUP, opaque(client.root()) + words(8))
    reads = read_list((len(message), client.offer(b"smallest"), 8))
    return send(rpc.rdma_call(message, reads=reads))(client)


def read_list_cases():
    for position in (1, 2, 3, 5, 4097, MAX32):
        yield Case(f"position {position}", "RFC 8166 §3.4.4", null(reads=read_list((position, 1, 8))), ERR_CHUNK)
    for position in (1 << 12, 1 << 20, MAX32 - 3):
        yield Case(f"position {position}, behind the stream", "RFC 8166 §3.4.4", null(reads=read_list((position, 1, 8))),
                   ERR_CHUNK)
    yield Case("a chunk within another", "RFC 8166 §3.4.4", overlapping, ERR_CHUNK)
    yield Case("sixteen segments in each chunk", "RFC 8267 §6.4.2", sixteen_segments_each, Nfs(rpc.OK))
    yield Case("chunks listed last first", "RFC 8166 §4.3.1", decreasing, Nfs(rpc.OK))
    # Gigabytes, and sums that overflow 32 or 64 bits.
    for name, segments in (("4 GiB", [(64, 1, MAX32)]), ("twice 2 GiB", [(64, 1, 1 << 31), (64, 2, 1 << 31)]),
                           ("100 times 4 GiB", [(64, 1, MAX32)] * 100), ("one octet more than may be", [(64, 1, (4 << 20) + 1)]),
                           ("4 GiB at many positions", [(4 * n, n, 1 << 28) for n in range(16, 32)])):
        yield Case(f"Read chunks of {name}", "RFC 8166 §8.1", null(reads=read_list(*segments)), ERR_CHUNK)
    yield Case("Long Call of 4 GiB", "RFC 8166 §8.1",
               lists(read_list((0, 1, MAX32)) + words(0, 0), False, RDMA_NOMSG), ERR_CHUNK)
    yield Case("a segment that wraps its address space", "RFC 8166 §3.4.3", null(reads=read_list((64, 1, 4096, MAX64 - 15))),
               ERR_CHUNK)
    yield Case("Long Call of nothing", "RFC 8166 §4.5.2", long_call(rpc.call(), 0), ERR_CHUNK)
    for size in (1, 3):
        yield Case(f"Long Call of {size} octets", "RFC 8166 §4.5.2", long_call(rpc.call(), size), ERR_CHUNK)
    yield Case("Long Call of another XID", "RFC 8166 §4.5.2", other_long_call, ERR_CHUNK)
    yield Case("Long Call in segments of 1 octet", "RFC 8166 §3.5.3", long_call(rpc.call(), *[1] * len(rpc.call())),
               Replied("success"))
    yield Case("Long Call with more behind it", "RFC 5531 §8", long_call(rpc.call(), len(rpc.call()), 400), GARBAGE_OR_DONE)
    # Errors that the transport cannot see: RFC 8267 §6.4.2 requires the XDR layer to report them.
    for said, sizes in ((64, (63,)), (64, (65,)), (64, (0,)), (64, (68,)), (0, (64,)), (MAX32, (64,)), (64, (32,)),
                        (64, (1 << 20,))):
        yield Case(f"data of {said} octets in chunks of {sizes}", "RFC 8166 §3.4.5", write_call(said, sizes, size_of_file=64),
                   GARBAGE)
    for shift in (-4, -8, -32):
        yield Case(f"the data's chunk at {shift} from its place", "RFC 8166 §3.4.4", write_call(shift=shift), GARBAGE)
    yield Case("the data's chunk behind its place", "RFC 8166 §3.4.4", write_call(shift=4), ERR_CHUNK)
    yield Case("the data's padding too", "RFC 8166 §3.4.5.2", write_call(61, (64,)), Nfs(rpc.OK))
    yield Case("a name in a chunk", "RFC 8166 §3.4.4", name_in_chunk, GARBAGE)


def other_long_call(client):
    message = rpc.call()
    reads = read_list((0, client.offer(message), len(message)))
    return send(rpc.header(0xBAD, RDMA_NOMSG, reads=reads))(client)


# Octets after the arguments: a server may check them or not.
GARBAGE_OR_DONE = Either(("success",), ("accepted", GARBAGE_ARGS))


class Unused(Replied):
    """The server answers, and returns the offered chunks with all lengths zero."""

    def check(self, client, xid):
        answer = client.reply_to(xid)
        assert rpc.RpcReply(answer.body).status == ("success",)
        assert all(length == 0 for chunk in answer.writes + [answer.reply or []] for _, length, _ in chunk)
        is_alive(client)


def with_sinks(procedure, arguments, writes=(), reply=None):
    """Calls `procedure` on the file "big" or the folder "dir", with Write chunks and a Reply chunk of these sizes."""
    def act(client):
        root = client.root()
        node = client.lookup(root, b"dir" if procedure == rpc.READDIR else b"big")
        message = rpc.call(procedure, opaque(node) + arguments)
        fields = {}
        if writes:
            fields["writes"] = write_list(*[[(client.offer(bytes(size)), size) for size in chunk] for chunk in writes])
        if reply is not None:
            fields["reply"] = reply_chunk(*[(client.offer(bytes(size)), size) for size in reply])
        return send(rpc.rdma_call(message, **fields))(client)
    return act


def sink_cases():
    read = hyper(0) + words(8192)
    whole_folder = hyper(0) + bytes(8) + words(1 << 16)
    for sizes in ([[0]], [[1]], [[8191]], [[4096, 4095]], [[4] * 64]):
        yield Case(f"Write chunk of {sizes} for 8192 octets", "RFC 8166 §4.5.2", with_sinks(rpc.READ, read, sizes), ERR_CHUNK)
    for reply in ((), (1,), (4096,), (8192,)):
        yield Case(f"Reply chunk of {reply} for 8192 octets", "RFC 8166 §4.5.2", with_sinks(rpc.READ, read, reply=reply),
                   ERR_CHUNK)
        yield Case(f"Reply chunk of {reply} for a folder", "RFC 8166 §4.5.2",
                   with_sinks(rpc.READDIR, whole_folder, reply=reply), ERR_CHUNK)
    yield Case("no chunk for 8192 octets", "RFC 8166 §4.5.2", with_sinks(rpc.READ, read), ERR_CHUNK)
    yield Case("an empty Write chunk for 8192 octets", "RFC 8166 §4.5.2", with_sinks(rpc.READ, read, [[]]), ERR_CHUNK)
    yield Case("Reply chunk in parts of 100 octets", "RFC 8166 §4.3.3", with_sinks(rpc.READ, read, reply=[100] * 90),
               Nfs(rpc.OK))
    yield Case("Reply chunk in 100 parts of 1 octet and a large one", "RFC 8166 §4.3.3",
               with_sinks(rpc.READ, read, reply=[1] * 100 + [9000]), Nfs(rpc.OK))
    yield Case("Write chunks for a call that has no use for them", "RFC 8166 §4.3.2",
               with_sinks(rpc.GETATTR, b"", [[100], [1, 2, 3]], (4096,)), Unused())
    yield Case("Write chunk that wraps its address space", "RFC 8166 §3.4.3", wrapping_sink, ERR_CHUNK)
    yield Case("the same handle for two chunks", "RFC 8166 §4.3", same_handle, Passed())


def wrapping_sink(client):
    file = client.lookup(client.root(), b"big")
    message = rpc.call(rpc.READ, opaque(file) + hyper(0) + words(8192))
    return send(rpc.rdma_call(message, writes=write_list([(1, 8192, MAX64 - 4095)])))(client)


def same_handle(client):
    """Only the requester is harmed: both results are placed at the same address, and the server cannot know it."""
    file = client.lookup(client.root(), b"big")
    handle = client.offer(bytes(8192))
    message = rpc.call(rpc.READ, opaque(file) + hyper(0) + words(8192))
    answer = client.exchange(rpc.rdma_call(message, writes=write_list([(handle, 4096), (handle, 4096)])))
    assert answer.kind == RDMA_MSG and answer.writes == [[(handle, 4096, 0), (handle, 4096, 0)]]
    is_alive(client)


def rpc_cases():
    def case(name, section, expect, **fields):
        return Case(name, section, lambda client: send(rpc.rdma_call(rpc.call(**fields)))(client), expect)

    for version in (0, 1, 3, MAX32):
        yield case(f"RPC version {version}", "RFC 5531 §9", Replied("denied", 0, 2), rpc_version=version)
    for program in (0, 100000, 100004, MAX32):
        yield case(f"program {program}", "RFC 5531 §9", Replied("accepted", rpc.PROG_UNAVAIL), program=(program, 3))
    for version in (0, 1, 5, MAX32):
        yield case(f"NFS version {version}", "RFC 5531 §9", Replied("accepted", rpc.PROG_MISMATCH), program=(100003, version))
    for procedure in (22, 23, 1 << 31, MAX32):
        yield case(f"NFS procedure {procedure}", "RFC 5531 §9", Replied("accepted", rpc.PROC_UNAVAIL), procedure=procedure)
    bad_credential, bad_verifier = Replied("denied", 1, 1), Replied("denied", 1, 3)
    for size in (401, 404, 1 << 16, 1 << 31, MAX32):
        yield case(f"credential of {size} octets", "RFC 5531 §8.2", bad_credential, credential=words(1, size) + bytes(404))
        yield case(f"verifier of {size} octets", "RFC 5531 §8.2", bad_verifier, verifier=words(0, size) + bytes(404))
    sys = rpc.opaque
    for name, body in (("of no octets", b""), ("cut off", words(0, 4)), ("with 17 groups", words(0, 0, 0, 0, 17) + bytes(68)),
                       ("with groups that are not there", words(0, 0, 0, 0, 16)), ("with 2^32-1 groups", words(0, 0, 0, 0, MAX32)),
                       ("with a name of 256 octets", words(0) + sys(bytes(256)) + words(0, 0, 0)),
                       ("with a name of 2^32-1 octets", words(0, MAX32, 0, 0, 0)), ("with more behind", words(*range(40)))):
        yield case(f"AUTH_SYS {name}", "RFC 5531 A", bad_credential, credential=words(1) + sys(body), procedure=rpc.GETATTR)
    for flavor in (2, 3, 6, 77, MAX32):
        yield case(f"flavor {flavor}", "RFC 5531 §8.2", Denied(), credential=words(flavor, 0), procedure=rpc.GETATTR)
    yield case("AUTH_NONE where a caller is needed", "RFC 8267 §2", AnyRpcAnswer(), credential=words(0, 0),
               procedure=rpc.GETATTR, arguments=opaque(b"x" * 32))
    whole = rpc.call(rpc.GETATTR, opaque(b"x" * 32))
    for size in range(8, len(whole) - 36):
        yield Case(f"call header of {size} octets", "RFC 5531 §9", cut_call(whole, size), GARBAGE)
    for size in (4, 5, 7):
        yield Case(f"call of {size} octets, from which nothing follows", "RFC 5531 §9", cut_call(whole, size), Served())
    for kind in (1, 2, MAX32):
        yield case(f"message of type {kind}", "RFC 5531 §9", Served(), message_type=kind)


def cut_call(whole, size):
    return lambda client: send(rpc.rdma_call(rpc.words(next(rpc.xids)) + whole[4:size]))(client)


class Denied:
    """AUTH_ERROR, for any reason."""

    def check(self, client, xid):
        status = rpc.RpcReply(client.reply_to(xid).body).status
        assert status[:2] == ("denied", 1), f"{status}"
        is_alive(client)


class AnyRpcAnswer:
    def check(self, client, xid):
        assert rpc.RpcReply(client.reply_to(xid).body).xid == xid
        is_alive(client)


def cases():
    yield from header_cases()
    yield from grammar_cases()
    yield from read_list_cases()
    yield from sink_cases()
    yield from rpc_cases()
