#!/usr/bin/python3
"""`penstock cp` and `penstock sync` with --acls and --xattrs: to a server, from it and between two, also after a kill."""

import errno
import json
import os
import signal
import stat
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cases import Skip, main  # noqa: E402
from copy_trees import serving, url_of  # noqa: E402
from files import MIB, make  # noqa: E402
from patience import SECONDS  # noqa: E402
from penstock import PENSTOCK, Server, penstock, penstock_ok as ok  # noqa: E402
from valve import Valve  # noqa: E402

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 1, 2, 4, 8, 0x10, 0x20


def acl(*entries):
    """A list as Linux has it in an extended attribute, of (tag, permissions[, id])."""
    octets = struct.pack("<I", 2)
    for tag, permissions, *number in entries:
        octets += struct.pack("<HHI", tag, permissions, *(number or [0xffffffff]))
    return octets


# The group has less than the mask, which the mode shows, and one user has less than all others.
SHARED = acl((USER_OBJ, 6), (USER, 7, 1003), (USER, 0, 1004), (GROUP_OBJ, 4), (GROUP, 2, 2001), (MASK, 7), (OTHER, 4))
INHERITED = acl((USER_OBJ, 7), (USER, 5, 1003), (GROUP_OBJ, 5), (MASK, 5), (OTHER, 0))


def set_or_skip(path, name, value):
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            raise Skip(f"the file system of {path} has no {name}") from error
        raise


def make_tree(root):
    os.makedirs(f"{root}/inheriting/deep")
    for name, size in (("plain", 10), ("shared", 700), ("empty", 0), ("large", 2 * MIB + 5), ("inheriting/file", 5), ("both", 20)):
        make(f"{root}/{name}", size)
        os.chmod(f"{root}/{name}", 0o644)
    for name in ("shared", "large", "both"):
        set_or_skip(f"{root}/{name}", ACCESS, SHARED)
    set_or_skip(f"{root}/inheriting", DEFAULT, INHERITED)
    for name in ("empty", "both", "large", "inheriting"):
        set_or_skip(f"{root}/{name}", "user.color", name.encode())
    os.setxattr(f"{root}/both", "user.octets", bytes(range(256)))
    os.setxattr(f"{root}/both", "user.none", b"")
    os.chmod(f"{root}/empty", 0o444)
    os.mkfifo(f"{root}/pipe")
    os.setxattr(f"{root}/pipe", ACCESS, SHARED)
    os.symlink("shared", f"{root}/link")
    for folder, _, files in os.walk(root):
        for name in files:
            os.utime(f"{folder}/{name}", ns=(10**18, 10**18 + 7), follow_symlinks=False)


def extras(path, xattrs=True):
    found = {name: os.getxattr(path, name, follow_symlinks=False) for name in os.listxattr(path, follow_symlinks=False)
             if name in (ACCESS, DEFAULT) or (xattrs and name.startswith("user."))}
    return stat.S_IMODE(os.lstat(path).st_mode), found


def assert_equal(got, wanted, xattrs=True):
    names = [os.path.relpath(os.path.join(folder, name), wanted) for folder, folders, files in os.walk(wanted) for name in folders + files]
    assert len(names) > 8, names
    for name in names:
        ours, theirs = extras(f"{got}/{name}", xattrs), extras(f"{wanted}/{name}", xattrs)
        assert ours == theirs, (name, ours, theirs)


def sync(*arguments):
    """{name: actions} of what a sync has done, without what was the same."""
    done = {}
    for line in ok("sync", "--json", *arguments).splitlines():
        event = json.loads(line)
        if event["event"] == "file" and event["action"] != "same":
            done.setdefault(os.path.basename(event["to"]), set()).add(event["action"])
    return done


def all_ways(scratch):
    """Lists and attributes of files, directories and FIFOs go up, down and between servers, and are not inherited instead."""
    make_tree(f"{scratch}/tree")
    with serving(scratch, "one") as one, serving(scratch, "two") as two:
        for export in ("one", "two"):
            os.setxattr(f"{scratch}/{export}", DEFAULT, INHERITED)
        for transport in ("tcp", "rdma"):
            url = url_of(one, f"/{transport}", transport=transport)
            ok("cp", "-a", "-A", "-X", f"{scratch}/tree", url)
            assert_equal(f"{scratch}/one/{transport}", f"{scratch}/tree")
            ok("sync", "-A", "-X", url, f"{scratch}/down-{transport}")
            assert_equal(f"{scratch}/down-{transport}", f"{scratch}/tree")
        ok("sync", "-A", "-X", url_of(one, "/tcp"), url_of(two, "/other"))
        assert_equal(f"{scratch}/two/other", f"{scratch}/tree")
        ok("sync", "-A", "-X", url_of(one, "/tcp"), url_of(one, "/within"))
        assert_equal(f"{scratch}/one/within", f"{scratch}/tree")
        # Version 3 has lists, and between the versions they stay the same.
        for number, (up, down) in enumerate((("3", "3"), ("4.0", "3"), ("3", "4.1"))):
            ok("sync", "--acls", f"{scratch}/tree", url_of(one, f"/v{number}", up))
            assert_equal(f"{scratch}/one/v{number}", f"{scratch}/tree", xattrs=False)
            ok("sync", "--acls", url_of(one, f"/v{number}", down), f"{scratch}/v{number}")
            assert_equal(f"{scratch}/v{number}", f"{scratch}/tree", xattrs=False)
        ok("sync", "--acls", url_of(one, "/v0", "3"), url_of(two, "/v3", "4.2"))
        assert_equal(f"{scratch}/two/v3", f"{scratch}/tree", xattrs=False)
        for version in ("3", "4.2"):
            assert sync("-A", f"{scratch}/tree", url_of(one, "/v0", version)) == {}, "nothing has changed"


def mends(scratch):
    """sync finds a difference in lists or attributes alone, and mends only that. Without the options it leaves both."""
    make_tree(f"{scratch}/tree")
    with serving(scratch) as server:
        url, copy = url_of(server, "/copy"), f"{scratch}/export/copy"
        sync("-A", "-X", f"{scratch}/tree", url)
        assert sync("-A", "-X", f"{scratch}/tree", url) == {}
        numbers = {name: os.stat(f"{copy}/{name}").st_ino for name in ("plain", "shared", "both", "empty")}
        os.setxattr(f"{scratch}/tree/plain", ACCESS, SHARED)
        os.removexattr(f"{scratch}/tree/shared", ACCESS)
        os.chmod(f"{scratch}/tree/shared", 0o640)
        os.setxattr(f"{scratch}/tree/both", "user.color", b"other")
        os.removexattr(f"{scratch}/tree/both", "user.none")
        os.setxattr(f"{copy}/empty", "user.extra", b"x")
        os.removexattr(f"{scratch}/tree/inheriting", DEFAULT)
        os.setxattr(f"{scratch}/tree/inheriting/deep", "user.new", b"")
        assert sync(f"{scratch}/tree", url) == {}, "without the options"
        wanted = {"plain": {"acl"}, "shared": {"acl"}, "both": {"xattrs"}, "empty": {"xattrs"}, "inheriting": {"acl"}, "deep": {"xattrs"}}
        before = {name: extras(f"{copy}/{name}") for name in numbers}
        listed = ok("sync", "-n", "-A", "-X", f"{scratch}/tree", url).decode()
        assert sorted(line.split()[0] for line in listed.splitlines()) == ["acl"] * 3 + ["xattrs"] * 3, listed
        assert before == {name: extras(f"{copy}/{name}") for name in numbers}, "a dry run"
        assert sync("-A", "-X", f"{scratch}/tree", url) == wanted
        assert_equal(copy, f"{scratch}/tree")
        assert numbers == {name: os.stat(f"{copy}/{name}").st_ino for name in numbers}, "a file was copied"
        assert sync("-A", "-X", f"{scratch}/tree", url) == {}
        # The same from the server to this machine, over version 3 for the lists.
        sync("-A", "-X", url, f"{scratch}/down")
        os.setxattr(f"{copy}/large", ACCESS, INHERITED)
        assert sync("-A", url_of(server, "/copy", "3"), f"{scratch}/down") == {"large": {"acl"}}
        assert_equal(f"{scratch}/down", copy)


def without_room(scratch):
    """An end that cannot hold something: the message names the file and why, and the file is there."""
    os.makedirs(f"{scratch}/tree")
    for name in ("colored", "plain", "shared"):
        make(f"{scratch}/tree/{name}", 100)
        os.chmod(f"{scratch}/tree/{name}", 0o640)
    set_or_skip(f"{scratch}/tree/colored", "user.color", b"blue")
    set_or_skip(f"{scratch}/tree/shared", ACCESS, SHARED)
    with serving(scratch) as server:
        for version in ("3", "4.0", "4.1"):
            done = penstock("sync", "-X", f"{scratch}/tree", url_of(server, f"/x{version}", version))
            assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
            assert "tree/colored -> " in done.stderr and "extended attributes" in done.stderr, done.stderr
            assert sorted(os.listdir(f"{scratch}/export/x{version}")) == ["colored", "plain", "shared"]
            # A source that cannot tell is named once.
            done = penstock("sync", "-X", url_of(server, f"/x{version}", version), f"{scratch}/down{version}")
            assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "version 4.2" in done.stderr, done.stderr
            assert sorted(os.listdir(f"{scratch}/down{version}")) == ["colored", "plain", "shared"]
        # A value that a file system has no room for does not end the copy.
        large = f"{scratch}/export/large"
        make(large, 100)
        try:
            os.setxattr(large, "user.big", b"x" * 60_000)
            with_room, without = "/export", None
        except OSError:
            with_room, without = "/dev/shm", f"{scratch}/tree"
        if without and os.path.isdir(with_room):
            roomy = f"{with_room}/penstock-{os.getpid()}"
            os.makedirs(roomy)
            try:
                for name in ("a", "b", "c"):
                    make(f"{roomy}/{name}", 10)
                    set_or_skip(f"{roomy}/{name}", "user.color", b"red")
                set_or_skip(f"{roomy}/b", "user.big", b"x" * 60_000)
                done = penstock("sync", "-X", roomy, url_of(server, "/roomy"))
                assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
                assert "/b -> " in done.stderr and "user.big" in done.stderr, done.stderr
                for name in ("a", "b", "c"):
                    assert extras(f"{scratch}/export/roomy/{name}")[1] == {"user.color": b"red"}, name
            finally:
                subprocess.run(["rm", "-r", roomy], check=True)
    for option in ("--acls", "--xattrs"):
        done = penstock("cp", option, "--in-place", f"{scratch}/tree/plain", "nfs://h/b")
        assert done.returncode == 2 and option in done.stderr, done.stderr


def read_only(scratch):
    """A target that cannot be changed: errors, and exit code 1."""
    make_tree(f"{scratch}/tree")
    os.makedirs(f"{scratch}/export/copy")
    with Server({"/": f"{scratch}/export:no_root_squash"}) as server:
        ok("sync", f"{scratch}/tree", url_of(server, "/copy"))
    with Server({"/": f"{scratch}/export:ro,no_root_squash"}) as server:
        done = penstock("sync", "-A", "-X", f"{scratch}/tree", url_of(server, "/copy"))
        assert done.returncode == 1, done
        for name in ("shared", "both"):
            assert any(f"tree/{name} -> " in line and "read-only" in line for line in done.stderr.splitlines()), done.stderr


def of_a_user(scratch):
    """A user keeps lists and attributes of files that the user may not write to, and mends them; their modes stay."""
    how = {} if os.geteuid() != 0 else {"user": 1000, "group": 1000, "extra_groups": []}
    os.makedirs(f"{scratch}/home/tree/folder")
    for name in ("file", "folder"):
        if name == "file":
            make(f"{scratch}/home/tree/{name}", 50)
            set_or_skip(f"{scratch}/home/tree/{name}", ACCESS, SHARED)
        set_or_skip(f"{scratch}/home/tree/{name}", "user.color", b"blue")
        os.chmod(f"{scratch}/home/tree/{name}", 0o570)
    if how:
        subprocess.run(["chown", "-R", "1000:1000", f"{scratch}/home"], check=True)

    def run(*arguments):
        done = penstock("sync", "-A", "-X", *arguments, **how)
        assert done.returncode == 0, done.stderr

    with serving(scratch) as server:
        up, down, url = f"{scratch}/export/up", f"{scratch}/home/down", url_of(server, "/up")
        for color in (b"blue", b"green"):
            for name in ("file", "folder"):
                os.chmod(f"{scratch}/home/tree/{name}", 0o770)
                os.setxattr(f"{scratch}/home/tree/{name}", "user.color", color)
                os.chmod(f"{scratch}/home/tree/{name}", 0o570)
            run(f"{scratch}/home/tree", url)
            run(url, down)
            for name in ("file", "folder"):
                wanted = extras(f"{scratch}/home/tree/{name}")
                assert wanted[0] == 0o570 and wanted[1]["user.color"] == color, wanted
                assert extras(f"{up}/{name}") == extras(f"{down}/{name}") == wanted, name


def killed(scratch):
    """A file that has its final name after a kill has its list and attributes. The next run completes what other objects lack."""
    make_tree(f"{scratch}/tree")
    for number in range(40):
        path = f"{scratch}/tree/f{number}"
        make(path, 400_000)
        os.setxattr(path, ACCESS, SHARED)
        os.setxattr(path, "user.number", str(number).encode())
        os.utime(path, ns=(10**18, 10**18))
    got = f"{scratch}/got"
    command = ["sync", "-q", "-A", "-X"]
    with Server({"/": f"{scratch}/tree:no_root_squash"}) as server:
        for size in (2, 5):
            with Valve(server.tcp, size * MIB) as valve:
                url = url_of(server, "/").replace(str(server.tcp), str(valve.port))
                client = subprocess.Popen([PENSTOCK, *command, url, got], stdin=subprocess.DEVNULL)
                valve.wait()
                time.sleep(0.1)
                client.send_signal(signal.SIGKILL)
                assert client.wait(SECONDS) == -signal.SIGKILL, client.returncode
            for folder, _, names in os.walk(got):
                for name in names:
                    path = os.path.join(folder, name)
                    if ".penstock-" not in name and stat.S_ISREG(os.lstat(path).st_mode):
                        assert extras(path) == extras(path.replace(got, f"{scratch}/tree")), path
        ok(*command, url_of(server, "/"), got)
    assert_equal(got, f"{scratch}/tree")


if __name__ == "__main__":
    main({case.__name__: case for case in (all_ways, mends, without_room, read_only, of_a_user, killed)})
