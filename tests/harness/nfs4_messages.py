"""COMPOUNDs of NFS version 4 (RFC 7530, RFC 8881, RFC 7862), valid and invalid. Operations are octets; results are
parsed as far as tests need them."""

import struct

import rpc_messages as rpc
from patience import SECONDS
from rdma_messages import Words
from rpc_messages import hyper, opaque, take_opaque, words

NFS4 = (100003, 4)
COMPOUND = 1
(ACCESS, CLOSE, COMMIT, CREATE, DELEGPURGE, DELEGRETURN, GETATTR, GETFH, LINK, LOCK, LOCKT, LOCKU, LOOKUP, LOOKUPP, NVERIFY, OPEN,
 OPENATTR, OPEN_CONFIRM, OPEN_DOWNGRADE, PUTFH, PUTPUBFH, PUTROOTFH, READ, READDIR, READLINK, REMOVE, RENAME, RENEW, RESTOREFH,
 SAVEFH, SECINFO, SETATTR, SETCLIENTID, SETCLIENTID_CONFIRM, VERIFY, WRITE, RELEASE_LOCKOWNER, BACKCHANNEL_CTL,
 BIND_CONN_TO_SESSION, EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION, FREE_STATEID, GET_DIR_DELEGATION, GETDEVICEINFO,
 GETDEVICELIST, LAYOUTCOMMIT, LAYOUTGET, LAYOUTRETURN, SECINFO_NO_NAME, SEQUENCE, SET_SSV, TEST_STATEID, WANT_DELEGATION,
 DESTROY_CLIENTID, RECLAIM_COMPLETE, ALLOCATE, COPY, COPY_NOTIFY, DEALLOCATE, IO_ADVISE, LAYOUTERROR, LAYOUTSTATS,
 OFFLOAD_CANCEL, OFFLOAD_STATUS, READ_PLUS, SEEK, WRITE_SAME, CLONE, GETXATTR, SETXATTR, LISTXATTRS,
 REMOVEXATTR) = range(3, 76)
ILLEGAL = 10044

OK = 0
(BADHANDLE, BADTYPE, DELAY, SAME, DENIED, EXPIRED, LOCKED, GRACE, FHEXPIRED, SHARE_DENIED, WRONGSEC, CLID_INUSE, RESOURCE, MOVED,
 NOFILEHANDLE, MINOR_VERS_MISMATCH, STALE_CLIENTID, STALE_STATEID, OLD_STATEID, BAD_STATEID, BAD_SEQID, NOT_SAME, LOCK_RANGE,
 SYMLINK_STATUS, RESTOREFH_STATUS, LEASE_MOVED, ATTRNOTSUPP, NO_GRACE, RECLAIM_BAD, RECLAIM_CONFLICT, BADXDR, LOCKS_HELD,
 OPENMODE, BADOWNER, BADCHAR, BADNAME, BAD_RANGE, LOCK_NOTSUPP, OP_ILLEGAL, DEADLOCK, FILE_OPEN, ADMIN_REVOKED, CB_PATH_DOWN,
 BADIOMODE, BADLAYOUT, BAD_SESSION_DIGEST, BADSESSION, BADSLOT, COMPLETE_ALREADY, CONN_NOT_BOUND_TO_SESSION,
 DELEG_ALREADY_WANTED, BACK_CHAN_BUSY, LAYOUTTRYLATER, LAYOUTUNAVAILABLE, NOMATCHING_LAYOUT, RECALLCONFLICT,
 UNKNOWN_LAYOUTTYPE, SEQ_MISORDERED, SEQUENCE_POS, REQ_TOO_BIG, REP_TOO_BIG, REP_TOO_BIG_TO_CACHE, RETRY_UNCACHED_REP,
 UNSAFE_COMPOUND, TOO_MANY_OPS, OP_NOT_IN_SESSION, HASH_ALG_UNSUPP, _, CLIENTID_BUSY, PNFS_IO_HOLE, SEQ_FALSE_RETRY,
 BAD_HIGH_SLOT, DEADSESSION, ENCR_ALG_UNSUPP, PNFS_NO_LAYOUT, NOT_ONLY_OP, WRONG_CRED, WRONG_TYPE, DIRDELEG_UNAVAIL,
 REJECT_DELEG, RETURNCONFLICT, DELEG_REVOKED) = (10001, *range(10007, 10088))
NOTSUPP, TOOSMALL, SERVERFAULT = 10004, 10005, 10006

READ_ACCESS, WRITE_ACCESS, BOTH = 1, 2, 3
READ_LT, WRITE_LT = 1, 2
NF4DIR, NF4BLK, NF4CHR, NF4LNK, NF4SOCK, NF4FIFO = range(2, 8)
UNCHECKED, GUARDED, EXCLUSIVE, EXCLUSIVE_1 = range(4)
# Attributes, by their numbers
SIZE, MODE = 4, 33
ANONYMOUS = bytes(16)
PERSIST, CONN_BACK_CHAN = 1, 2
READ_DELEGATION = 0x0100  # OPEN4_SHARE_ACCESS_WANT_READ_DELEG
WRITE_DELEGATION = 0x0200  # OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG
NO_DELEGATION = 0x0400  # OPEN4_SHARE_ACCESS_WANT_NO_DELEG, from minor version 1 on


def bitmap(*numbers):
    array = [0] * (max(numbers, default=-1) // 32 + 1)
    for number in numbers:
        array[number // 32] |= 1 << number % 32
    return words(len(array), *array)


def fattr(**values):
    """Makes an fattr4 from size= and mode=."""
    made = ((SIZE, hyper(values["size"])) if "size" in values else None, (MODE, words(values["mode"])) if "mode" in values else None)
    there = [each for each in made if each]
    return bitmap(*(number for number, _ in there)) + opaque(b"".join(value for _, value in there))


# ---- operations ----

def op(number, *arguments):
    return words(number) + b"".join(arguments)


def putfh(handle):
    return op(PUTFH, opaque(handle))


def at(handle, *operations):
    """Operations on the object of `handle`."""
    return [putfh(handle), *operations]


def between(saved, current, *operations):
    return [putfh(saved), op(SAVEFH), putfh(current), *operations]


def open_op(client, owner, name, access=BOTH, deny=0, seqid=0, create=b"", by_handle=False):
    """`create` is a createhow4 with its mode if the file is to be made."""
    claim = words(4) if by_handle else words(0) + opaque(name)  # CLAIM_FH, CLAIM_NULL
    how = words(1) + create if create else words(0)
    return op(OPEN, words(seqid, access, deny), hyper(client), opaque(owner), how, claim)


def lock_op(client, owner, stateid, offset, length, kind=WRITE_LT, seqid=0, lock_seqid=0, new=True):
    locker = words(1, seqid) + stateid + words(lock_seqid) + hyper(client) + opaque(owner) if new else words(0) + stateid + words(lock_seqid)
    return op(LOCK, words(kind, 0), hyper(offset), hyper(length), locker)


def locku_op(stateid, offset, length, seqid=0):
    return op(LOCKU, words(WRITE_LT, seqid), stateid, hyper(offset), hyper(length))


def lockt_op(client, owner, offset, length, kind=WRITE_LT):
    return op(LOCKT, words(kind), hyper(offset), hyper(length), hyper(client), opaque(owner))


def close_op(stateid, seqid=0):
    return op(CLOSE, words(seqid), stateid)


def downgrade_op(stateid, access, seqid=0):
    return op(OPEN_DOWNGRADE, stateid, words(seqid, access, 0))


def create_op(kind, name, more=b"", attributes=None):
    return op(CREATE, words(kind), more, opaque(name), fattr(mode=0o755) if attributes is None else attributes)


def write_op(stateid, offset, data, stable=2):
    return op(WRITE, stateid, hyper(offset), words(stable), opaque(data))


def copy_op(source, target, count, number=COPY, servers=(), synchronous=True):
    """`servers` are the locations that COPY_NOTIFY has given."""
    rest = words(1, int(synchronous), len(servers)) + b"".join(servers) if number == COPY else b""
    return op(number, source, target, hyper(0), hyper(0), hyper(count), rest)


def location(port, address="127.0.0.1", netid=b"tcp"):
    """A netloc4 with an address (RFC 7862 §4.7)."""
    return words(3) + opaque(netid) + opaque(f"{address}.{port >> 8}.{port & 255}".encode())


def copy_notify_op(stateid, destination):
    return op(COPY_NOTIFY, stateid, destination)


def sequence_op(session, slot, sequence, keep=True, highest=0):
    return op(SEQUENCE, session, words(sequence, slot, highest, keep))


def exchange_id_op(owner, verifier=bytes(8), flags=0):
    return op(EXCHANGE_ID, verifier, opaque(owner), words(flags, 0, 0))


def channel(request=1 << 18, response=1 << 18, kept=8192, operations=32, requests=8):
    return words(0, request, response, kept, operations, requests, 0)


def create_session_op(client, sequence, flags=0, fore=None, back=None, program=0x40000000):
    return op(CREATE_SESSION, hyper(client), words(sequence, flags), fore or channel(), back or channel(requests=2), words(program, 1, 0))


def set_client_id_op(name, verifier=bytes(8)):
    return op(SETCLIENTID, verifier, opaque(name), words(0x40000000), opaque(b"tcp"), opaque(b"127.0.0.1.0.0"), words(0))


def compound(operations, minor=0, tag=b"", count=None, xid=None):
    """Makes a COMPOUND as a complete call."""
    body = opaque(tag) + words(minor, len(operations) if count is None else count) + b"".join(operations)
    return rpc.call(COMPOUND, body, NFS4, xid)


# ---- results ----

def _change_info(reader):
    reader.at += 20


def _bitmap(reader):
    return [reader.word() for _ in range(reader.word())]


def _stateid(reader):
    data = reader.data[reader.at:reader.at + 16]
    reader.at += 16
    return data


def _hyper(reader):
    return reader.word() << 32 | reader.word()


def _ace(reader):
    reader.at += 12
    take_opaque(reader)


def _open(reader):
    stateid = _stateid(reader)
    _change_info(reader)
    flags = reader.word()
    _bitmap(reader)
    delegation = reader.word()
    held = None
    if delegation in (1, 2):
        held = _stateid(reader)
        reader.word()
        if delegation == 2:
            reader.at += 12
        _ace(reader)
    elif delegation == 3 and reader.word() in (1, 2):
        reader.word()
    return {"stateid": stateid, "flags": flags, "delegation": held}


def _exchange_id(reader):
    client, sequence, flags = _hyper(reader), reader.word(), reader.word()
    assert reader.word() == 0, "state protection that was not requested"
    _hyper(reader), take_opaque(reader), take_opaque(reader)
    for _ in range(reader.word()):
        take_opaque(reader), take_opaque(reader)
        reader.at += 12
    return {"client": client, "sequence": sequence, "flags": flags}


def _channel(reader):
    values = [reader.word() for _ in range(6)]
    for _ in range(reader.word()):
        reader.word()
    return dict(zip(("pad", "request", "response", "kept", "operations", "requests"), values))


def _create_session(reader):
    session = _stateid(reader)
    return {"session": session, "sequence": reader.word(), "flags": reader.word(), "fore": _channel(reader), "back": _channel(reader)}


def _create(reader):
    _change_info(reader)
    return _bitmap(reader)


def _copy(reader):
    """Returns the stateid of the copy if it goes on, otherwise the number of octets."""
    stateids = [_stateid(reader) for _ in range(reader.word())]
    count = _hyper(reader)
    reader.at += 20
    return stateids[0] if stateids else count


def _copy_notify(reader):
    """Returns the stateid, and the locations as they are sent."""
    reader.at += 12
    stateid, locations = _stateid(reader), []
    for _ in range(reader.word()):
        begin = reader.at
        assert reader.word() == 3, "no address"
        take_opaque(reader), take_opaque(reader)
        locations.append(reader.data[begin:reader.at])
    return stateid, locations


def _attributes(reader):
    return _bitmap(reader), take_opaque(reader)


def _skip(octets):
    def skip(reader):
        reader.at += octets
    return skip


_RESULTS = {ACCESS: _skip(8), CLOSE: _stateid, COMMIT: _skip(8), CREATE: _create, GETATTR: _attributes, GETFH: take_opaque, LINK: _change_info,
            LOCK: _stateid, LOCKU: _stateid, OPEN: _open, OPEN_CONFIRM: _stateid, OPEN_DOWNGRADE: _stateid,
            READ: lambda reader: (reader.word(), take_opaque(reader)), REMOVE: _change_info, RENAME: _skip(40),
            SETCLIENTID: lambda reader: (_hyper(reader), reader.data[reader.at:reader.at + 8], _skip(8)(reader)),
            WRITE: _skip(16), EXCHANGE_ID: _exchange_id, CREATE_SESSION: _create_session, SEQUENCE: _skip(36),
            BIND_CONN_TO_SESSION: _skip(24), COPY: _copy, COPY_NOTIFY: _copy_notify, SETXATTR: _change_info, REMOVEXATTR: _change_info,
            TEST_STATEID: lambda reader: [reader.word() for _ in range(reader.word())], READLINK: take_opaque}


class Results:
    """The results of a COMPOUND: `status` of the whole, `operations` and `statuses` one by one, `values` of the
    successful ones. `decoders` are functions of a reader for the results of further operations."""

    def __init__(self, reply, decoders=None):
        answer = rpc.RpcReply(reply)
        assert answer.status == ("success",), f"the COMPOUND ended with {answer.status}"
        self.octets, reader = answer.results, Words(answer.results)
        self.status = reader.word()
        take_opaque(reader)
        self.operations, self.statuses, self.values = [], [], []
        self.count = reader.word()
        for i in range(self.count):
            self.operations.append(reader.word())
            self.statuses.append(reader.word())
            if self.statuses[-1] != OK:
                assert i + 1 == self.count and self.statuses[-1] == self.status, "results behind a failure"
                break
            decode = _RESULTS.get(self.operations[-1]) or (decoders or {}).get(self.operations[-1])
            if self.operations[-1] == SETATTR:
                decode = _bitmap
            self.values.append(decode(reader) if decode else None)

    def value(self, number):
        """Returns the value of the last such operation."""
        assert self.status == OK, f"status {self.status} of operation {self.operations[-1:]}"
        return self.values[len(self.operations) - 1 - self.operations[::-1].index(number)]


def transact(client, message, payload=None, seconds=SECONDS):
    """Sends a call over a Client or TcpClient; returns the reply as octets."""
    client.send_call(message, payload, room=1 << 16)
    reply = client.take_reply(seconds)
    assert struct.unpack_from(">I", reply)[0] == rpc.xid_of(message), "a reply to something else"
    return reply


def run(client, operations, minor=0):
    return Results(transact(client, compound(operations, minor)))


class Session:
    """A client of minor version 1 or 2 with a session. Its requests may use any connection."""

    def __init__(self, client, owner, minor=1, flags=0, fore=None, verifier=bytes(8)):
        self.minor, self.owner = minor, owner
        known = run(client, [exchange_id_op(owner, verifier)], minor).value(EXCHANGE_ID)
        self.client = known["client"]
        self.create = compound([create_session_op(self.client, known["sequence"], flags, fore)], minor)
        made = Results(transact(client, self.create)).value(CREATE_SESSION)
        self.session, self.flags, self.fore = made["session"], made["flags"], made["fore"]
        self.sequences = {}
        self.run(client, [op(RECLAIM_COMPLETE, words(0))])

    def request(self, operations, slot=0, keep=True, tag=b""):
        """Makes the next request on a slot, as a call."""
        self.sequences[slot] = self.sequences.get(slot, 0) + 1
        return compound([sequence_op(self.session, slot, self.sequences[slot], keep, max(self.sequences)), *operations], self.minor, tag)

    def run(self, client, operations, slot=1, keep=False):
        """Uses another slot than the one under test."""
        return Results(transact(client, self.request(operations, slot, keep)))


class Confirmed:
    """A client of minor version 0, with the interface of Session."""

    minor = 0

    def __init__(self, client, name):
        self.client, verifier, _ = run(client, [set_client_id_op(name)]).value(SETCLIENTID)
        assert run(client, [op(SETCLIENTID_CONFIRM, hyper(self.client), verifier)]).status == OK

    def request(self, operations):
        return compound(operations)

    def run(self, client, operations):
        return run(client, operations)


class Owner:
    """An open-owner of a Session or Confirmed, and its opens. Each has its own owner, so that sequence numbers are
    simple."""

    def __init__(self, speaker, name):
        self.speaker, self.name, self.seqid = speaker, name, -1

    def next_seqid(self):
        """RFC 7530 §9.1.7; without meaning from minor version 1 on."""
        self.seqid += 1
        return self.seqid

    def open_op(self, name, create=b"", access=BOTH):
        access |= NO_DELEGATION if self.speaker.minor else 0
        return open_op(self.speaker.client, self.name, name, access, 0, self.next_seqid(), create)

    def open(self, client, directory, name):
        """Returns (the file's handle, its stateid)."""
        results = self.speaker.run(client, [putfh(directory), self.open_op(name), op(GETFH)])
        opened, handle = results.value(OPEN), results.value(GETFH)
        if not opened["flags"] & 2:
            return handle, opened["stateid"]
        confirm = op(OPEN_CONFIRM, opened["stateid"], words(self.next_seqid()))
        return handle, self.speaker.run(client, [putfh(handle), confirm]).value(OPEN_CONFIRM)

    def lock_op(self, stateid, offset, length):
        """Takes the first lock of a lock-owner with the same name."""
        return lock_op(self.speaker.client, self.name, stateid, offset, length, seqid=self.next_seqid())


def look_up(client, *names):
    """Returns the handle of a path from the root, by minor version 0, which needs no session."""
    operations = [op(PUTROOTFH), *(op(LOOKUP, opaque(name)) for name in names), op(GETFH)]
    return run(client, operations).value(GETFH)
