#!/usr/bin/python3
"""NFS version 2, versions 1 and 2 of MOUNT and version 2 of NFSACL on the real program: `penstock serve --nfs2`."""

import os
import shutil
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from capture import Capture  # noqa: E402
from cases import Skip, main  # noqa: E402
import penstock  # noqa: E402
from penstock import Server  # noqa: E402
from rpc_messages import NULL, PROC_UNAVAIL, PROG_MISMATCH, Client, RpcReply, call, opaque, words  # noqa: E402
from tcp_peer import TcpClient  # noqa: E402

NFS2, NFS3, MOUNT1, MOUNT2, MOUNT3 = (100003, 2), (100003, 3), (100005, 1), (100005, 2), (100005, 3)
NFSACL2, NFSACL3 = (100227, 2), (100227, 3)
GETACL2, SETACL2, GETATTR2, ACCESS2 = 1, 2, 3, 4
GETATTR, LOOKUP, READ, WRITE, CREATE, REMOVE, READDIR, STATFS = 1, 4, 6, 8, 9, 10, 16, 17
MNT = 1
UNSET = 0xFFFFFFFF
IO, FBIG = 5, 27


class Tcp(TcpClient):
    """A client over TCP that makes one call after the other."""

    def reply_to(self, program, procedure, arguments=b""):
        self.send_call(call(procedure, arguments, program))
        return RpcReply(self.take_reply())

    def call(self, procedure, arguments=b"", program=NFS2):
        reply = self.reply_to(program, procedure, arguments)
        assert reply.status == ("success",), f"procedure {procedure}: {reply.status}"
        return reply.results


def status_of(results):
    return struct.unpack_from(">I", results)[0]


def sattr(mode=UNSET, size=UNSET):
    return words(mode, UNSET, UNSET, size, UNSET, UNSET, UNSET, UNSET)


def mounted(server, path=b"/", program=MOUNT1):
    """Returns the handle of an export. Skips the test if the file system's handles do not fit into version 2."""
    client = Tcp(server.mount)
    results = client.call(MNT, opaque(path), program)
    client.close()
    if status_of(results) == IO and complaints(server):
        raise Skip("the file handles of the scratch folder's file system are too long for version 2")
    assert status_of(results) == 0 and len(results) == 36, results.hex()
    return results[4:]


def complaints(server):
    """Returns the lines that say that version 2 cannot use an export."""
    return [line for line in server.lines if "too long" in line]


def entries(results):
    """Returns ([(name, cookie)], end of the directory) of a READDIR."""
    assert status_of(results) == 0, f"status {status_of(results)}"
    found, at = [], 4
    while struct.unpack_from(">I", results, at)[0]:
        _, size = struct.unpack_from(">II", results, at + 4)
        at += 12
        name = results[at:at + size].decode()
        at += size + -size % 4
        found.append((name, struct.unpack_from(">I", results, at)[0]))
        at += 4
    return found, struct.unpack_from(">I", results, at + 4)[0] == 1


def off_by_default(scratch):
    """Without the option, the server speaks version 3 and 4 of NFS and version 3 of MOUNT only, and says so."""
    os.mkdir(f"{scratch}/export")
    with Server({"/": f"{scratch}/export"}) as server:
        client = Tcp(server.tcp)
        assert client.reply_to(NFS2, NULL).status == ("accepted", PROG_MISMATCH, 3, 4)
        for program in (MOUNT1, MOUNT2, NFSACL2):
            assert client.reply_to(program, NULL).status == ("accepted", PROG_MISMATCH, 3, 3)
        assert client.reply_to(MOUNT3, NULL).status == ("success",)
        client.close()


def versions(scratch):
    """With the option, the ranges of versions are larger."""
    os.mkdir(f"{scratch}/export")
    with Server({"/": f"{scratch}/export"}, ["--nfs2"]) as server:
        client = Tcp(server.tcp)
        for program in (NFS2, NFS3, MOUNT1, MOUNT2, MOUNT3, NFSACL2, NFSACL3):
            assert client.reply_to(program, NULL).status == ("success",), program
        assert client.reply_to((100003, 1), NULL).status == ("accepted", PROG_MISMATCH, 2, 4)
        assert client.reply_to((100005, 4), NULL).status == ("accepted", PROG_MISMATCH, 1, 3)
        assert client.reply_to((100227, 4), NULL).status == ("accepted", PROG_MISMATCH, 2, 3)
        assert client.reply_to(NFS2, 18).status == ("accepted", PROC_UNAVAIL)
        client.close()
        rdma = Client(server.rdma)
        rdma.call(NULL, program=NFS2)
        rdma.close()


def files(scratch):
    """A file is made, written and read; its handle outlives the server. The host sees the same data."""
    os.mkdir(f"{scratch}/export")
    with Server({"/": f"{scratch}/export:no_root_squash"}, ["--nfs2"]) as server:
        root = mounted(server)
        assert mounted(server, program=MOUNT2) == root
        client = Tcp(server.tcp)
        made = client.call(CREATE, root + opaque(b"file") + sattr(0o100640))
        assert status_of(made) == 0
        file = made[4:36]
        text = bytes(range(256)) * 32
        for offset in range(0, 3 * 8192, 8192):
            assert status_of(client.call(WRITE, file + words(0, offset, 0) + opaque(text))) == 0
        client.close()
        server.kill()
        server.start()
        client = Tcp(server.tcp)
        read = client.call(READ, file + words(8192, 20000, 0))
        assert status_of(read) == 0 and read[-8192:] == text
        assert status_of(client.call(STATFS, root)) == 0
        client.close()
        with open(f"{scratch}/export/file", "rb") as on_host:
            assert on_host.read() == 3 * text
        assert os.stat(f"{scratch}/export/file").st_mode == 0o100640


def acls(scratch):
    """NFSACL version 2 sets an access control list, over TCP and over RDMA, which the host then has as well; tshark reads
    the calls over TCP."""
    folder = f"{scratch}/export"
    os.mkdir(folder)
    for name in ("tcp", "rdma"):
        with open(f"{folder}/{name}", "w"):
            pass
        os.chmod(f"{folder}/{name}", 0o600)
    owner = os.stat(folder).st_uid, os.stat(folder).st_gid
    # (type, id, permissions): the owner, a user, the owning group, the mask, all others
    entries_set = [(1, 0, 6), (2, 1003, 4), (4, 0, 0), (16, 0, 4), (32, 0, 0)]
    # The server reports the ids of the owner and of the owning group.
    entries_got = [(1, owner[0], 6), (2, 1003, 4), (4, owner[1], 0), (16, 0, 4), (32, 0, 0)]
    with Server({"/": f"{folder}:no_root_squash"}, ["--nfs2"]) as server, Capture("nfs2_acls", server):
        root = mounted(server)
        client, rdma = Tcp(server.tcp), Client(server.rdma)
        for name, call_acl in (("tcp", lambda *of: client.call(*of, NFSACL2)),
                               ("rdma", lambda *of: rdma.call(*of, program=NFSACL2))):
            file = client.call(LOOKUP, root + opaque(name.encode()))[4:36]
            made = b"".join(words(*entry) for entry in entries_set)
            set_reply = call_acl(SETACL2, file + words(1, len(entries_set), len(entries_set)) + made + words(0, 0))
            assert status_of(set_reply) == 0 and len(set_reply) == 4 + 68, set_reply.hex()
            assert struct.unpack_from(">I", set_reply, 8)[0] == 0o100640
            got = call_acl(GETACL2, file + words(15))
            assert got[:72] == set_reply, "the attributes"
            listed = b"".join(words(*entry) for entry in entries_got)
            assert got[72:] == words(15, len(entries_got), len(entries_got)) + listed + words(0, 0), got[72:].hex()
            assert call_acl(GETATTR2, file) == set_reply
            assert call_acl(ACCESS2, file + words(0x3F)) == set_reply + words(0x0D)
            on_host = os.getxattr(f"{folder}/{name}", "system.posix_acl_access")
            assert struct.unpack_from("<HHI", on_host, 4 + 8) == (2, 4, 1003), on_host.hex()
        rdma.close()
        client.close()


def large_files(scratch):
    """Version 2 has no sizes of 4 GiB and more. It neither reads nor changes such a file, and says why."""
    os.mkdir(f"{scratch}/export")
    for name, size in (("largest", 0xFFFFFFFF), ("larger", 0x100000000)):
        with open(f"{scratch}/export/{name}", "wb") as file:
            file.truncate(size)
    with Server({"/": f"{scratch}/export:no_root_squash"}, ["--nfs2"]) as server:
        root = mounted(server)
        client = Tcp(server.tcp)
        found = client.call(LOOKUP, root + opaque(b"largest"))
        assert status_of(found) == 0 and struct.unpack_from(">I", found, 36 + 20)[0] == 0xFFFFFFFF
        assert status_of(client.call(LOOKUP, root + opaque(b"larger"))) == FBIG
        largest = found[4:36]
        assert status_of(client.call(WRITE, largest + words(0, 0xFFFFFFFF, 0) + opaque(b"x"))) == FBIG
        with open(f"{scratch}/export/largest", "ab") as file:
            file.write(b"more")
        assert status_of(client.call(GETATTR, largest)) == FBIG
        assert status_of(client.call(WRITE, largest + words(0, 0, 0) + opaque(b"x"))) == FBIG
        client.close()
    with open(f"{scratch}/export/largest", "rb") as file:
        assert file.read(1) == b"\0"


COUNT = 5000


def large_directory(scratch):
    """Two clients list a directory of many names at once, one of them removes what it lists: each name comes exactly
    once. After a restart, a cookie leads to the next name or is an error, and most lead to the next name."""
    folder = f"{scratch}/export"
    os.mkdir(folder)
    names = {f"a name {number}" for number in range(COUNT)}
    for name in names:
        os.mknod(f"{folder}/{name}")
    with Server({"/": f"{folder}:no_root_squash"}, ["--nfs2"]) as server:
        root = mounted(server)
        clients = [Tcp(server.tcp), Tcp(server.tcp)]
        listed, cookies, ends = [[], []], [0, 0], [False, False]
        while not all(ends):
            for index in (0, 1):
                if ends[index]:
                    continue
                found, ends[index] = entries(clients[index].call(READDIR, root + words(cookies[index], 4096)))
                assert found or ends[index], "an empty reply"
                for name, cookies[index] in found:
                    if name in (".", ".."):
                        continue
                    listed[index].append(name)
                    if index == 0 and ends[1]:
                        assert status_of(clients[0].call(REMOVE, root + opaque(name.encode()))) == 0
            # The first client starts its listing when the other one has half of the names.
            if len(listed[1]) < COUNT // 2:
                listed[0], cookies[0], ends[0] = [], 0, False
        for got in listed:
            assert len(got) == len(names) and set(got) == names, (len(got), len(set(got) ^ names))
        for number in range(300):
            os.mknod(f"{folder}/another name {number}")
        found, _ = entries(clients[0].call(READDIR, root + words(0, 4096)))
        assert len(found) > 100
        server.kill()
        server.start()
        client = Tcp(server.tcp)
        unknown = 0
        for (name, cookie), (following, _) in zip(found, found[1:]):
            results = client.call(READDIR, root + words(cookie, 4096))
            if status_of(results) == IO:
                unknown += 1
            else:
                assert entries(results)[0][0][0] == following, (name, cookie)
        assert unknown <= 2, unknown
        client.close()


def handles_too_long(scratch):
    """Where the kernel gives no handles, the server's own are too long. It says so once, when it starts."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("only root may take a right from the server, with setpriv (package util-linux)")
    os.mkdir(f"{scratch}/export")
    program = f"{scratch}/penstock"
    with open(program, "w") as script:
        script.write(f"#!/bin/sh\nexec setpriv --bounding-set=-dac_read_search {os.path.abspath(penstock.PENSTOCK)} \"$@\"\n")
    os.chmod(program, 0o755)
    penstock.PENSTOCK = program
    with Server({"/": f"{scratch}/export"}, ["--nfs2"]) as server:
        assert len(complaints(server)) == 1, server.lines
        client = Tcp(server.mount)
        assert status_of(client.call(MNT, opaque(b"/"), MOUNT1)) == IO
        assert status_of(client.call(MNT, opaque(b"/"), MOUNT3)) == 0
        client.close()
        assert len(complaints(server)) == 1, server.lines


CASES = {"off_by_default": off_by_default, "versions": versions, "files": files, "acls": acls, "large_files": large_files,
         "large_directory": large_directory, "handles_too_long": handles_too_long}

if __name__ == "__main__":
    main(CASES)
