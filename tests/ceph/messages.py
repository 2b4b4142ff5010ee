#!/usr/bin/python3
"""Locations and users that a gateway accepts or refuses, quotas, and snapshots."""

import errno

from scene import EVERY_WAY, Scene, fails, mount, program, same
from cases import main
from cephfs import NativeClient
from patience import wait_until

MIB = 1 << 20


def refused(scratch, location, *mentions):
    """Requires that no gateway starts with this location, and that the message has these words."""
    program.serve_refused(scratch, f"--export=/={location}:no_root_squash", mentions=mentions)


def locations(scratch):
    """A gateway serves two file systems of a cluster. No gateway starts without the configuration, the file system or the
    directory."""
    with Scene(file_systems=("cephfs", "archive")) as scene:
        refused(scratch, scene.location(conf=f"{scratch}/absent.conf"), f"{scratch}/absent.conf cannot be read")
        refused(scratch, scene.location(fs="absent"), "no file system absent")
        refused(scratch, scene.location("/absent"), "no directory /absent")
        with scene.gateway("/one", {"/archive": f"{scene.location('/', fs='archive')}:no_root_squash"}) as server, \
                mount(server, path="/one") as one, mount(server, path="/archive") as archive:
            archive.write_bytes("file", b"archived")
            assert one.listdir() == [], one.listdir()
        with NativeClient(scene.cluster, "archive") as native:
            same(native.read("/file"), b"archived", "natively")


def users(scratch):
    """No gateway starts as a user without a key, or with rights for another directory. A gateway needs no more rights than
    `ceph fs authorize cephfs client.NAME /export rw` gives."""
    with Scene(auth="cephx") as scene:
        refused(scratch, scene.location(user="nobody"), "client.nobody", "its key is missing or wrong")
        scene.cluster.make_user("other", mon="allow r", mds="allow rw path=/other", osd="allow rw pool=cephfs.data")
        refused(scratch, scene.location(user="other"), "client.other may not use this directory")
        scene.cluster.make_user("right", mon="allow r fsname=cephfs", mds="allow rw fsname=cephfs path=/export",
                                osd="allow rw tag cephfs data=cephfs")
        with program.Server({"/": f"{scene.location(user='right')}:no_root_squash"}) as server, mount(server) as client:
            client.write_bytes("file", b"octets")
            client.chown("file", 1234, 5678)
        same(scene.native.read("/export/file"), b"octets", "natively")


def no_quorum(scratch):
    """Without a monitor no gateway starts, and one that runs serves on. When the monitor is back, a gateway starts."""
    with Scene() as scene, scene.gateway() as server, mount(server) as client:
        client.write_bytes("file", b"octets")
        scene.cluster.stop_mon()
        refused(scratch, scene.location(), "no quorum")
        same(client.read_bytes("file"), b"octets", "without a monitor")
        scene.cluster.start_mon()
        with scene.gateway() as second, mount(second) as other:
            same(other.read_bytes("file"), b"octets", "with a monitor")


def quotas(_):
    """A write beyond the quota of a directory fails with EDQUOT, and so does a file beyond the number that the quota permits."""
    with Scene() as scene:
        scene.native.makedirs("/export/limited")
        scene.native.setxattr("/export/limited", "ceph.quota.max_bytes", b"%d" % (4 * MIB))
        scene.native.makedirs("/export/few")
        scene.native.setxattr("/export/few", "ceph.quota.max_files", b"3")
        with scene.gateway() as server:
            for way in EVERY_WAY:
                with mount(server, *way) as client:
                    name = f"limited/{'-'.join(way)}"
                    client.write_bytes(name, bytes(1000))
                    fails(lambda: client.write_bytes(name, bytes(8 * MIB)), errno.EDQUOT)
                    client.unlink(name)
                    client.write_bytes("outside", bytes(8 * MIB))

            def one_too_many():
                """Makes files until one fails. The gateway learns the number of files from the MDS after a while."""
                for number in range(10):
                    try:
                        client.write_bytes(f"few/{number}", b"")
                    except OSError as why:
                        assert why.errno == errno.EDQUOT, why
                        return True
                return False
            with mount(server) as client:
                wait_until(one_too_many, "more files than the quota permits")


def snapshots(_):
    """A snapshot shows the tree as it was, to clients of every version, and no client can change it."""
    with Scene() as scene, scene.gateway() as server, mount(server) as writer:
        writer.mkdir("tree")
        writer.write_bytes("tree/file", b"before")
        scene.native.mkdir("/export/tree/.snap/one")
        writer.write_bytes("tree/file", b"after")
        writer.write_bytes("tree/new", b"new")
        for way in EVERY_WAY:
            with mount(server, *way) as client:
                assert client.listdir("tree/.snap") == ["one"], way
                assert client.listdir("tree/.snap/one") == ["file"], way
                same(client.read_bytes("tree/.snap/one/file"), b"before", way)
                same(client.read_bytes("tree/file"), b"after", way)
                assert ".snap" not in client.listdir("tree"), way
                for change in (lambda: client.write_bytes("tree/.snap/one/new", b""), lambda: client.unlink("tree/.snap/one/file"),
                               lambda: client.truncate("tree/.snap/one/file", 0), lambda: client.chmod("tree/.snap/one/file", 0o600),
                               lambda: client.rename("tree/.snap/one/file", "tree/moved")):
                    fails(change, errno.EROFS, errno.EXDEV)
                same(client.read_bytes("tree/.snap/one/file"), b"before", way)


if __name__ == "__main__":
    main({"locations": locations, "users": users, "no_quorum": no_quorum, "quotas": quotas, "snapshots": snapshots})
