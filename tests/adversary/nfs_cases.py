"""Hostile arguments of NFS version 3 (RFC 1813) and MOUNT, which reach the file system."""

import random

import rpc_messages as rpc
from attack import Case, Either, Nfs, Passed, Replied, is_alive
from iwarp_cases import MAX32, MAX64
from rpc_messages import GARBAGE_ARGS, hyper, opaque, words

GARBAGE = Replied("accepted", GARBAGE_ARGS)
NO_HANDLE = Nfs(rpc.BADHANDLE, rpc.STALE)
NO_ATTRIBUTES = words(0, 0, 0, 0, 0, 0)  # a sattr3 that sets nothing
IO, ACCES, ROFS, BADTYPE, SERVERFAULT, NOTEMPTY = 5, 13, 30, 10007, 10006, 66


def call(procedure, arguments, program=rpc.NFS, reply=0):
    """`arguments` may be a function of the root's handle and a dictionary of other handles."""
    def act(client):
        data = arguments
        if callable(arguments):
            root = client.root()
            nodes = {name: client.lookup(root, name.encode()) for name in ("big", "small", "dir", "link")}
            data = arguments(root, nodes)
        message = rpc.call(procedure, data, program)
        fields = {"reply": rpc.reply_chunk((client.offer(bytes(reply)), reply))} if reply else {}
        client.endpoint.send(rpc.rdma_call(message, **fields))
        return rpc.xid_of(message)
    return act


def handle_cases():
    for size in (0, 1, 4, 5, 6, 32, 53, 64):
        for name, data in (("zeros", bytes(size)), ("ones", b"\xff" * size), ("version and ones", b"\x01" + b"\xff" * (size - 1))):
            yield Case(f"handle of {size} octets: {name}", "RFC 1813 §2.3.3", call(rpc.GETATTR, opaque(data[:size])), NO_HANDLE)
    for size in (65, 128, 1 << 16, 1 << 31, MAX32):
        yield Case(f"handle of {size} octets", "RFC 1813 §2.3.3", call(rpc.GETATTR, words(size) + bytes(256)), GARBAGE)
    yield Case("handles with one bit changed", "RFC 1813 §2.3.3", changed_handles, Passed())
    yield Case("a handle cut short or extended", "RFC 1813 §2.3.3", resized_handles, Passed())
    yield Case("a file's handle for a directory's", "RFC 1813 §3.3.3",
               call(rpc.LOOKUP, lambda root, nodes: opaque(nodes["big"]) + opaque(b"x")), Nfs(rpc.NOTDIR))
    yield Case("a directory's handle for a file's", "RFC 1813 §3.3.6",
               call(rpc.READ, lambda root, nodes: opaque(nodes["dir"]) + hyper(0) + words(1)), Nfs(rpc.ISDIR, rpc.INVAL))
    yield Case("a file's handle for a symlink's", "RFC 1813 §3.3.5",
               call(rpc.READLINK, lambda root, nodes: opaque(nodes["big"])), Nfs(rpc.INVAL))


def status_of(client, procedure, arguments):
    client_xid = call(procedure, arguments)(client)
    reply = rpc.RpcReply(client.reply_to(client_xid).body)
    assert reply.status == ("success",), f"{reply.status}"
    return rpc.Words(reply.results).word()


def changed_handles(client):
    """Changing any bit of a handle never gives another file."""
    handle = client.lookup(client.root(), b"small")
    for bit in range(8 * len(handle)):
        forged = bytearray(handle)
        forged[bit // 8] ^= 1 << bit % 8
        status = status_of(client, rpc.GETATTR, opaque(bytes(forged)))
        assert status in (rpc.BADHANDLE, rpc.STALE), f"bit {bit} changed: status {status}"


def resized_handles(client):
    handle = client.lookup(client.root(), b"small")
    for forged in [handle[:size] for size in range(len(handle))] + [handle + bytes(n) for n in range(1, 64 - len(handle))]:
        status = status_of(client, rpc.GETATTR, opaque(forged))
        assert status in (rpc.BADHANDLE, rpc.STALE), f"{len(forged)} octets: status {status}"


def name_cases():
    names = (("empty", b""), ("a slash", b"/"), ("a path", b"dir/0"), ("the way out", b"../etc"), ("an absolute path", b"/etc/passwd"),
             ("a NUL", b"\0"), ("a NUL within", b"small\0x"), ("256 octets", b"n" * 256), ("3000 octets", b"n" * 3000),
             ("no characters", b"\xff\xfe\x80"), ("a newline", b"\n"))
    refused = Nfs(rpc.INVAL, ACCES, rpc.NAMETOOLONG, rpc.NOENT)
    for what, name in names:
        yield Case(f"LOOKUP of {what}", "RFC 1813 §3.3.3", call(rpc.LOOKUP, lambda root, nodes, name=name: opaque(root) + opaque(name)),
                   refused)
        if name not in (b"\xff\xfe\x80", b"\n"):  # these are ordinary names
            for procedure, more in ((rpc.CREATE, words(0) + NO_ATTRIBUTES), (rpc.MKDIR, NO_ATTRIBUTES),
                                    (rpc.SYMLINK, NO_ATTRIBUTES + opaque(b"x")), (rpc.REMOVE, b""), (rpc.RMDIR, b"")):
                yield Case(f"procedure {procedure} of {what}", "RFC 1813 §3.3",
                           call(procedure, lambda root, nodes, name=name, more=more: opaque(root) + opaque(name) + more), refused)
    for procedure, more in ((rpc.CREATE, words(1) + NO_ATTRIBUTES), (rpc.MKDIR, NO_ATTRIBUTES), (rpc.REMOVE, b""), (rpc.RMDIR, b"")):
        for name in (b".", b".."):
            yield Case(f"procedure {procedure} of {name}", "RFC 1813 §3.3",
                       call(procedure, lambda root, nodes, name=name, more=more: opaque(root) + opaque(name) + more),
                       Nfs(rpc.INVAL, ACCES, rpc.EXIST, rpc.ISDIR, NOTEMPTY))
    for name in (b".", b".."):
        yield Case(f"RENAME to {name}", "RFC 1813 §3.3.14",
                   call(rpc.RENAME, lambda root, nodes, name=name: opaque(root) + opaque(b"small") + opaque(root) + opaque(name)),
                   Nfs(rpc.INVAL, rpc.EXIST, ACCES))
    for length in (1 << 16, 1 << 31, MAX32):
        yield Case(f"a name of {length} octets, which are not there", "RFC 4506 §4.11",
                   call(rpc.LOOKUP, lambda root, nodes, length=length: opaque(root) + words(length) + bytes(64)), GARBAGE)
    yield Case("RENAME of a folder into itself", "RFC 1813 §3.3.14",
               call(rpc.RENAME, lambda root, nodes: opaque(root) + opaque(b"dir") + opaque(nodes["dir"]) + opaque(b"x")),
               Nfs(rpc.INVAL))
    yield Case("no way out of the root", "RFC 1813 §3.3.3", no_way_out, Passed())


def no_way_out(client):
    root = client.root()
    assert client.lookup(root, b"..") == root and client.lookup(root, b".") == root
    is_alive(client)


def number_cases():
    def on(node, rest):
        return lambda root, nodes: opaque(nodes[node]) + rest

    for offset in (MAX64, MAX64 - 1, 1 << 63, (1 << 63) - 1):
        for count in (1, MAX32):
            yield Case(f"READ of {count} at {offset:#x}", "RFC 1813 §3.3.6", call(rpc.READ, on("big", hyper(offset) + words(count)),
                       reply=1 << 16), Nfs(rpc.OK, rpc.INVAL, rpc.FBIG))
    yield Case("READ of 2^32-1 octets", "RFC 1813 §3.3.6", call(rpc.READ, on("big", hyper(0) + words(MAX32)), reply=2 << 20),
               Nfs(rpc.OK))
    for offset in (MAX64, MAX64 - 1, 1 << 63, (1 << 63) - 1):
        yield Case(f"WRITE at {offset:#x}", "RFC 1813 §3.3.7",
                   call(rpc.WRITE, on("small", hyper(offset) + words(4, 0) + opaque(b"data"))), Nfs(rpc.INVAL, rpc.FBIG))
        yield Case(f"COMMIT at {offset:#x}", "RFC 1813 §3.3.21", call(rpc.COMMIT, on("small", hyper(offset) + words(MAX32))),
                   Nfs(rpc.OK, rpc.INVAL))
        yield Case(f"a size of {offset:#x}", "RFC 1813 §3.3.2",
                   call(rpc.SETATTR, on("small", words(0, 0, 0, 1) + hyper(offset) + words(0, 0, 0))),
                   Nfs(rpc.INVAL, rpc.FBIG, *([rpc.OK] if offset == (1 << 63) - 1 else [])))
    for count in (0, 3, 5, MAX32):
        yield Case(f"WRITE of {count} octets with data of 4", "RFC 1813 §3.3.7",
                   call(rpc.WRITE, on("small", hyper(0) + words(count, 0) + opaque(b"data"))), Either(rpc.INVAL, ("accepted", GARBAGE_ARGS)))
    for stable in (3, MAX32):
        yield Case(f"WRITE with stability {stable}", "RFC 1813 §3.3.7",
                   call(rpc.WRITE, on("small", hyper(0) + words(4, stable) + opaque(b"data"))), GARBAGE)
    for cookie in (1, 1 << 32, 1 << 63, MAX64):
        for verifier in (bytes(8), b"\xff" * 8):
            for procedure, counts in ((rpc.READDIR, words(4096)), (rpc.READDIRPLUS, words(1024, 4096))):
                yield Case(f"procedure {procedure} from cookie {cookie:#x}, {verifier.hex()}", "RFC 1813 §3.3.16",
                           call(procedure, on("dir", hyper(cookie) + verifier + counts), reply=8192),
                           Nfs(rpc.OK, rpc.BAD_COOKIE, rpc.INVAL))
    for count in (0, 1, 8, 100):
        yield Case(f"READDIR of {count} octets", "RFC 1813 §3.3.16",
                   call(rpc.READDIR, on("dir", hyper(0) + bytes(8) + words(count)), reply=8192), Nfs(rpc.TOOSMALL, rpc.OK))
    for procedure, counts in ((rpc.READDIR, words(MAX32)), (rpc.READDIRPLUS, words(MAX32, MAX32)), (rpc.READDIRPLUS, words(0, MAX32))):
        yield Case(f"procedure {procedure} of 2^32-1 octets", "RFC 1813 §3.3.16",
                   call(procedure, on("dir", hyper(0) + bytes(8) + counts), reply=1 << 17), Nfs(rpc.OK, rpc.TOOSMALL))
    for nanoseconds in (1_000_000_000, MAX32):
        yield Case(f"a time of {nanoseconds} nanoseconds", "RFC 1813 §2.3.3",
                   call(rpc.SETATTR, on("small", words(0, 0, 0, 0, 2, 0, nanoseconds, 0, 0))), Nfs(rpc.INVAL, rpc.OK))
    for mode in (0xFFFFFFFF, 0o170777):
        yield Case(f"mode {mode:#o}", "RFC 1813 §2.3.3", call(rpc.SETATTR, on("small", words(1, mode, 0, 0, 0, 0, 0, 0))),
                   Nfs(rpc.OK, rpc.INVAL))
    for mask in (MAX32, 1 << 31, 0):
        yield Case(f"ACCESS {mask:#x}", "RFC 1813 §3.3.4", call(rpc.ACCESS, on("small", words(mask))), Nfs(rpc.OK))


def shape_cases():
    for word in (2, MAX32):
        yield Case(f"a boolean of {word:#x}", "RFC 4506 §4.4",
                   call(rpc.SETATTR, lambda root, nodes, word=word: opaque(nodes["small"]) + words(word, 0, 0, 0, 0, 0, 0, 0)), GARBAGE)
    for mode in (3, MAX32):
        yield Case(f"CREATE in mode {mode}", "RFC 1813 §3.3.8",
                   call(rpc.CREATE, lambda root, nodes, mode=mode: opaque(root) + opaque(b"new") + words(mode) + NO_ATTRIBUTES), GARBAGE)
    for kind, expect in ((0, GARBAGE), (1, Nfs(BADTYPE)), (2, Nfs(BADTYPE)), (5, Nfs(BADTYPE)), (8, GARBAGE), (MAX32, GARBAGE)):
        yield Case(f"MKNOD of type {kind}", "RFC 1813 §3.3.11",
                   call(rpc.MKNOD, lambda root, nodes, kind=kind: opaque(root) + opaque(b"new") + words(kind)), expect)
    for target, what in ((b"", "nothing"), (b"a\0b", "a NUL"), (b"t" * 3800, "3800 octets")):
        yield Case(f"SYMLINK to {what}", "RFC 1813 §3.3.10",
                   call(rpc.SYMLINK, lambda root, nodes, target=target: opaque(root) + opaque(b"newlink") + NO_ATTRIBUTES + opaque(target)),
                   Nfs(rpc.OK, rpc.INVAL, rpc.NAMETOOLONG, rpc.NOENT, rpc.EXIST))
    for procedure in range(1, 22):
        for size in (0, 4, 8, 12):
            yield Case(f"procedure {procedure} with {size} octets of arguments", "RFC 5531 §9",
                       call(procedure, words(32, 0, 0)[:size]), GARBAGE)
        yield Case(f"procedure {procedure} with random arguments", "RFC 5531 §9",
                   call(procedure, words(MAX32) + random.Random(procedure).randbytes(400)), GARBAGE)


def mount_cases():
    for what, path in (("nothing", b""), ("no path", b"export"), ("the way out", b"/../etc"), ("dots", b"/./.."), ("a NUL", b"/\0"),
                       ("1024 slashes", b"/" * 1024), ("a file", b"/small"), ("what is not there", b"/nowhere")):
        yield Case(f"MNT of {what}", "RFC 1813 §5.2.1", call(1, opaque(path), rpc.MOUNT), NoEscape())
    for length in (1025, 1 << 16, MAX32):
        yield Case(f"MNT of {length} octets", "RFC 1813 §5.2.1", call(1, words(length) + bytes(1100), rpc.MOUNT), GARBAGE)
    for procedure in (6, 7, MAX32):
        yield Case(f"MOUNT procedure {procedure}", "RFC 5531 §9", call(procedure, b"", rpc.MOUNT),
                   Replied("accepted", rpc.PROC_UNAVAIL))
    yield Case("two thousand mounts", "RFC 1813 §5.2.1", many_mounts, Passed())


class NoEscape:
    """The server refuses, or returns the root, which every client may have."""

    def check(self, client, xid):
        results = rpc.Words(rpc.RpcReply(client.reply_to(xid).body).results)
        if results.word() == 0:
            assert rpc.take_opaque(results) == client.root(), "another handle than that of an export"
        is_alive(client)


def many_mounts(client):
    for _ in range(2000):
        client.root()


def cases():
    yield from handle_cases()
    yield from name_cases()
    yield from number_cases()
    yield from shape_cases()
    yield from mount_cases()
