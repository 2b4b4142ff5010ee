#!/usr/bin/python3
"""One gateway of CephFS, in every version of NFS over TCP and RDMA."""

import errno
import os
import random
import stat
import threading

from scene import EVERY_WAY, Load, Scene, fails, mount, program, same, url
from cases import main
from files import assert_same, describe, make, make_sizes

ok, refused = program.penstock_ok, program.penstock_refused
SIZES = {"0": 0, "1": 1, "4095": 4095, "4097": 4097, "1m3": (1 << 20) + 3, "5m": 5 << 20}


def files(scratch):
    """Files of several sizes are written and read, and names are made, listed, renamed, linked and removed."""
    os.mkdir(f"{scratch}/in")
    make_sizes(f"{scratch}/in", SIZES)
    contents = {}
    for name in SIZES:
        with open(f"{scratch}/in/{name}", "rb") as file:
            contents[name] = file.read()
    with Scene() as scene, scene.gateway() as server:
        for way in EVERY_WAY:
            with mount(server, *way) as client:
                folder = "-".join(way)
                client.mkdir(folder, 0o750)
                assert stat.S_IMODE(client.stat(folder).st_mode) == 0o750
                for name, octets in contents.items():
                    client.upload(f"{scratch}/in/{name}", f"{folder}/{name}")
                    same(client.read_bytes(f"{folder}/{name}"), octets, f"{way} {name}")
                    same(scene.native.read(f"/export/{folder}/{name}"), octets, f"{way} {name}, natively")
                assert sorted(client.listdir(folder)) == sorted(SIZES), way
                client.rename(f"{folder}/1m3", f"{folder}/1")
                same(client.read_bytes(f"{folder}/1"), contents["1m3"], f"{way} renamed")
                client.link(f"{folder}/1", f"{folder}/link")
                assert client.stat(f"{folder}/link").st_nlink == 2
                client.unlink(f"{folder}/1")
                same(client.read_bytes(f"{folder}/link"), contents["1m3"], f"{way} linked")
                client.symlink("link", f"{folder}/symlink")
                assert client.readlink(f"{folder}/symlink") == "link"
                fails(lambda: client.rmdir(folder), errno.ENOTEMPTY)
                client.rmtree(folder)
                assert not client.exists(folder)


def many_names(_):
    """A listing of 3,000 names is complete. While names are removed, a listing has no name twice and all names that stay."""
    with Scene() as scene, scene.gateway() as server, mount(server) as client, mount(server, "rdma", "3") as remover:
        client.mkdir("many")
        for number in range(3000):
            client.write_bytes(f"many/{number}", b"")
        wanted = sorted(map(str, range(3000)))
        for way in EVERY_WAY:
            with mount(server, *way) as other:
                assert sorted(other.listdir("many")) == wanted, way
        removing = threading.Thread(target=lambda: [remover.unlink(f"many/{number}") for number in range(0, 3000, 3)])
        removing.start()
        staying = {str(number) for number in range(3000) if number % 3}
        while removing.is_alive():
            seen = client.listdir("many")
            assert len(seen) == len(set(seen)), "a listing has a name twice"
            assert staying <= set(seen), "a listing lacks a name that stays"
        assert sorted(client.listdir("many")) == sorted(staying)


def sparse(_):
    """A file of 5 GiB has a hole, which reads as zeros. The file is shortened and lengthened."""
    with Scene() as scene, scene.gateway() as server:
        for way in EVERY_WAY:
            with mount(server, *way) as client:
                with client.open("file", "wb", buffering=0) as file:
                    file.pwrite(b"end", 5 << 30)
                    file.pwrite(b"begin", 0)
                assert client.stat("file").st_size == (5 << 30) + 3
                with client.open("file", "rb", buffering=0) as file:
                    same(file.pread(1 << 20, (5 << 30) - 1000), bytes(1000) + b"end", f"{way} end")
                    same(file.pread(1 << 20, 4 << 20), bytes(1 << 20), f"{way} hole")
                client.truncate("file", 3)
                client.truncate("file", 10)
                same(client.read_bytes("file"), b"beg" + bytes(7), way)
                client.unlink("file")


def attributes(_):
    """Modes, owners and times; extended attributes in version 4.2; access control lists of each kind. Another user may do only
    what these permit."""
    with Scene() as scene, scene.gateway() as server:
        for way in EVERY_WAY:
            with mount(server, *way) as client:
                client.write_bytes("file", b"octets")
                client.chmod("file", 0o640)
                client.chown("file", 1234, 5678)
                client.utime("file", ns=(1_000_000_000_123_456_000, 1_500_000_000_654_321_000))
                now = client.stat("file")
                assert (stat.S_IMODE(now.st_mode), now.st_uid, now.st_gid) == (0o640, 1234, 5678), (way, now)
                assert (now.st_atime_ns, now.st_mtime_ns) == (1_000_000_000_123_456_000, 1_500_000_000_654_321_000), (way, now)
            file = url(server, "/file", *way)
            with mount(server, *way, more="&uid=4321&gid=4321") as other:
                fails(lambda: other.read_bytes("file"), errno.EACCES)
                if way[1] == "3":
                    ok("setfacl", "-m", "u:4321:r", file)
                    assert b"user:4321:r--" in ok("getfacl", "-n", file), way
                else:
                    ok("setfacl", "-m", "A::4321:r", file)
                    assert b"A::4321:r" in ok("getfacl", file), way
                same(other.read_bytes("file"), b"octets", f"{way}, another user")
                fails(lambda: other.write_bytes("file", b""), errno.EACCES)
                fails(lambda: other.chmod("file", 0o666), errno.EPERM)
            if way[1] == "4.2":
                ok("setfattr", "-n", "user.color", "-v", "blue", file)
                assert ok("getfattr", "--only-values", "-n", "user.color", file) == b"blue", way
                ok("setfattr", "-x", "user.color", file)
                refused("getfattr", "-n", "user.color", file, mentions=["no attribute user.color"])
            ok("rm", file)


def trees(scratch):
    """A tree is copied to the gateway and back. The result has the contents, modes, times and symbolic links of the source."""
    chance = random.Random(1)
    for folder in ("tree", "tree/a", "tree/a/b", "tree/empty"):
        os.mkdir(f"{scratch}/{folder}")
    for number in range(150):
        make(f"{scratch}/tree/{chance.choice(('', 'a/', 'a/b/'))}{number}", chance.randrange(30_000))
    os.chmod(f"{scratch}/tree/a/b", 0o711)
    os.symlink("../nowhere", f"{scratch}/tree/a/link")
    with open(f"{scratch}/tree/holes", "wb") as file:
        file.truncate(8 << 20)
        file.seek(4 << 20)
        file.write(b"octets")
    wanted = describe(f"{scratch}/tree")
    with Scene() as scene, scene.gateway() as server:
        for transport, version in ("tcp", "3"), ("rdma", "4.2"):
            there = url(server, f"/{transport}", transport, version)
            ok("cp", "-a", "--verify", f"{scratch}/tree", there)
            ok("cp", "-a", there, f"{scratch}/{transport}")
            assert_same(describe(f"{scratch}/{transport}"), wanted, f"{transport} {version}")


def restart(_):
    """Mounts and open files of every version survive a restart of the gateway, and so does a load."""
    with Scene() as scene, scene.gateway() as server:
        with mount(server) as client, mount(server, "rdma", "3") as other:
            for each in EVERY_WAY:
                with mount(server, *each) as one:
                    name = "-".join(each)
                    with one.open(name, "w+b", buffering=0) as file:
                        file.pwrite(b"before", 0)
                        file.fsync()
                        assert server.stop() == 0
                        server.start()
                        same(file.pread(100, 0), b"before", each)
                        file.pwrite(b"after", 6)
                    same(one.read_bytes(name), b"beforeafter", each)
            load = Load([client, other], retried=True)
            with load.running():
                load.await_progress()
                assert server.stop() == 0
                server.start()
                load.await_progress()


if __name__ == "__main__":
    main({"files": files, "many_names": many_names, "sparse": sparse, "attributes": attributes, "trees": trees, "restart": restart})
