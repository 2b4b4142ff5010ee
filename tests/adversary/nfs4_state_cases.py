"""Wrong use of sessions, stateids and locks of NFS version 4; chunks that fit no result; and unlimited numbers of
objects."""

import random

import nfs4_messages as nfs4
import rpc_messages as rpc
from attack import ERR_CHUNK, Case, Passed, is_alive
from iwarp_cases import MAX32, MAX64
from nfs4_cases import (FBIG, INVAL, ISDIR, NOENT, NOSPC, PERM, ROOT, Ends, file_of, in_session, new_session, numbers, send,
                        send_message)
from nfs4_messages import at, between, op
from rdma_messages import RDMA_MSG
from rpc_messages import RpcReply, hyper, opaque, reply_chunk, words, write_list


# ---- sessions ----

def sequence_with(**wrong):
    """A SEQUENCE with valid fields, except for the given ones."""
    def act(client):
        session = new_session(client)
        fields = {"session": session.session, "slot": 0, "sequence": 1, "highest": 0, **wrong}
        message = nfs4.compound([nfs4.sequence_op(**fields)], 2)
        client.send_call(message)
        return rpc.xid_of(message)
    return act


def guessed_sessions(client):
    """Changing any bit of a session ID never gives another client's session."""
    mine, other = new_session(client), new_session(client)
    for bit in range(128):
        forged = bytearray(mine.session)
        forged[bit // 8] ^= 1 << bit % 8
        if bytes(forged) == other.session:
            continue
        status = nfs4.run(client, [nfs4.sequence_op(bytes(forged), 0, 2)], 2).status
        assert status == nfs4.BADSESSION, f"bit {bit} changed: {status}"
        status = nfs4.run(client, [op(nfs4.DESTROY_SESSION, bytes(forged))], 2).status
        assert status == nfs4.BADSESSION, f"bit {bit} changed: DESTROY_SESSION gives {status}"


def false_retry(client):
    session = new_session(client)
    nfs4.transact(client, session.request([ROOT, op(nfs4.GETFH)]))
    session.sequences[0] -= 1
    message = session.request([ROOT, op(nfs4.GETATTR, nfs4.bitmap(1)), op(nfs4.GETFH)])
    client.send_call(message)
    return rpc.xid_of(message)


def channel_cases():
    def create(fore=None, back=None, sequence=None, identity=None, program=1, more=b""):
        def act(client):
            known = nfs4.run(client, [nfs4.exchange_id_op(b"channels %d" % next(numbers))], 2).value(nfs4.EXCHANGE_ID)
            operation = nfs4.create_session_op(known["client"] if identity is None else identity,
                                               known["sequence"] if sequence is None else sequence, 0, fore, back, program)
            message = nfs4.compound([operation[:-8] + more if more else operation], 2)
            client.send_call(message)
            return rpc.xid_of(message)
        return act

    small = Ends(nfs4.OK, INVAL, nfs4.TOOSMALL)
    for field, values in (("request", (0, 1, 100, MAX32)), ("response", (0, 1, 100, MAX32)), ("kept", (0, 1, MAX32)),
                          ("operations", (0, 1, MAX32)), ("requests", (0, 1, MAX32))):
        for value in values:
            yield Case(f"a session with {field} {value}", "RFC 8881 §18.36.3", create(nfs4.channel(**{field: value})), small)
            yield Case(f"a backchannel with {field} {value}", "RFC 8881 §18.36.3", create(back=nfs4.channel(**{field: value})), small)
    for identity in (0, 1, MAX64):
        yield Case(f"a session for client {identity:#x}", "RFC 8881 §18.36.3", create(identity=identity), Ends(nfs4.STALE_CLIENTID))
    for sequence in (0, 77, MAX32):
        yield Case(f"CREATE_SESSION number {sequence}", "RFC 8881 §18.36.4", create(sequence=sequence), Ends(nfs4.SEQ_MISORDERED))
    for count in (1 << 16, MAX32):
        yield Case(f"{count} kinds of security for callbacks", "RFC 4506 §4.13", create(more=words(count, 0)), Ends(nfs4.BADXDR))


def session_cases():
    for slot in (8, 64, 1 << 31, MAX32):
        yield Case(f"slot {slot}", "RFC 8881 §18.46.3", sequence_with(slot=slot, highest=slot), Ends(nfs4.BADSLOT))
    for highest in (8, 1 << 31, MAX32):
        yield Case(f"highest slot {highest}", "RFC 8881 §18.46.3", sequence_with(highest=highest), Ends(nfs4.BAD_HIGH_SLOT, nfs4.OK))
    for sequence in (0, 2, 3, 1 << 31, MAX32):
        yield Case(f"number {sequence} on a new slot", "RFC 8881 §2.10.6.1", sequence_with(sequence=sequence), Ends(nfs4.SEQ_MISORDERED))
    yield Case("sessions guessed", "RFC 8881 §2.10.3", guessed_sessions, Passed())
    yield Case("another request under an old number", "RFC 8881 §2.10.6.1.3.1", false_retry, Ends(nfs4.SEQ_FALSE_RETRY))
    yield Case("SEQUENCE twice", "RFC 8881 §18.46.3",
               in_session(lambda client, session: [nfs4.sequence_op(session.session, 1, 2)]), Ends(nfs4.SEQUENCE_POS))
    for minor in (1, 2):
        yield Case(f"no SEQUENCE, minor version {minor}", "RFC 8881 §2.10.6.2.1", send([ROOT], minor), Ends(nfs4.OP_NOT_IN_SESSION))
    for number, arguments in ((nfs4.EXCHANGE_ID, nfs4.exchange_id_op(b"x")[4:]), (nfs4.DESTROY_SESSION, bytes(16)),
                              (nfs4.BIND_CONN_TO_SESSION, bytes(16) + words(1, 0)), (nfs4.DESTROY_CLIENTID, hyper(1))):
        yield Case(f"operation {number} with another behind it", "RFC 8881 §18.35.3", send([op(number, arguments), ROOT], 2),
                   Ends(nfs4.NOT_ONLY_OP))
    yield Case("a connection for a session that there is not", "RFC 8881 §18.34.3",
               send([op(nfs4.BIND_CONN_TO_SESSION, b"\xff" * 16, words(1, 0))], 2), Ends(nfs4.BADSESSION))
    for direction in (0, 4, 5, MAX32):
        yield Case(f"a connection bound in direction {direction}", "RFC 4506 §4.3", send(
            lambda client, direction=direction: [op(nfs4.BIND_CONN_TO_SESSION, new_session(client).session, words(direction, 0))], 2),
            Ends(nfs4.BADXDR, INVAL))
    for identity in (0, 1, MAX64):
        yield Case(f"the end of client {identity:#x}", "RFC 8881 §18.50.3", send([op(nfs4.DESTROY_CLIENTID, hyper(identity))], 2),
                   Ends(nfs4.STALE_CLIENTID))
    yield Case("the end of a client with a session", "RFC 8881 §18.50.3", send(
        lambda client: [op(nfs4.DESTROY_CLIENTID, hyper(new_session(client).client))], 2), Ends(nfs4.CLIENTID_BUSY))
    for size, expect in ((1024, nfs4.OK), (1025, nfs4.BADXDR), (2000, nfs4.BADXDR)):
        yield Case(f"a client's name of {size} octets", "RFC 8881 §18.35", send([nfs4.exchange_id_op(b"n" * size)], 2), Ends(expect))
        yield Case(f"a client's name of {size} octets, 4.0", "RFC 7530 §16.33", send([nfs4.set_client_id_op(b"n" * size)]), Ends(expect))
    yield Case("flags that there are not", "RFC 8881 §18.35.3", send([nfs4.exchange_id_op(b"flags", flags=MAX32)], 2), Ends(INVAL))
    for how, more in ((1, words(0, 0)), (2, words(0, 0, 0, 0, 0, 0))):
        yield Case(f"state protection {how}", "RFC 8881 §18.35.3",
                   send([op(nfs4.EXCHANGE_ID, bytes(8) + opaque(b"protected") + words(0, how) + more + words(0))], 2),
                   Ends(INVAL, nfs4.NOTSUPP, nfs4.ENCR_ALG_UNSUPP, nfs4.HASH_ALG_UNSUPP, PERM))
    for count in (1 << 20, MAX32):
        yield Case(f"TEST_STATEID of {count}, which are not there", "RFC 4506 §4.13",
                   in_session([op(nfs4.TEST_STATEID, words(count) + bytes(32))]), Ends(nfs4.BADXDR))
    for identity in (0, 1, MAX64):
        yield Case(f"client {identity:#x} confirmed, 4.0", "RFC 7530 §16.34.5",
                   send([op(nfs4.SETCLIENTID_CONFIRM, hyper(identity) + bytes(8))]), Ends(nfs4.STALE_CLIENTID))
        yield Case(f"client {identity:#x} renewed, 4.0", "RFC 7530 §16.29.5", send([op(nfs4.RENEW, hyper(identity))]),
                   Ends(nfs4.STALE_CLIENTID))
        yield Case(f"OPEN for client {identity:#x}, 4.0", "RFC 7530 §16.16.5", send([ROOT, nfs4.open_op(identity, b"o", b"small")]),
                   Ends(nfs4.STALE_CLIENTID))


def size_cases():
    """RFC 8881 §2.10.6.4: the server refuses a request that is too large for the session, and does nothing."""
    def sized(given, keep=False, **limits):
        return in_session(given, keep=keep, fore=nfs4.channel(**limits))

    def read(client, session):
        return at(file_of(client, b"big"), op(nfs4.READ, bytes(16), hyper(0), words(8192)))

    def folder(client, session):
        return at(file_of(client, b"dir"), op(nfs4.READDIR, hyper(0) + bytes(8) + words(1 << 15, 1 << 16) + nfs4.bitmap(1, 4, 33)))

    def links(client, session):
        return at(file_of(client, b"link"), *[op(nfs4.READLINK)] * 30)

    def makes(client, session):
        return [ROOT, *[op(nfs4.GETFH)] * 28, nfs4.create_op(nfs4.NF4DIR, b"must not be made")]

    yield Case("READ that fits no reply", "RFC 8881 §2.10.6.4", sized(read, response=1000), Ends(nfs4.REP_TOO_BIG, nfs4.OK))
    yield Case("READDIR that fits no reply", "RFC 8881 §2.10.6.4", sized(folder, response=1000), Ends(nfs4.REP_TOO_BIG, nfs4.OK))
    yield Case("READDIR that is to be kept", "RFC 8881 §2.10.6.4", sized(folder, True, kept=1000), Ends(nfs4.REP_TOO_BIG_TO_CACHE, nfs4.OK))
    yield Case("thirty READLINKs that fit no reply", "RFC 8881 §2.10.6.4", sized(links, response=500), Ends(nfs4.REP_TOO_BIG))
    yield Case("thirty READLINKs that are to be kept", "RFC 8881 §2.10.6.4", sized(links, True, kept=500), Ends(nfs4.REP_TOO_BIG_TO_CACHE))
    yield Case("CREATE whose result would not fit", "RFC 8881 §2.10.6.4", sized(makes, response=700), NotMade(nfs4.REP_TOO_BIG))
    yield Case("CREATE whose result could not be kept", "RFC 8881 §2.10.6.4", sized(makes, True, kept=700), NotMade(nfs4.REP_TOO_BIG_TO_CACHE))
    yield Case("a request that is too large", "RFC 8881 §2.10.6.4",
               sized(lambda client, session: [ROOT, op(nfs4.LOOKUP, opaque(b"n" * 2000))], request=1000), Ends(nfs4.REQ_TOO_BIG))
    yield Case("more operations than agreed", "RFC 8881 §18.46.3", sized([ROOT] * 5, operations=4), Ends(nfs4.TOO_MANY_OPS))


class NotMade(Ends):
    def check(self, client, xid):
        super().check(client, xid)
        status = nfs4.run(client, [ROOT, op(nfs4.LOOKUP, opaque(b"must not be made"))]).status
        assert status == NOENT, f"LOOKUP of an object that must not exist gives {status}"


# ---- stateids and locks ----

def fresh_name():
    """Returns one of the folder's empty files: locks stay as long as their clients are known."""
    return b"%060d" % (next(numbers) % 200)


def opened(client, session, name=None, owner=b"owner"):
    return nfs4.Owner(session, owner).open(client, nfs4.look_up(client, b"dir"), name or fresh_name())


UNDER_STATEID = (("READ", lambda stateid: op(nfs4.READ, stateid, hyper(0), words(4))),
                 ("WRITE", lambda stateid: nfs4.write_op(stateid, 0, b"0123")),
                 ("SETATTR", lambda stateid: op(nfs4.SETATTR, stateid, nfs4.fattr(size=10))),
                 ("CLOSE", nfs4.close_op), ("OPEN_DOWNGRADE", lambda stateid: nfs4.downgrade_op(stateid, 1)),
                 ("LOCK", lambda stateid: nfs4.lock_op(0, b"l", stateid, 0, 1)),
                 ("LOCKU", lambda stateid: nfs4.locku_op(stateid, 0, 1)),
                 ("DELEGRETURN", lambda stateid: op(nfs4.DELEGRETURN, stateid)),
                 ("ALLOCATE", lambda stateid: op(nfs4.ALLOCATE, stateid, hyper(0), hyper(10))),
                 ("DEALLOCATE", lambda stateid: op(nfs4.DEALLOCATE, stateid, hyper(0), hyper(0))),
                 ("SEEK", lambda stateid: op(nfs4.SEEK, stateid, hyper(0), words(0))),
                 ("OFFLOAD_CANCEL", lambda stateid: op(nfs4.OFFLOAD_CANCEL, stateid)))
NO_STATE = (nfs4.BAD_STATEID, nfs4.STALE_STATEID, nfs4.OLD_STATEID, nfs4.EXPIRED, nfs4.NOTSUPP, INVAL)


def guessed_stateids(client):
    """Changing any bit of a stateid never gives another client's stateid, and no other client can use the stateid
    itself."""
    mine, thief = new_session(client), new_session(client)
    handle, stateid = opened(client, mine)
    for bit in range(128):
        forged = bytearray(stateid)
        forged[bit // 8] ^= 1 << bit % 8
        for name, under in UNDER_STATEID:
            if bytes(forged[:4]) == bytes(4):
                continue  # the current stateid, with any number: RFC 8881 §8.2.2
            status = mine.run(client, at(handle, under(bytes(forged)))).status
            assert status in NO_STATE, f"{name} with bit {bit} changed: {status}"
    for name, under in UNDER_STATEID:
        status = thief.run(client, at(handle, under(stateid))).status
        assert status in NO_STATE, f"{name} with another client's stateid: {status}"
    for name, under in UNDER_STATEID:
        status = mine.run(client, at(nfs4.look_up(client, b"empty"), under(stateid))).status
        assert status in NO_STATE, f"{name} of another file: {status}"
    random_stateids = random.Random(4)
    for _ in range(200):
        for name, under in UNDER_STATEID:
            status = thief.run(client, at(handle, under(random_stateids.randbytes(16)))).status
            assert status in NO_STATE, f"{name} with a guessed stateid: {status}"
    assert mine.run(client, at(handle, op(nfs4.READ, stateid, hyper(0), words(4)))).status == nfs4.OK, "the stateid is gone"


def locks_of_others(client):
    """An owner belongs to its client: the same name from another client is another owner."""
    mine, thief = new_session(client), new_session(client)
    name = fresh_name()
    handle, stateid = opened(client, mine, name)
    _, other = opened(client, thief, name)
    mine.run(client, at(handle, nfs4.lock_op(mine.client, b"lock", stateid, 0, 10))).value(nfs4.LOCK)
    for speaker in (mine.client, thief.client):  # RFC 8881 §18.10.3: the session identifies the client
        status = thief.run(client, at(handle, nfs4.lock_op(speaker, b"lock", other, 5, 1))).status
        assert status == nfs4.DENIED, f"LOCK as client {speaker:#x}: {status}"


def lock_cases():
    def lock(offset, length, kind=nfs4.WRITE_LT, test=False):
        def operations(client, session):
            if test:
                return at(nfs4.look_up(client, b"dir", fresh_name()), nfs4.lockt_op(session.client, b"l", offset, length, kind))
            handle, stateid = opened(client, session)
            return at(handle, nfs4.lock_op(session.client, b"l", stateid, offset, length, kind))
        return in_session(operations)

    for offset, length, status in ((0, 0, INVAL), (MAX64, 0, INVAL), (MAX64, 2, INVAL), (MAX64 - 1, 3, INVAL), (1 << 63, 1 << 63, INVAL),
                                   ((1 << 63) + 1, 1 << 63, INVAL), (1, MAX64 - 1, nfs4.OK), (2, MAX64 - 1, INVAL), (0, MAX64, nfs4.OK),
                                   (MAX64, MAX64, nfs4.OK), (MAX64, 1, INVAL), (MAX64 - 1, 1, nfs4.OK)):
        for test in (False, True):
            yield Case(f"LOCK{'T' * test} of {length:#x} from {offset:#x}", "RFC 8881 §18.10.3", lock(offset, length, test=test),
                       Ends(status, nfs4.BAD_RANGE) if status == nfs4.OK else Ends(status))
    for kind in (0, 5, MAX32):
        for test in (False, True):
            yield Case(f"LOCK{'T' * test} of type {kind}", "RFC 4506 §4.3", lock(0, 1, kind, test), Ends(nfs4.BADXDR, INVAL))
    yield Case("stateids guessed", "RFC 8881 §8.2", guessed_stateids, Passed())
    yield Case("locks of others", "RFC 8881 §9.1", locks_of_others, Passed())
    for size, expect in ((1024, (nfs4.OK,)), (1025, (nfs4.BADXDR,))):
        yield Case(f"an open-owner of {size} octets", "RFC 8881 §3.3.10", in_session(lambda client, session, size=size: [
            ROOT, nfs4.open_op(session.client, b"o" * size, b"small")]), Ends(*expect))
    for access, deny in ((0, 0), (4, 0), (1, 4), (3, MAX32), (MAX32, 0)):
        yield Case(f"OPEN with access {access:#x}, denying {deny:#x}", "RFC 8881 §18.16.3", in_session(
            lambda client, session, access=access, deny=deny: [ROOT, nfs4.open_op(session.client, b"o", b"small", access, deny)]),
            Ends(INVAL, nfs4.BADXDR))
    for how in (words(4), words(MAX32), words(nfs4.EXCLUSIVE)):
        yield Case(f"OPEN that creates in a way cut off or not there: {how.hex()}", "RFC 4506 §4.3", in_session(
            lambda client, session, how=how: [ROOT, nfs4.open_op(session.client, b"o", b"new", create=how)[:-8]]), Ends(nfs4.BADXDR))
    head = words(0, nfs4.BOTH, 0)
    for claim, expect in ((words(1, 1), (nfs4.NO_GRACE, nfs4.RECLAIM_BAD)), (words(2) + b"\xff" * 16 + opaque(b"small"), NO_STATE + (nfs4.NO_GRACE,)),
                          (words(3) + opaque(b"small"), (nfs4.NO_GRACE, nfs4.RECLAIM_BAD, nfs4.NOTSUPP)), (words(5) + b"\xff" * 16, NO_STATE),
                          (words(7), (nfs4.BADXDR, INVAL)), (words(MAX32), (nfs4.BADXDR, INVAL))):
        yield Case(f"OPEN by claim {claim[:4].hex()}", "RFC 8881 §18.16.3", in_session(
            lambda client, session, claim=claim: at(file_of(client) if claim[3] in (1, 5) else nfs4.look_up(client), op(
                nfs4.OPEN, head, hyper(session.client), opaque(b"o"), words(0), claim))), Ends(*expect))
    for offset, count in ((MAX64, 1), (1 << 63, 1), ((1 << 63) - 1, MAX32)):
        yield Case(f"READ of {count} at {offset:#x}", "RFC 8881 §18.22.3", in_session(
            lambda client, session, offset=offset, count=count: at(file_of(client), op(nfs4.READ, bytes(16), hyper(offset), words(count)))),
            Ends(nfs4.OK, INVAL, FBIG))
        yield Case(f"WRITE at {offset:#x}", "RFC 8881 §18.32.3", in_session(
            lambda client, session, offset=offset: at(file_of(client), nfs4.write_op(bytes(16), offset, b"data"))), Ends(INVAL, FBIG))
    for number, more in ((nfs4.ALLOCATE, b""), (nfs4.DEALLOCATE, b"")):
        for offset, length in ((MAX64, 1), (1, MAX64), (1 << 63, 1 << 63), (0, MAX64)):
            yield Case(f"operation {number} of {length:#x} at {offset:#x}", "RFC 7862 §15.1.3", in_session(
                lambda client, session, number=number, offset=offset, length=length: at(
                    opened(client, session)[0], op(number, bytes(16), hyper(offset), hyper(length)))),
                Ends(nfs4.OK, INVAL, FBIG, NOSPC, nfs4.NOTSUPP))
    for source, target, count in ((MAX64, 0, 1), (0, MAX64, 1), (0, 0, MAX64), (1 << 63, 1 << 63, 1 << 63)):
        for number in (nfs4.COPY, nfs4.CLONE):
            yield Case(f"operation {number} of {count:#x} from {source:#x} to {target:#x}", "RFC 7862 §15.2.3", in_session(
                lambda client, session, number=number, source=source, target=target, count=count: between(
                    file_of(client, b"big"), file_of(client), op(number, bytes(32), hyper(source), hyper(target), hyper(count),
                                                                 words(1, 1, 0) if number == nfs4.COPY else b""))),
                Ends(nfs4.OK, INVAL, FBIG, NOSPC, nfs4.NOTSUPP))


# ---- chunks (RFC 8267 §6.4) ----

def chunks(operations_of, writes, reply=None):
    def act(client):
        session = new_session(client)
        message = session.request(operations_of(client), keep=False)
        fields = {"writes": write_list(*[[(client.offer(bytes(size)), size) for size in chunk] for chunk in writes])}
        if reply:
            fields["reply"] = reply_chunk((client.offer(bytes(reply)), reply))
        return send_message(client, message, **fields)
    return act


class Placed:
    """Expects success, with so many octets in each Write chunk."""

    def __init__(self, *lengths):
        self.lengths = lengths

    def check(self, client, xid):
        answer = client.reply_to(xid)
        assert answer.kind == RDMA_MSG and RpcReply(answer.body).results[:4] == words(0), "it failed"
        got = tuple(answer.length_of(chunk) for chunk in answer.writes)
        assert got == self.lengths, f"expected {self.lengths} octets in the chunks, got {got}"
        is_alive(client)


def chunk_cases():
    def reads(*sizes):
        return lambda client: at(file_of(client, b"big"), *(op(nfs4.READ, bytes(16), hyper(0), words(size)) for size in sizes))

    yield Case("a chunk for each of two READs", "RFC 8267 §6.4.1", chunks(reads(1000, 2000), [[1000], [2000]]), Placed(1000, 2000))
    yield Case("three chunks for one READ", "RFC 8267 §6.4.1", chunks(reads(1000), [[1000], [10], [20]]), Placed(1000, 0, 0))
    yield Case("chunks for no READ", "RFC 8267 §6.4.1", chunks(lambda client: [ROOT], [[1000], [1000]]), Placed(0, 0))
    yield Case("a chunk for the second of two READs", "RFC 8267 §6.4.1", chunks(reads(100, 2000), [[], [2000]]), Placed(0, 2000))
    yield Case("one chunk for two READs", "RFC 8267 §6.4.1", chunks(reads(2000, 100), [[2000]]), Placed(2000))
    yield Case("a READLINK between two READs", "RFC 8267 §6.4.1",
               chunks(lambda client: [*reads(500)(client), *at(file_of(client, b"link"), op(nfs4.READLINK)), *reads(700)(client)],
                      [[500], [100], [700]]), Placed(500, 5, 700))
    for sizes in ([[0]], [[1]], [[8191]], [[4096, 4095]]):
        yield Case(f"Write chunk of {sizes} for 8192 octets", "RFC 8267 §6.4.2", chunks(reads(8192), sizes), ERR_CHUNK)
    yield Case("no room for the second READ", "RFC 8267 §6.4.2", chunks(reads(4000, 8192), [[4000]]), ERR_CHUNK)
    yield Case("thirty-two chunks for a failure", "RFC 8267 §6.4.2",
               chunks(lambda client: at(nfs4.look_up(client, b"dir"), op(nfs4.READ, bytes(16), hyper(0), words(9))), [[9]] * 32),
               FailedUnused())
    yield Case("thirty-three chunks", "RFC 8267 §6.4.2", chunks(reads(10), [[10]] * 33), ERR_CHUNK)


class FailedUnused:
    def check(self, client, xid):
        answer = client.reply_to(xid)
        assert RpcReply(answer.body).results[:4] == words(ISDIR), "READ of a directory"
        assert all(answer.length_of(chunk) == 0 for chunk in answer.writes)
        is_alive(client)


# ---- numbers ----

def unconfirmed_clients(client):
    """An unlimited number of unconfirmed client names: the oldest ones make room."""
    for i in range(3000):
        nfs4.run(client, [nfs4.exchange_id_op(b"never seen again %d" % i)], 2).value(nfs4.EXCHANGE_ID)
        nfs4.run(client, [nfs4.set_client_id_op(b"never seen again %d" % i)]).value(nfs4.SETCLIENTID)


def sessions_of_one(client):
    """A client gets sessions up to the limit, and more only after one is destroyed."""
    name = b"many sessions"
    known = nfs4.run(client, [nfs4.exchange_id_op(name)], 2).value(nfs4.EXCHANGE_ID)
    sessions, status, sequence = [], nfs4.OK, known["sequence"]
    while status == nfs4.OK:
        made = nfs4.run(client, [nfs4.create_session_op(known["client"], sequence)], 2)
        status, sequence = made.status, sequence + 1
        if status == nfs4.OK:
            sessions.append(made.value(nfs4.CREATE_SESSION)["session"])
        assert len(sessions) <= MAX_SESSIONS, "sessions without an end"
    assert status == NOSPC and len(sessions) == MAX_SESSIONS, f"after {len(sessions)} sessions: {status}"
    assert nfs4.run(client, [op(nfs4.DESTROY_SESSION, sessions[0])], 2).status == nfs4.OK
    assert nfs4.run(client, [nfs4.create_session_op(known["client"], sequence)], 2).status == nfs4.OK


def clients_with_sessions(client):
    for _ in range(300):
        new_session(client)


def until_refused(client, session, operations, most):
    """Repeats COMPOUNDs of thirty operations, each made by `operations`, until one fails. Returns (successes, status)."""
    for done in range(0, most, 28):
        results = session.run(client, operations(done))
        if results.status != nfs4.OK:
            return done, results.status
    return most, nfs4.OK


def opens_without_end(client):
    session, folder = new_session(client), nfs4.look_up(client)
    count, status = until_refused(client, session, lambda done: [
        each for i in range(14) for each in (nfs4.putfh(folder), nfs4.open_op(
            session.client, b"owner %d" % (done + i), b"big", nfs4.READ_ACCESS | nfs4.NO_DELEGATION))], 20_000)
    assert status == nfs4.OK, f"after {count} opens: {status}"


def locks_without_end(client):
    session = new_session(client)
    handle, stateid = opened(client, session)
    lock = session.run(client, at(handle, nfs4.lock_op(session.client, b"l", stateid, 0, 1))).value(nfs4.LOCK)
    lock = bytes(4) + lock[4:]  # the current stateid, with any number
    count, status = until_refused(client, session, lambda done: at(handle, *(
        nfs4.lock_op(session.client, b"l", lock, 2 * (done + i), 1, new=False) for i in range(28))), MAX_RANGES + 1000)
    assert status == nfs4.DELAY and count > MAX_RANGES // 2, f"after {count} locks: {status}"
    # The client can still release its locks.
    assert session.run(client, at(handle, nfs4.locku_op(lock, 0, MAX64))).status == nfs4.OK


MAX_SESSIONS = 16  # nfs::v4::Settings
MAX_RANGES = 1 << 16  # nfs::v4::Files::Limits


def number_cases():
    yield Case("three thousand clients, unconfirmed", "RFC 8881 §18.35.4", unconfirmed_clients, Passed())
    yield Case("sessions of one client", "RFC 8881 §18.36.3", sessions_of_one, Passed())
    yield Case("three hundred clients with sessions", "RFC 8881 §18.36.3", clients_with_sessions, Passed())
    yield Case("opens without an end", "RFC 8881 §18.16.3", opens_without_end, Passed())
    yield Case("locks without an end", "RFC 8881 §18.10.3", locks_without_end, Passed())


def cases():
    yield from session_cases()
    yield from channel_cases()
    yield from size_cases()
    yield from lock_cases()
    yield from chunk_cases()
