"""Hostile COMPOUNDs of NFS version 4 (RFC 7530, RFC 8881, RFC 7862): octets, attributes, names and handles."""

import itertools

import nfs4_messages as nfs4
import rpc_messages as rpc
from attack import Case, Passed, Replied, is_alive
from iwarp_cases import MAX32, MAX64
from nfs4_messages import at, op
from rdma_messages import RDMA_NOMSG
from rpc_messages import GARBAGE_ARGS, hyper, opaque, words

GARBAGE = Replied("accepted", GARBAGE_ARGS)
INVAL, NAMETOOLONG, NOENT, EXIST, NOTDIR, ISDIR, FBIG, NOSPC, STALE, ACCES, PERM = 22, 63, 2, 17, 20, 21, 27, 28, 70, 13, 1
BLOCK = 1 << 16  # so many octets that the server avoids copying them
numbers = itertools.count()


class Ends:
    """A COMPOUND that must get one of these statuses; the connection stays."""

    def __init__(self, *statuses):
        self.statuses = statuses

    def check(self, client, xid):
        results = nfs4.Results(client.take_reply())
        assert results.status in self.statuses, \
            f"expected a status of {self.statuses}, got {results.status} from operation {results.operations[-1:]}"
        is_alive(client)


class ReadFirst:
    """A COMPOUND that reads zeros and then changes the file: the READ must not return the change."""

    def check(self, client, xid):
        eof, data = nfs4.Results(client.take_reply()).value(nfs4.READ)
        assert eof and not any(data) and len(data) == BLOCK, f"{len(data)} octets, {BLOCK - data.count(0)} of them not zeros"
        is_alive(client)


def send(operations, minor=0, tag=b"", count=None):
    """Sends a COMPOUND; `operations` may be a function of the connection."""
    def act(client):
        given = operations(client) if callable(operations) else operations
        message = nfs4.compound(given, minor, tag, count)
        client.send_call(message, room=1 << 17)
        return rpc.xid_of(message)
    return act


def new_session(client, minor=2, **how):
    return nfs4.Session(client, b"adversary %d" % next(numbers), minor, **how)


def in_session(operations, minor=2, keep=False, **how):
    """Sends a COMPOUND in its own session; `operations` may be a function of the connection and the session."""
    def act(client):
        session = new_session(client, minor, **how)
        given = operations(client, session) if callable(operations) else operations
        message = session.request(given, keep=keep)
        client.send_call(message, room=1 << 17)
        return rpc.xid_of(message)
    return act


ROOT = op(nfs4.PUTROOTFH)


def file_of(client, name=None):
    """Opens the file with that name, or a file that no other case uses."""
    return nfs4.look_up(client, name) if name else nfs4.look_up(client, b"dir", b"%060d" % 0)


# ---- octets ----

def good_arguments(client):
    """Returns each operation with valid arguments: (number, arguments)."""
    handle, name, stateid = file_of(client), opaque(b"name"), bytes(16)
    owner, attributes = hyper(1) + opaque(b"owner"), nfs4.fattr(size=1, mode=0o644)
    channels = nfs4.channel() + nfs4.channel()
    return ((nfs4.ACCESS, words(63)), (nfs4.CLOSE, words(0) + stateid), (nfs4.COMMIT, hyper(0) + words(0)),
            (nfs4.CREATE, words(nfs4.NF4DIR) + name + attributes), (nfs4.CREATE, words(nfs4.NF4LNK) + opaque(b"text") + name + attributes),
            (nfs4.CREATE, words(nfs4.NF4BLK, 1, 1) + name + attributes), (nfs4.DELEGRETURN, stateid), (nfs4.GETATTR, nfs4.bitmap(1, 33, 66)),
            (nfs4.LINK, name), (nfs4.LOCK, nfs4.lock_op(1, b"owner", stateid, 0, 1)[4:]),
            (nfs4.LOCK, nfs4.lock_op(1, b"owner", stateid, 0, 1, new=False)[4:]), (nfs4.LOCKT, words(1) + hyper(0) + hyper(1) + owner),
            (nfs4.LOCKU, words(1, 0) + stateid + hyper(0) + hyper(1)), (nfs4.LOOKUP, name), (nfs4.NVERIFY, attributes),
            (nfs4.OPEN, nfs4.open_op(1, b"owner", b"name")[4:]),
            (nfs4.OPEN, nfs4.open_op(1, b"owner", b"name", create=words(nfs4.GUARDED) + attributes)[4:]),
            (nfs4.OPEN, nfs4.open_op(1, b"owner", b"name", create=words(nfs4.EXCLUSIVE_1) + bytes(8) + attributes)[4:]),
            (nfs4.OPENATTR, words(0)), (nfs4.OPEN_DOWNGRADE, stateid + words(0, 1, 0)), (nfs4.PUTFH, opaque(handle)),
            (nfs4.READ, stateid + hyper(0) + words(10)), (nfs4.READDIR, hyper(0) + bytes(8) + words(100, 1000) + nfs4.bitmap(1)),
            (nfs4.REMOVE, name), (nfs4.RENAME, name + name), (nfs4.SECINFO, name), (nfs4.SETATTR, stateid + attributes),
            (nfs4.VERIFY, attributes), (nfs4.WRITE, stateid + hyper(0) + words(0) + opaque(b"data")),
            (nfs4.BACKCHANNEL_CTL, words(1, 1, 0)), (nfs4.FREE_STATEID, stateid), (nfs4.SECINFO_NO_NAME, words(0)),
            (nfs4.TEST_STATEID, words(2) + stateid * 2), (nfs4.RECLAIM_COMPLETE, words(0)), (nfs4.DESTROY_CLIENTID, hyper(1)),
            (nfs4.EXCHANGE_ID, bytes(8) + opaque(b"id") + words(0, 0, 0)), (nfs4.CREATE_SESSION, hyper(1) + words(1, 0) + channels + words(1, 1, 0)),
            (nfs4.DESTROY_SESSION, stateid), (nfs4.ALLOCATE, stateid + hyper(0) + hyper(1)), (nfs4.COPY, stateid * 2 + bytes(24) + words(1, 1, 0)),
            (nfs4.DEALLOCATE, stateid + hyper(0) + hyper(1)), (nfs4.IO_ADVISE, stateid + bytes(16) + nfs4.bitmap(1)),
            (nfs4.OFFLOAD_CANCEL, stateid), (nfs4.OFFLOAD_STATUS, stateid), (nfs4.READ_PLUS, stateid + hyper(0) + words(10)),
            (nfs4.SEEK, stateid + hyper(0) + words(0)), (nfs4.CLONE, stateid * 2 + bytes(24)), (nfs4.GETXATTR, name),
            (nfs4.SETXATTR, words(0) + name + name), (nfs4.LISTXATTRS, hyper(0) + words(1000)), (nfs4.REMOVEXATTR, name))


def cut_arguments(client):
    """Sends each operation with its arguments truncated at every word: the server must not execute it."""
    session, count = new_session(client), 0
    handle = file_of(client)
    for number, arguments in good_arguments(client):
        for size in range(0, len(arguments), 4):
            before = [nfs4.putfh(handle), op(nfs4.SAVEFH), nfs4.putfh(handle)]
            results = session.run(client, [*before, op(number, arguments[:size])])
            assert results.status in (nfs4.BADXDR, nfs4.NOTSUPP), f"operation {number}, {size} octets: {results.status}"
            count += 1
    print(f"  {count} COMPOUNDs that break off", flush=True)


def changed_arguments(client):
    """Sends each operation with one word after the other made huge. Any answer is permitted, but no endless execution."""
    session, count = new_session(client), 0
    handle = file_of(client)
    for number, arguments in good_arguments(client):
        for where, value in itertools.product(range(0, len(arguments), 4), (MAX32, 1 << 31, 0x10000)):
            changed = arguments[:where] + words(value) + arguments[where + 4:]
            session.run(client, [nfs4.putfh(handle), op(nfs4.SAVEFH), nfs4.putfh(handle), op(number, changed)])
            count += 1
    print(f"  {count} COMPOUNDs with huge words", flush=True)


def compound_cases():
    yield Case("arguments cut off", "RFC 8881 §15.1.1.1", cut_arguments, Passed())
    yield Case("huge words in arguments", "RFC 8881 §15.1.1.1", changed_arguments, Passed())
    for number in (0, 1, 2, 76, 77, 10043, nfs4.ILLEGAL, 1 << 31, MAX32):
        yield Case(f"operation {number}", "RFC 7530 §16.14", send([op(number)]), Ends(nfs4.OP_ILLEGAL))
        yield Case(f"operation {number} in a session", "RFC 8881 §18.52", in_session([op(number)]), Ends(nfs4.OP_ILLEGAL))
    for number in (nfs4.SEQUENCE, nfs4.COPY, nfs4.SETXATTR):
        yield Case(f"operation {number} in minor version 0", "RFC 7530 §16.14", send([op(number)]), Ends(nfs4.OP_ILLEGAL))
    for number in (nfs4.SETCLIENTID, nfs4.RENEW, nfs4.OPEN_CONFIRM, nfs4.RELEASE_LOCKOWNER):
        yield Case(f"operation {number} in a session", "RFC 8881 §2.7", in_session([op(number)]), Ends(nfs4.NOTSUPP))
    for minor in (3, 4, 1 << 31, MAX32):
        yield Case(f"minor version {minor}", "RFC 8881 §2.7", send([ROOT], minor), Ends(nfs4.MINOR_VERS_MISMATCH))
    for count in (2, 100, MAX32):
        yield Case(f"{count} operations, one of which is there", "RFC 8881 §16.2", send([ROOT], count=count), Ends(nfs4.BADXDR))
    yield Case("more operations than are said", "RFC 5531 §9", send([ROOT, ROOT], count=1), GARBAGE)
    yield Case("no operations", "RFC 8881 §16.2.3", send([]), Ends(nfs4.OK))
    yield Case("six hundred operations", "RFC 7530 §13.1.3", send([ROOT] * 600), Ends(nfs4.RESOURCE))
    yield Case("two thousand operations in a session", "RFC 8881 §18.46.3", long_call([ROOT] * 2000), Ends(nfs4.TOO_MANY_OPS))
    yield Case("a tag that is no UTF-8", "RFC 8881 §16.2.3", send([ROOT], tag=b"\xff\xfe"), Ends(INVAL))
    yield Case("a tag of 2000 octets", "RFC 8881 §16.2.3", send([ROOT], tag=b"t" * 2000), Ends(nfs4.OK))
    for length in (1 << 16, 1 << 31, MAX32):
        yield Case(f"a tag of {length} octets, which are not there", "RFC 5531 §9",
                   raw_arguments(words(length) + b"tag!" + words(0, 0)), GARBAGE)
    for size in (0, 4, 8):
        yield Case(f"a COMPOUND of {size} octets", "RFC 5531 §9", raw_arguments(bytes(size)), GARBAGE)
    for procedure in (2, MAX32):
        yield Case(f"procedure {procedure}", "RFC 5531 §9", procedure_call(procedure), Replied("accepted", rpc.PROC_UNAVAIL))


def long_call(operations):
    """A Long Call: the whole call is in a Read chunk."""
    def act(client):
        session = new_session(client)
        message = session.request(operations)
        client.endpoint.send(rpc.header(rpc.xid_of(message), RDMA_NOMSG,
                                        reads=rpc.read_list((0, client.offer(message), len(message)))))
        return rpc.xid_of(message)
    return act


def raw_arguments(data):
    return lambda client: send_message(client, rpc.call(nfs4.COMPOUND, data, nfs4.NFS4))


def procedure_call(number):
    return lambda client: send_message(client, rpc.call(number, b"", nfs4.NFS4))


def send_message(client, message, **fields):
    client.endpoint.send(rpc.rdma_call(message, **fields))
    return rpc.xid_of(message)


# ---- attributes ----

def attribute_cases():
    def get(bits):
        return in_session([ROOT, op(nfs4.GETATTR, bits)])

    for count in (3, 10, 400):
        yield Case(f"GETATTR with {count} words of ones", "RFC 8881 §5.2", get(words(count, *[MAX32] * count)), Ends(nfs4.OK, INVAL))
    for count in (1 << 20, 1 << 31, MAX32):
        yield Case(f"GETATTR with {count} words, which are not there", "RFC 4506 §4.13", get(words(count, 1, 1)), Ends(nfs4.BADXDR))

    def set_attributes(attributes):
        return in_session(lambda client, session: at(file_of(client), op(nfs4.SETATTR, bytes(16), attributes)))

    everything = words(3, MAX32, MAX32, MAX32)
    for what, attributes, expect in (
            ("all attributes without values", everything + opaque(b""), Ends(nfs4.BADXDR, INVAL, nfs4.ATTRNOTSUPP)),
            ("all attributes with zeros", everything + opaque(bytes(2000)), Ends(nfs4.BADXDR, INVAL, nfs4.ATTRNOTSUPP)),
            ("a type", nfs4.bitmap(1) + opaque(words(1)), Ends(INVAL)),
            ("an unknown attribute", nfs4.bitmap(95) + opaque(words(1)), Ends(nfs4.ATTRNOTSUPP)),
            ("a size of 4 octets", nfs4.bitmap(4) + opaque(words(1)), Ends(nfs4.BADXDR)),
            ("a size and more", nfs4.bitmap(4) + opaque(hyper(1) + words(1)), Ends(nfs4.BADXDR)),
            ("values of 2^32-1 octets", nfs4.bitmap(4) + words(MAX32), Ends(nfs4.BADXDR)),
            ("a size of 2^64-1", nfs4.fattr(size=MAX64), Ends(INVAL, FBIG)),
            ("a mode of 2^32-1", nfs4.fattr(mode=MAX32), Ends(INVAL)),
            ("an owner of 3000 octets", nfs4.bitmap(36) + opaque(opaque(b"o" * 3000)), Ends(nfs4.BADOWNER, INVAL)),
            ("an owner of no UTF-8", nfs4.bitmap(36) + opaque(opaque(b"\xff\xfe")), Ends(nfs4.BADOWNER, INVAL)),
            ("an ACL of 2^32-1 entries", nfs4.bitmap(12) + opaque(words(MAX32)), Ends(nfs4.BADXDR, INVAL)),
            ("an ACL of 100 entries", nfs4.bitmap(12) + opaque(words(100) + (words(0, 0, 1) + opaque(b"EVERYONE@")) * 100),
             Ends(nfs4.OK, INVAL, nfs4.ATTRNOTSUPP, NOSPC, FBIG)),
            ("an ACL entry with an empty name", nfs4.bitmap(12) + opaque(words(1, 0, 0, 1) + opaque(b"")), Ends(nfs4.BADOWNER, INVAL, nfs4.ATTRNOTSUPP)),
            ("an ACL with flags that there are not", nfs4.bitmap(12) + opaque(words(1, MAX32, MAX32, MAX32) + opaque(b"EVERYONE@")),
             Ends(INVAL, nfs4.ATTRNOTSUPP)),
            ("a time of 2^32-1 nanoseconds", nfs4.bitmap(54) + opaque(words(1) + hyper(0) + words(MAX32)), Ends(INVAL)),
            ("a time set in a way that there is not", nfs4.bitmap(54) + opaque(words(7)), Ends(nfs4.BADXDR))):
        yield Case(f"SETATTR of {what}", "RFC 8881 §18.30", set_attributes(attributes), expect)
    for count in (0, 1, 8, 100):
        yield Case(f"READDIR of {count} octets", "RFC 8881 §18.23.3",
                   in_session(lambda client, session, count=count: at(file_of(client, b"dir"), op(
                       nfs4.READDIR, hyper(0) + bytes(8) + words(count, count) + nfs4.bitmap(1)))), Ends(nfs4.TOOSMALL))
    for cookie in (1, 2, 1 << 32, MAX64):
        yield Case(f"READDIR from cookie {cookie:#x}", "RFC 8881 §18.23.3",
                   in_session(lambda client, session, cookie=cookie: at(file_of(client, b"dir"), op(
                       nfs4.READDIR, hyper(cookie) + b"\xff" * 8 + words(1000, 4000) + nfs4.bitmap(1)))),
                   Ends(nfs4.OK, 10003, nfs4.NOT_SAME, INVAL))


# ---- names ----

def name_cases():
    names = (("empty", b"", INVAL), (".", b".", nfs4.BADNAME), ("..", b"..", nfs4.BADNAME), ("a slash", b"a/b", nfs4.BADCHAR),
             ("a NUL", b"a\0b", nfs4.BADCHAR), ("no UTF-8", b"\xff\xfe", INVAL), ("a surrogate", b"\xed\xa0\x80", INVAL),
             ("256 octets", b"n" * 256, NAMETOOLONG), ("2500 octets", b"n" * 2500, NAMETOOLONG))
    attributes = nfs4.fattr(mode=0o755)
    for what, name, status in names:
        for verb, operations in (
                ("LOOKUP", [op(nfs4.LOOKUP, opaque(name))]), ("REMOVE", [op(nfs4.REMOVE, opaque(name))]),
                ("SECINFO", [op(nfs4.SECINFO, opaque(name))]), ("CREATE", [nfs4.create_op(nfs4.NF4DIR, name)]),
                ("RENAME from", [op(nfs4.SAVEFH), op(nfs4.RENAME, opaque(name), opaque(b"x"))]),
                ("RENAME to", [op(nfs4.SAVEFH), op(nfs4.RENAME, opaque(b"link"), opaque(name))])):
            yield Case(f"{verb} of {what}", "RFC 8881 §14.5", in_session([ROOT, *operations]), Ends(status))
        for create in (b"", words(nfs4.UNCHECKED) + attributes):
            yield Case(f"OPEN of {what}{', to create it' if create else ''}", "RFC 8881 §14.5", in_session(
                lambda client, session, name=name, create=create: [
                    ROOT, nfs4.open_op(session.client, b"o", name, create=create)]), Ends(status))
        yield Case(f"LINK to {what}", "RFC 8881 §14.5", in_session(
            lambda client, session, name=name: [nfs4.putfh(file_of(client)), op(nfs4.SAVEFH), ROOT, op(nfs4.LINK, opaque(name))]),
            Ends(status))
    for length in (1 << 16, MAX32):
        yield Case(f"a name of {length} octets, which are not there", "RFC 4506 §4.11",
                   in_session([ROOT, op(nfs4.LOOKUP, words(length) + bytes(64))]), Ends(nfs4.BADXDR))
    for size in (0, 1, 31, 100, 128):
        yield Case(f"a handle of {size} octets", "RFC 8881 §4.2.1", in_session([nfs4.putfh(b"\xff" * size)]),
                   Ends(nfs4.BADHANDLE, STALE, INVAL))
    yield Case("a handle of 129 octets", "RFC 8881 §4.2.1", in_session([nfs4.putfh(bytes(129))]), Ends(nfs4.BADXDR))
    for number in (nfs4.GETFH, nfs4.GETATTR, nfs4.READ, nfs4.SAVEFH, nfs4.LOOKUPP, nfs4.OPEN, nfs4.LOCK, nfs4.CREATE):
        yield Case(f"operation {number} without a handle", "RFC 8881 §2.3.1", in_session([op(number)]), Ends(nfs4.NOFILEHANDLE))
    for number in (nfs4.LINK, nfs4.RENAME, nfs4.COPY, nfs4.CLONE):
        yield Case(f"operation {number} without a saved handle", "RFC 8881 §2.3.1", in_session([ROOT, op(number)]),
                   Ends(nfs4.NOFILEHANDLE))
    yield Case("RESTOREFH of nothing", "RFC 8881 §18.27.3", in_session([op(nfs4.RESTOREFH)]), Ends(nfs4.NOFILEHANDLE))


# ---- the order of operations ----

def order_cases():
    def read_and(*changes):
        def operations(client, session):
            zeros = [nfs4.putfh(file_of(client)), *(op(nfs4.SETATTR, bytes(16), nfs4.fattr(size=size)) for size in (0, BLOCK))]
            assert session.run(client, zeros).status == nfs4.OK
            return [nfs4.putfh(file_of(client)), op(nfs4.READ, bytes(16), hyper(0), words(BLOCK)), *changes]
        return in_session(operations)

    for what, changes in (("WRITE", [nfs4.write_op(bytes(16), 0, b"x" * 100)]),
                          ("SETATTR of the size and WRITE", [op(nfs4.SETATTR, bytes(16), nfs4.fattr(size=0)),
                                                             nfs4.write_op(bytes(16), 0, b"x" * 100)])):
        yield Case(f"READ before {what}", "RFC 8881 §16.2.3", read_and(*changes), ReadFirst())


def cases():
    yield from compound_cases()
    yield from order_cases()
    yield from attribute_cases()
    yield from name_cases()
