"""A hostile responder against the client. The client must end with a clear message and exit code 1, or succeed. It must
never hang or crash, and the responder must not access the client's memory except as offered."""

import concurrent.futures
import os
import subprocess
import time
from typing import Callable, NamedTuple

import rpc_messages as rpc
from hostile_server import CONTENTS, FILE, HostileServer, Peer, accepted, attributes
from iwarp_cases import (BAD_CRC, BOUNDS, MAX32, MAX64, MSN, OPCODE_UNEXPECTED, SOURCE_STAG, STAG, TOO_LONG, UNTAGGED_VERSION, WRAP)
from iwarp_peer import CRC, MARKERS, READ_RESPONSE, REJECTED, REPLY_KEY, SEND_INVALIDATE, fpdu, mpa_frame, private_data, tagged, untagged
from penstock import penstock
from rdma_messages import RDMA_ERROR, RDMA_MSG, RDMA_NOMSG
from rpc_messages import opaque, words

SECONDS = 2  # the client's `timeout`
BOUND = 60  # the limit on a busy machine, including start and sanitizers
SIDE_BY_SIDE = 4
SOURCE_BOUNDS, SOURCE_ACCESS, SOURCE_WRAP, CANNOT_INVALIDATE = (0, 1, 1), (0, 1, 2), (0, 1, 4), (0, 1, 9)
PING, CAT, COPY, LIST = "ping", "cat", "cp", "ls"


class Case(NamedTuple):
    name: str
    section: str
    command: str
    behave: dict
    works: object = False  # True: must succeed with the correct output; False: must fail; None: may do either
    terminate: tuple = None  # an expected part of the client's message
    greet: Callable = None


def is_clear(error):
    """Checks that one line gives the reason, after at most two warnings: that the client retries, and that the server
    answers again."""
    *warned, why = error.splitlines() or [""]
    return why.startswith("penstock: ") and 10 < len(why) < 300 and len(warned) <= 2 and all(" warning " in line for line in warned)


def wrong_exit(code, error, works):
    """Returns a reason if the client has not ended with 0 or 1, or if `works` (True or False) says that it should have ended
    with the other one; otherwise nothing."""
    if code not in (0, 1):
        return f"exit code {code}: {error[-3000:]}"
    return f"exit code {code}: {error}" if works is not None and works != (code == 0) else None


def run(case, scratch):
    """Returns the reason of a failure, or nothing."""
    server = HostileServer(case.behave, case.greet)
    source = f"{scratch}/source"
    arguments = {PING: ["ping", "-c", "2", "-i", "10", server.url("/", SECONDS)], CAT: ["cat", server.url("/file", SECONDS)],
                 COPY: ["cp", "-q", source, server.url("/file", SECONDS)], LIST: ["ls", server.url("/", SECONDS)]}[case.command]
    began = time.monotonic()
    try:
        done = penstock(*arguments, seconds=BOUND)
    except subprocess.TimeoutExpired:
        return "it hangs"
    finally:
        server.close()
    error = done.stderr.decode(errors="replace") if isinstance(done.stderr, bytes) else done.stderr
    output = done.stdout if isinstance(done.stdout, bytes) else done.stdout.encode()
    if why := wrong_exit(done.returncode, error, case.works):
        return f"after {time.monotonic() - began:.1f} s: {why} {output[:200]}"
    worked = done.returncode == 0
    if case.works and case.command == CAT and output != CONTENTS:
        return f"{len(output)} octets of output are not the file"
    if not worked and not is_clear(error):
        return f"the message is not clear: {error!r}"
    if case.terminate and case.terminate not in server.terminates:
        return f"expected a Terminate {case.terminate}, got {set(server.terminates)}; it said {error}"
    return None


def group(cases):
    def run_all(scratch):
        with open(f"{scratch}/source", "wb") as file:
            file.write(os.urandom(20000))
        all_cases = list(cases())
        with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            results = list(pool.map(lambda case: run(case, scratch), all_cases))
        failed = [(case.name, why) for case, why in zip(all_cases, results) if why]
        for name, why in failed:
            print(f"  FAILED {name}: {why}", flush=True)
        print(f"{len(all_cases)} cases, {len(failed)} of them failed", flush=True)
        assert not failed
    return run_all


# ---- wrong replies to a NULL call ----

def header(**fields):
    return {rpc.NULL: lambda peer, call: peer.good_reply(call, **fields)}


def body(data):
    """Sends this RPC reply after the XID."""
    return {rpc.NULL: lambda peer, call: peer.reply(call, words(call.xid) + data)}


def raw_message(make):
    return {rpc.NULL: lambda peer, call: peer.send(make(call))}


def first(act):
    """Sends another message before the good reply."""
    def behave(peer, call):
        act(peer, call)
        peer.good_reply(call)
    return {rpc.NULL: behave}


def frame(make):
    return {rpc.NULL: lambda peer, call: peer.raw(make(call))}


def header_cases():
    for version in (0, 2, MAX32):
        yield Case(f"version {version}", "RFC 8166 §4.5", PING, header(version=version))
    for kind in (2, 5, 77, MAX32):
        yield Case(f"procedure {kind}", "RFC 8166 §4.5", PING, header(kind=kind))
    yield Case("another XID", "RFC 8166 §4.5", PING, header(xid=7))
    yield Case("another XID in the stream", "RFC 8166 §4.5",
               PING, {rpc.NULL: lambda peer, call: peer.reply(call, words(call.xid + 1) + accepted())})
    yield Case("no answer", "RFC 8267 §6.7.2", PING, {rpc.NULL: lambda peer, call: None})
    for size in (0, 1, 19, 27):
        yield Case(f"{size} octets first", "RFC 8166 §4.5", PING, first(lambda peer, call, size=size: peer.send(bytes(size))), True)
    yield Case("RDMA_DONE first", "RFC 8166 §4.6.2", PING, first(lambda peer, call: peer.send(words(call.xid, 1, 1, 3, 0, 0, 0))), True)
    yield Case("a reply with an unknown XID first", "RFC 8166 §4.5", PING, first(
        lambda peer, call: peer.good_reply(call, xid=call.xid ^ 1 << 31)), True)
    yield Case("the reply twice", "RFC 8166 §3.3", PING, first(Peer.good_reply), True)
    yield Case("an error and then the reply", "RFC 8166 §4.5", PING, first(
        lambda peer, call: peer.send(words(call.xid, 1, 1, RDMA_ERROR, 2))))
    yield Case("a call of the server's first", "RFC 8167 §4", PING, first(
        lambda peer, call: peer.send(rpc.rdma_call(rpc.call()))), True)
    for credits in (0, MAX32):
        yield Case(f"{credits} credits", "RFC 8166 §3.3.1", PING, header(credits=credits), True)
    yield Case("a Read list", "RFC 8166 §4.3.1", PING, header(reads=rpc.read_list((64, 1, 64))))
    yield Case("a Write list that was not offered", "RFC 8166 §4.3.2", PING, header(writes=rpc.write_list([(1, 64)])))
    yield Case("a Reply chunk that was not offered", "RFC 8166 §4.3.3", PING, header(reply=rpc.reply_chunk((1, 64))))
    yield Case("RDMA_NOMSG without a Reply chunk", "RFC 8166 §4.5", PING, raw_message(
        lambda call: rpc.header(call.xid, RDMA_NOMSG)))
    yield Case("RDMA_NOMSG with an empty Reply chunk", "RFC 8166 §4.5", PING, raw_message(
        lambda call: rpc.header(call.xid, RDMA_NOMSG, reply=rpc.reply_chunk())))
    yield Case("RDMA_NOMSG with a Reply chunk that was not offered", "RFC 8166 §4.5", PING, raw_message(
        lambda call: rpc.header(call.xid, RDMA_NOMSG, reply=rpc.reply_chunk((1, 64)))))
    for size in (16, 20, 24, 28):
        yield Case(f"a header cut off after {size} octets", "RFC 8166 §4.5", PING, raw_message(
            lambda call, size=size: rpc.header(call.xid)[:size]))
    yield Case("a Write chunk of 2^32-1 segments", "RFC 8166 §4.3.2", PING, raw_message(
        lambda call: rpc.header(call.xid, chunks=words(0, 1, MAX32, 1, 2))))
    for data in (words(1, 1, 1), words(1, 2, 7), words(1, 9, 3), words(2)):
        yield Case(f"RDMA_ERROR of {data.hex()}", "RFC 8166 §4.5", PING, raw_message(
            lambda call, data=data: words(call.xid, 1, 1, RDMA_ERROR) + data))
    for data in (b"", words(1), words(3), words(0, 0, 0)):
        yield Case(f"RDMA_ERROR of {data.hex()}, which means nothing", "RFC 8166 §4.5", PING, raw_message(
            lambda call, data=data: words(call.xid, 1, 1, RDMA_ERROR) + data))


def rpc_cases():
    for name, data in (("cut off", words(1)), ("of no words", b""), ("that is a call", words(0, 2, 100003, 3, 0, 0, 0, 0, 0)),
                       ("of type 9", words(9, 0, 0, 0, 0)), ("of status 9", words(1, 9)), ("of accept_stat 99", accepted(status=99)),
                       ("PROG_UNAVAIL", accepted(status=1)), ("PROG_MISMATCH", accepted(words(4, 9), 2)),
                       ("PROG_MISMATCH without a range", accepted(status=2)), ("GARBAGE_ARGS", accepted(status=4)),
                       ("SYSTEM_ERR", accepted(status=5)), ("RPC_MISMATCH", words(1, 1, 0, 3, 3)), ("AUTH_ERROR", words(1, 1, 1, 5)),
                       ("AUTH_ERROR for no reason", words(1, 1, 1)), ("denied for another", words(1, 1, 7)),
                       ("with a verifier of 2^32-1 octets", words(1, 0, 0, MAX32, 0)), ("with too much behind it", accepted(bytes(400)))):
        yield Case(f"a reply {name}", "RFC 5531 §9", PING, body(data))


def wire_cases():
    yield Case("a Send that is too long", "RFC 8797 §4", PING, raw_message(lambda call: words(call.xid, 1, 1, 0) + bytes(4090)),
               terminate=TOO_LONG)
    yield Case("a wrong check value", "RFC 5044 §8", PING, frame(lambda call: fpdu(untagged(payload=bytes(40)), crc=bytes(4))),
               terminate=BAD_CRC)
    yield Case("DDP version 3", "RFC 5041 §7.2", PING, frame(lambda call: fpdu(untagged(ddp_version=3))), terminate=UNTAGGED_VERSION)
    yield Case("MSN 9", "RFC 5041 §7.2", PING, frame(lambda call: fpdu(untagged(msn=9))), terminate=MSN)
    yield Case("opcode 11", "RFC 5040 §8.2", PING, frame(lambda call: fpdu(untagged(11))), terminate=OPCODE_UNEXPECTED)
    yield Case("a Read Response", "RFC 5040 §8.2", PING, frame(lambda call: fpdu(tagged(READ_RESPONSE, 1, 0, bytes(8)))),
               terminate=OPCODE_UNEXPECTED)
    for stag in (0, 1, MAX32):
        yield Case(f"a Write to {stag:#x}", "RFC 5041 §7.1", PING, frame(lambda call, stag=stag: fpdu(tagged(stag=stag, payload=bytes(8)))),
                   terminate=STAG)
        yield Case(f"a Read of {stag:#x}", "RFC 5040 §8.2", PING,
                   {rpc.NULL: lambda peer, call, stag=stag: peer.read(stag, 0, 8)}, terminate=SOURCE_STAG)
        yield Case(f"a Send that invalidates {stag:#x}", "RFC 5040 §7.2", PING,
                   {rpc.NULL: lambda peer, call, stag=stag: peer.send(bytes(40), SEND_INVALIDATE, stag)}, terminate=CANNOT_INVALIDATE)
    yield Case("half a frame", "RFC 5044 §4", PING, frame(lambda call: fpdu(untagged(payload=bytes(40)))[:30]))
    yield Case("the end", "RFC 5044 §7.2", PING, {rpc.NULL: lambda peer, call: peer.close()})
    yield Case("a reset", "RFC 5044 §7.2", PING, {rpc.NULL: lambda peer, call: peer.reset()})
    yield Case("a Terminate", "RFC 5040 §4.8", PING, frame(lambda call: fpdu(untagged(7, 2, payload=b"\x11\0\0\0"))))
    for name, data in (("that rejects", mpa_frame(REPLY_KEY, CRC | REJECTED)), ("of revision 3", mpa_frame(REPLY_KEY, revision=3)),
                       ("of revision 0", mpa_frame(REPLY_KEY, revision=0)), ("that is a request", mpa_frame()),
                       ("of too much private data", mpa_frame(REPLY_KEY, private_data=bytes(513))), ("that is noise", os.urandom(64)),
                       ("cut off", mpa_frame(REPLY_KEY)[:13]), ("of nothing", b"")):
        yield Case(f"an MPA reply {name}", "RFC 5044 §7.1", PING, {}, greet=lambda peer, data=data: (peer.raw(data), peer.close()))
    yield Case("an MPA reply that asks for markers, and then the end", "RFC 5044 §7.1", PING, {},
               greet=lambda peer: (peer.raw(mpa_frame(REPLY_KEY, CRC | MARKERS, private_data=private_data())), peer.close()))


# ---- wrong use of the client's memory ----

def on_read(act):
    return {rpc.READ: act}


def offered(call):
    """Returns (handle, length, offset) of the first Write chunk."""
    return call.header.writes[0][0]


def reply_with(change):
    """Answers a READ correctly, except that `change` alters the Write list."""
    def act(peer, call):
        results = peer.results_of(call)
        used = [[(handle, peer.filled, offset)] for handle, _, offset in call.header.writes[0]]
        peer.reply(call, words(call.xid) + accepted(results), writes=rpc.write_list(*change(used)))
    return on_read(act)


def says(count, opaque_length=None, eof=1):
    """Answers a READ with `count` octets and a given length of the data, but writes no data."""
    def act(peer, call):
        results = words(0, 0, count, eof, count if opaque_length is None else opaque_length)
        peer.reply(call, words(call.xid) + accepted(results), filled=count)
    return on_read(act)


def write_at(shift, size=8, stag=None):
    def act(peer, call):
        handle, _, offset = offered(call)
        peer.write(handle if stag is None else stag, offset + shift & MAX64, bytes(size))
    return on_read(act)


def write_behind_end(peer, call):
    handle, length, offset = offered(call)
    peer.write(handle, offset + length - 7, bytes(8))


def write_after_reply(peer, call):
    handle, _, offset = offered(call)
    peer.good_reply(call)
    peer.write(handle, offset, b"\xEE" * 8)


def read_what_may_be_written(peer, call):
    handle, _, offset = offered(call)
    peer.read(handle, offset, 8)


def of_the_call_before(act):
    """Keeps the STag of the first READ, and uses it in the second one, when it is invalid."""
    before = []

    def behave(peer, call):
        if before:
            return act(peer, before[0])
        before.append(offered(call))
        peer.write(before[0][0], before[0][2], CONTENTS[:4096])
        return peer.reply(call, words(call.xid) + accepted(words(0, 0, 4096, 0, 4096)), filled=4096)
    return on_read(behave)


def of_another_connection():
    """Uses the STag of an ended connection."""
    before = []

    def behave(peer, call):
        handle, _, offset = offered(call)
        if before:
            return peer.write(*before[0], bytes(8))
        before.append((handle, offset))
        return peer.reset()
    return on_read(behave)


def memory_cases():
    yield Case("(a good server)", "RFC 8166", CAT, {}, True)
    yield Case("(a good server, written to)", "RFC 8166", COPY, {}, True)
    for name, change in (("with no chunks", lambda chunks: []), ("with one chunk more", lambda chunks: chunks * 2),
                         ("with one segment more", lambda chunks: [chunks[0] * 2]), ("with no segments", lambda chunks: [[]]),
                         ("with another STag", lambda chunks: [[(handle ^ 1, size, at) for handle, size, at in chunks[0]]]),
                         ("with another offset", lambda chunks: [[(handle, size, at + 8) for handle, size, at in chunks[0]]]),
                         ("longer than offered", lambda chunks: [[(handle, 1 << 21, at) for handle, size, at in chunks[0]]]),
                         ("of 2^32-1 octets", lambda chunks: [[(handle, MAX32, at) for handle, size, at in chunks[0]]]),
                         ("shorter than its data", lambda chunks: [[(handle, size - 4, at) for handle, size, at in chunks[0]]]),
                         ("unused", lambda chunks: [[(handle, 0, at) for handle, size, at in chunks[0]]])):
        yield Case(f"a Write list {name}", "RFC 8166 §4.3.2", CAT, reply_with(change))
    yield Case("more data than asked for", "RFC 1813 §3.3.6", CAT, says(1 << 20, MAX32))
    yield Case("a length that is not the chunk's", "RFC 8166 §3.4.6", CAT, says(8192, 100))
    yield Case("a length of 2^32-1", "RFC 8166 §3.4.6", CAT, says(8192, MAX32))
    yield Case("no data and no end", "RFC 1813 §3.3.6", CAT, says(0, 0, eof=0))
    yield Case("RDMA_NOMSG", "RFC 8166 §4.3.3", CAT, on_read(lambda peer, call: peer.send(
        rpc.header(call.xid, RDMA_NOMSG, writes=rpc.write_list([offered(call)])))))
    yield Case("RDMA_MSG with a Reply chunk that is used", "RFC 8166 §4.3.3", CAT, on_read(lambda peer, call: peer.good_reply(
        call, reply=rpc.reply_chunk((1, 4)))))
    yield Case("ERR_CHUNK for ever", "RFC 8267 §3.1", CAT, on_read(lambda peer, call: peer.send(words(call.xid, 1, 1, RDMA_ERROR, 2))))
    yield Case("a Write before what was offered", "RFC 5041 §7.1", CAT, write_at(-1), terminate=BOUNDS)
    yield Case("a Write that ends behind it", "RFC 5041 §7.1", CAT, on_read(write_behind_end), terminate=BOUNDS)
    yield Case("a Write far behind it", "RFC 5041 §7.1", CAT, write_at(1 << 40), terminate=BOUNDS)
    yield Case("a Write that wraps", "RFC 5041 §7.1", CAT, on_read(
        lambda peer, call: peer.write(offered(call)[0], MAX64 - 3, bytes(8))), terminate=WRAP)
    yield Case("a Write to another STag", "RFC 5041 §7.1", CAT, on_read(
        lambda peer, call: peer.write(offered(call)[0] ^ 1, offered(call)[2], bytes(8))), terminate=STAG)
    yield Case("a Write after the reply", "RFC 8166 §4.4.1", CAT, on_read(write_after_reply), None)
    yield Case("a Write to the STag of a call that is over", "RFC 8166 §4.4.1", CAT,
               of_the_call_before(lambda peer, old: peer.write(old[0], old[2], bytes(8))), terminate=STAG)
    yield Case("a Read of the STag of a call that is over", "RFC 8166 §4.4.1", CAT,
               of_the_call_before(lambda peer, old: peer.read(old[0], old[2], 8)), terminate=SOURCE_STAG)
    yield Case("a Write to the STag of another connection", "RFC 5042 §6.2", CAT, of_another_connection(), terminate=STAG)
    yield Case("a Read of what may be written", "RFC 5040 §5.2", CAT, on_read(read_what_may_be_written), terminate=SOURCE_ACCESS)

    def on_write(act):
        def behave(peer, call):
            _, (handle, length, offset) = call.header.reads[0]
            act(peer, handle, length, offset)
        return {rpc.WRITE: behave}

    yield Case("a Write to what may be read", "RFC 5041 §7.1", COPY,
               on_write(lambda peer, handle, length, offset: peer.write(handle, offset, bytes(8))), terminate=STAG)
    yield Case("a Read that ends behind what was offered", "RFC 5040 §8.2", COPY,
               on_write(lambda peer, handle, length, offset: peer.read(handle, offset, length + 1)), terminate=SOURCE_BOUNDS)
    yield Case("a Read before what was offered", "RFC 5040 §8.2", COPY,
               on_write(lambda peer, handle, length, offset: peer.read(handle, offset - 1, 4)), terminate=SOURCE_BOUNDS)
    yield Case("a Read of 4 GiB", "RFC 5040 §8.2", COPY,
               on_write(lambda peer, handle, length, offset: peer.read(handle, offset, MAX32)), terminate=SOURCE_BOUNDS)
    yield Case("a Read that wraps", "RFC 5040 §8.2", COPY,
               on_write(lambda peer, handle, length, offset: peer.read(handle, MAX64 - 3, 8)), terminate=SOURCE_WRAP)

    def results(procedure, data):
        return {procedure: lambda peer, call: peer.reply(call, words(call.xid) + accepted(data))}

    yield Case("a WRITE of more than was sent", "RFC 1813 §3.3.7", COPY, results(rpc.WRITE, words(0, 0, 0, MAX32, 2) + bytes(8)))
    yield Case("a WRITE of nothing", "RFC 1813 §3.3.7", COPY, results(rpc.WRITE, words(0, 0, 0, 0, 2) + bytes(8)))
    yield Case("a handle of 65 octets", "RFC 1813 §2.3.3", CAT, results(rpc.LOOKUP, words(0, 65) + bytes(68) + words(0, 0)))
    yield Case("a handle of 2^32-1 octets", "RFC 1813 §2.3.3", CAT, results(rpc.LOOKUP, words(0, MAX32) + bytes(64)))
    yield Case("a file of an unknown type", "RFC 1813 §2.3.3", CAT, results(
        rpc.LOOKUP, words(0) + opaque(FILE) + words(1) + attributes(kind=99) + words(0)))
    yield Case("a status that there is not", "RFC 1813 §2.6", CAT, results(rpc.LOOKUP, words(424242, 0)))
    yield Case("FSINFO of nothing but zeros", "RFC 1813 §3.3.19", PING, results(rpc.FSINFO, bytes(52)), None)
    yield Case("FSINFO cut off", "RFC 1813 §3.3.19", PING, results(rpc.FSINFO, words(0, 0, 1)))
    page = words(0, 0) + bytes(8) + words(1) + rpc.hyper(2) + opaque(b"again") + rpc.hyper(77)
    yield Case("a folder that never ends", "RFC 1813 §3.3.17", LIST, results(rpc.READDIRPLUS, page + words(0, 0, 0, 0)))
    yield Case("a folder of nothing that never ends", "RFC 1813 §3.3.17", LIST, results(
        rpc.READDIRPLUS, words(0, 0) + bytes(8) + words(0, 0)))
    yield Case("a folder with a way out", "RFC 1813 §3.3.17", LIST, results(
        rpc.READDIRPLUS, words(0, 0) + bytes(8) + words(1) + rpc.hyper(2) + opaque(b"\x1b[2J../x\0") + rpc.hyper(77) + words(0, 0, 0, 1)), None)
