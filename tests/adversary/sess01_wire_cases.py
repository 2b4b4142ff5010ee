"""Hostile octets at the edge between TCP and RDMA mode of a session of 2004, padded calls (RDMA_MSGP), credits and empty Sends."""

import socket

import nfs4_messages as nfs4
import rpc_messages as rpc
import wire
from check import NotHere, demand, expect
from client import GETFH, RDMA, STEP_UP, Results, open_file, unchecked
from iwarp_cases import MAX32
from iwarp_peer import REPLY_KEY, fpdu, mpa_frame, untagged
from rdma_messages import RDMA_MSGP
from sess01_attack import ERR_CHUNK, PAD, Plain, bind_again
from tcp_peer import fragment

THRESHOLD = 512
GOOD = mpa_frame()


def stepping(place):
    """Returns a connection on which RDMA mode is granted, and no MPA Request has been sent."""
    if place.model != STEP_UP:
        raise NotHere("only where a connection steps up")
    plain = Plain(place)
    demand(plain.is_granted, "RDMA mode is not granted")
    return plain


# ---- after the grant, before MPA ----

def other_octets_after_the_grant_end_the_connection(place):
    octets = {"zeros": bytes(64), "ones": b"\xFF" * 64, "a request of HTTP": b"GET / HTTP/1.1\r\n\r\n" + bytes(20),
              "an RPC record": fragment(rpc.call()), "an FPDU": fpdu(untagged(payload=rpc.rdma_call(rpc.call()))),
              "an MPA Reply": mpa_frame(REPLY_KEY), "revision 0": mpa_frame(revision=0),
              "revision 3": mpa_frame(revision=3), "private data beyond the limit": mpa_frame(private_data=bytes(513)),
              "private data without end": GOOD[:18] + b"\xFF\xFF" + bytes(2000)}
    for i in range(16):
        octets[f"a key with a wrong octet {i}"] = GOOD[:i] + bytes([GOOD[i] ^ 0x20]) + GOOD[i + 1:]
    for what, sent in octets.items():
        plain = stepping(place)
        plain.endpoint.raw(sent)
        try:
            plain.check_ends()
        except Exception as why:
            raise AssertionError(f"{what} after the grant: {why!r}") from why
    bind_again(place, plain.client)


def silence_after_the_grant_ends_the_connection(place):
    """Nothing, and parts of a request: all of them end after the server's limit, and hold up nobody until then."""
    silent = []
    for size in (0, 1, 15, 16, 18, 19):
        plain = stepping(place)
        plain.endpoint.raw(GOOD[:size])
        silent.append(plain)
    bind_again(place, silent[0].client)
    for plain in silent:
        plain.check_ends()
        bind_again(place, plain.client)


def clients_may_go_after_the_grant(place):
    for size in (0, 7, 19):
        for reset in (True, False):
            plain = stepping(place)
            plain.endpoint.raw(GOOD[:size])
            if reset:
                plain.endpoint.reset()
            else:
                plain.endpoint.socket.shutdown(socket.SHUT_WR)
                plain.check_ends()
            bind_again(place, plain.client)


def clients_may_go_before_the_reply_of_mpa(place):
    for _ in range(10):
        plain = stepping(place)
        plain.endpoint.raw(GOOD)
        plain.endpoint.reset()
    bind_again(place, plain.client)


def request_comes_octet_by_octet(place):
    plain = stepping(place)
    for i in range(len(GOOD)):
        plain.endpoint.raw(GOOD[i:i + 1])
    plain.take_mpa_reply()
    plain.check_serves(place)


def request_comes_at_once_with_a_call(place):
    plain = stepping(place)
    message = plain.message(place.root)
    plain.endpoint.sent_msns[0] = 1
    plain.endpoint.raw(GOOD + fpdu(untagged(payload=rpc.rdma_call(message))))
    plain.take_mpa_reply()
    answer = plain.peer.reply_to(rpc.xid_of(message))
    demand(rpc.RpcReply(answer.body).status == ("success",), "the call right behind the MPA Request is not answered")
    plain.check_serves(place)


def second_request_ends_the_connection(place):
    plain = stepping(place).enter_rdma_mode()
    plain.endpoint.raw(GOOD + bytes(1 << 16))  # its key reads as the length of an FPDU
    plain.check_ends()
    bind_again(place, plain.client)


def records_in_rdma_mode_end_the_connection(place):
    plain = stepping(place).enter_rdma_mode()
    plain.check_serves(place)
    plain.endpoint.raw(fragment(plain.message(place.root)) + bytes(1 << 16))
    plain.check_ends()
    bind_again(place, plain.client)


# ---- padded calls ----

def on_rdma(place, **changes):
    """Returns a bound connection in RDMA mode, the file handle of a new file, and its stateid."""
    if place.model not in (STEP_UP, RDMA):
        raise NotHere("only over RDMA")
    plain = Plain(place, **changes).enter_rdma_mode()
    name = plain.client.name + b".f"
    plain.peer.send_call(plain.message([*place.root, open_file(b"owner", name, create=unchecked()), GETFH]))
    opened = expect(Results(plain.peer.take_reply()), wire.OK, "OPEN")
    return plain, nfs4.putfh(opened.value(nfs4.GETFH)), opened.value(nfs4.OPEN)["stateid"]


def padded(message, data_size, align=PAD, threshold=THRESHOLD, pad=None, lists=rpc.NO_CHUNKS):
    """Makes RDMA_MSGP with a WRITE whose data are the last item of the message."""
    chunks = rpc.words(align, threshold) + lists
    at = len(message) - data_size
    size = -(16 + len(chunks) + at) % PAD if pad is None else pad
    return rpc.header(rpc.xid_of(message), RDMA_MSGP, chunks=chunks) + message[:at] + bytes(size) + message[at:]


def write_of(plain, at, stateid, size):
    return plain.message([at, nfs4.write_op(stateid, 0, b"w" * size)], 1)


def terms_of_padding_are_checked(place):
    plain, at, stateid = on_rdma(place)
    demand(plain.limits["headerpadsize"] == PAD, f"a pad of {plain.limits['headerpadsize']}")
    for align, threshold in ((0, 512), (3, 512), (1 << 31, 512), (MAX32, 512), (PAD * 2, 512), (PAD // 2, 512), (PAD, 0), (PAD, 511),
                             (0, 0), (MAX32, MAX32), (1, 1)):
        message = write_of(plain, at, stateid, 1024)
        got = plain.answer(padded(message, 1024, align, threshold), rpc.xid_of(message))
        demand(got == ERR_CHUNK, f"alignment {align}, threshold {threshold}: {got}")
    message = write_of(plain, at, stateid, 1024)
    expect(plain.answer(padded(message, 1024), rpc.xid_of(message)), wire.OK, "a padded WRITE with the agreed terms")
    message = write_of(plain, at, stateid, 1024)
    expect(plain.answer(padded(message, 1024, threshold=MAX32, pad=0), rpc.xid_of(message)), wire.OK, "a threshold above all payloads")


def padding_needs_an_agreement(place):
    plain, at, stateid = on_rdma(place, headerpadsize=0)
    demand(plain.limits["headerpadsize"] == 0, "padding that was not asked for")
    for align in (0, 3, PAD, 1 << 31):
        message = write_of(plain, at, stateid, 1024)
        demand(plain.answer(padded(message, 1024, align), rpc.xid_of(message)) == ERR_CHUNK, f"RDMA_MSGP unasked, alignment {align}")
    plain.check_serves(place)


def padded_calls_of_strangers_are_refused(place):
    """RDMA_MSGP over a connection without any binding, of version 3."""
    if place.model != RDMA:
        raise NotHere("only on RDMA connections")
    stranger = rpc.Client(place.where.rdma)
    message = rpc.call()
    stranger.endpoint.send(padded(message, 0))
    demand(stranger.reply_to(rpc.xid_of(message)).body == rpc.words(2), "RDMA_MSGP over an unbound connection is not ERR_CHUNK")
    stranger.call()
    stranger.close()


def back_channels_have_no_padding(place):
    """A connection that only carries callbacks agrees on no padding, whatever its client asks for."""
    if place.model not in (STEP_UP, RDMA):
        raise NotHere("only over RDMA")
    plain = Plain(place, channel=wire.BACK).enter_rdma_mode()
    demand(plain.limits["headerpadsize"] == 0, "padding on a back channel")
    for align in (0, 3, PAD):
        message = rpc.call(0, b"", (100003, 4))
        got = plain.answer(padded(message, 0, align), rpc.xid_of(message))
        demand(got == ERR_CHUNK, f"RDMA_MSGP over a back channel, alignment {align}: {got}")
    plain.peer.call(0, program=(100003, 4))


def padded_calls_have_no_read_chunks(place):
    plain, at, stateid = on_rdma(place)
    message = write_of(plain, at, stateid, 1024)
    handle = plain.peer.offer(bytes(64))
    for position in (0, 100, len(message) - 1024, MAX32 - 3):
        lists = rpc.read_list((position, handle, 64)) + rpc.words(0, 0)
        got = plain.answer(padded(message, 1024, lists=lists), rpc.xid_of(message))
        demand(got == ERR_CHUNK, f"a padded call with a Read chunk at {position}: {got}")
    plain.check_serves(place)


def wrong_pads_are_bad_xdr(place):
    """Where the pad is missing, shorter or longer than it must be, or beyond the end, the call is malformed, or is another call."""
    plain, at, stateid = on_rdma(place)
    for cut in (1, 4, 1000, 1024):
        message = write_of(plain, at, stateid, 1024)
        octets = padded(message, 1024)
        results = plain.answer(octets[:-cut], rpc.xid_of(message))
        expect(results, wire.BADXDR, f"a padded call without its last {cut} octets")
    message = write_of(plain, at, stateid, 1024)
    octets = padded(message, 1024)
    expect(plain.answer(octets[:-1024 - 8], rpc.xid_of(message)), wire.BADXDR, "a call that ends within the pad")
    message = plain.message([at, nfs4.op(nfs4.WRITE, stateid, rpc.hyper(0), rpc.words(2, MAX32))], 1)
    expect(plain.answer(padded(message, 0, pad=0), rpc.xid_of(message)), wire.BADXDR, "a payload of 2^32 - 1 octets")
    message = plain.message([at, nfs4.op(nfs4.WRITE, stateid, rpc.hyper(0), rpc.words(2, 7900))], 1)
    expect(plain.answer(padded(message, 0, pad=100), rpc.xid_of(message)), wire.BADXDR, "a payload beyond the end")
    plain.check_serves(place)


def padded_headers_may_be_cut_off(place):
    plain, at, stateid = on_rdma(place)
    octets = padded(write_of(plain, at, stateid, 1024), 1024)
    for size in (4, 12, 16, 20, 23, 24, 28, 32, 35):
        plain.endpoint.send(octets[:size])  # gets an error, or no answer at all
        null = rpc.rdma_call(rpc.call(0, b"", (100003, 4)))
        plain.endpoint.send(null)
        while rpc.xid_of(answer := plain.endpoint.receive()) != rpc.xid_of(null):
            demand(answer[12:16] == rpc.words(4), f"{size} octets of a header are answered by something else than RDMA_ERROR")
    plain.check_serves(place)


def reads_are_limited(place):
    """maxrdmareads = 0: the client permits no RDMA Read, so a call with Read chunks is its mistake."""
    plain, at, stateid = on_rdma(place, maxrdmareads=0)
    message = write_of(plain, at, stateid, 1024)
    handle, position = plain.peer.offer(b"w" * 1024), len(message) - 1024
    call = rpc.rdma_call(message[:position], xid=rpc.xid_of(message), reads=rpc.read_list((position, handle, 1024)))
    demand(plain.answer(call, rpc.xid_of(message)) == ERR_CHUNK, "a Read chunk where RDMA Reads are not permitted")
    plain.check_serves(place)


# ---- credits ----

def overrun_credits_end_the_connection(place):
    """WRITEs whose data the attacker does not let the server read use up the credits; the server takes no more than it granted."""
    plain, at, stateid = on_rdma(place)
    plain.endpoint.answer_reads = False
    for i in range(100):
        message = plain.message([at, nfs4.write_op(stateid, 0, b"w" * 1024)], i % 8)
        handle, position = plain.peer.offer(b"w" * 1024), len(message) - 1024
        plain.endpoint.send(rpc.rdma_call(message[:position], xid=rpc.xid_of(message), reads=rpc.read_list((position, handle, 1024))))
    plain.check_ends()
    bind_again(place, plain.client)


def bursts_of_calls_are_answered_or_end(place):
    plain, _, _ = on_rdma(place)
    message = rpc.call(0, b"", (100003, 4))
    octets = b"".join(fpdu(untagged(msn=plain.endpoint.next_msn(0), payload=rpc.rdma_call(message))) for _ in range(2000))
    plain.endpoint.raw(octets)
    plain.endpoint.reset()
    bind_again(place, plain.client)


def floods_of_empty_sends_end_the_connection(place):
    plain, _, _ = on_rdma(place)
    for _ in range(200):
        plain.endpoint.send(b"")
    plain.check_ends()
    bind_again(place, plain.client)


def a_few_empty_sends_are_taken(place):
    """Below the limit, and between calls, they are a client's right."""
    plain, _, _ = on_rdma(place)
    for _ in range(50):
        plain.endpoint.send(b"")
        plain.check_serves(place)


def credits_do_not_go_below_one(place):
    """A client that gives up all credits still has one, so that it can speak."""
    plain, _, _ = on_rdma(place)
    for _ in range(3):
        for _ in range(plain.limits["maxrequests"] - 1):
            plain.endpoint.send(b"")
        plain.check_serves(place)


CASES = [other_octets_after_the_grant_end_the_connection, silence_after_the_grant_ends_the_connection, clients_may_go_after_the_grant,
         clients_may_go_before_the_reply_of_mpa, request_comes_octet_by_octet, request_comes_at_once_with_a_call,
         second_request_ends_the_connection, records_in_rdma_mode_end_the_connection, terms_of_padding_are_checked,
         padding_needs_an_agreement, padded_calls_of_strangers_are_refused, back_channels_have_no_padding,
         padded_calls_have_no_read_chunks, wrong_pads_are_bad_xdr,
         padded_headers_may_be_cut_off, reads_are_limited, overrun_credits_end_the_connection, bursts_of_calls_are_answered_or_end,
         floods_of_empty_sends_end_the_connection, a_few_empty_sends_are_taken, credits_do_not_go_below_one]
