#!/usr/bin/python3
"""`penstock cp -r` and `penstock sync`: trees to a server, from it and between two servers, also after a kill.

TREE_FILES and TREE_MIB set the size of the tree of the case `kills`: 100000 and 8192 for the largest.
"""

import contextlib
import json
import os
import random
import signal
import stat
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import Skip, main  # noqa: E402
from files import MIB, make  # noqa: E402
from patience import SECONDS  # noqa: E402
from penstock import PENSTOCK, Server, penstock, penstock_ok as ok, penstock_refused as refused, under_way  # noqa: E402
from valve import Valve  # noqa: E402

WAYS = (("3", "rdma"), ("4.2", "tcp"))


def make_sparse(path, size, pieces):
    """A file of holes with some data."""
    with open(path, "wb") as file:
        for offset in pieces:
            file.seek(offset)
            file.write(random.Random(offset).randbytes(100_000))
        file.truncate(size)


def make_tree(root, files=60, size=2 * MIB):
    chance = random.Random(1)
    os.makedirs(root)
    for number in range(files):
        folder = f"{root}/d{number % 7}/e{number % 3}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/f{number}", "wb") as file:
            file.write(chance.randbytes(chance.choice([0, 1, 700, 5000, 70_000])))
        os.chmod(f"{folder}/f{number}", chance.choice([0o644, 0o600, 0o755]))
        os.utime(f"{folder}/f{number}", ns=(10**18 + number, 10**18 + 7 * number))
    os.symlink("../d1", f"{root}/d0/link")
    os.symlink("nowhere", f"{root}/dangling")
    os.link(f"{root}/d0/e0/f0", f"{root}/d1/second-name")
    os.makedirs(f"{root}/empty/deep")
    os.makedirs(f"{root}/closed")
    make_sparse(f"{root}/sparse", size + 12345, [0, size // 2, size - 200_000])
    make(f"{root}/large", size)
    os.chmod(f"{root}/closed", 0o500)
    for folder, _, _ in os.walk(root):
        os.utime(folder, ns=(10**18, 10**18 + 5))


def facts(root, times=True):
    """{path: everything that a copy keeps}, and the contents."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            each = [stat.S_IFMT(status.st_mode)]
            if stat.S_ISLNK(status.st_mode):
                each.append(os.readlink(path))
            else:
                each.append(stat.S_IMODE(status.st_mode))
                each.append(status.st_mtime_ns if times else None)
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    each.append(hash(file.read()))
            found[os.path.relpath(path, root)] = each
    return found


def assert_equal(got, wanted, times=True):
    ours, theirs = facts(got, times), facts(wanted, times)
    differing = {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}
    assert not differing, {name: (ours.get(name), theirs.get(name)) for name in list(differing)[:5]}


@contextlib.contextmanager
def serving(scratch, name="export"):
    os.makedirs(f"{scratch}/{name}")
    os.chmod(f"{scratch}/{name}", 0o777)
    with Server({"/": f"{scratch}/{name}:no_root_squash"}) as server:
        yield server


def url_of(server, path, version="4.2", transport="tcp"):
    return server.url(path, transport).replace("vers=3", f"vers={version}")


def both_ways(scratch):
    """A tree to a server and back has the same names, contents, modes and times, and its holes."""
    make_tree(f"{scratch}/tree")
    with serving(scratch) as server:
        for number, way in enumerate(WAYS):
            url = url_of(server, f"/up{number}", *way)
            ok("cp", "-r", "-p", "-H", f"{scratch}/tree", url)
            assert_equal(f"{scratch}/export/up{number}", f"{scratch}/tree")
            assert os.stat(f"{scratch}/export/up{number}/d1/second-name").st_nlink == 2
            ok("cp", "-r", "-p", "-H", url, f"{scratch}/down{number}")
            assert_equal(f"{scratch}/down{number}", f"{scratch}/tree")
            assert os.stat(f"{scratch}/down{number}/d1/second-name").st_nlink == 2
            for copied in (f"{scratch}/export/up{number}", f"{scratch}/down{number}"):
                assert os.stat(f"{copied}/sparse").st_blocks * 512 < MIB, "the holes are filled"
        # Without -p, into a directory that exists: the copy gets the name of its source.
        os.makedirs(f"{scratch}/into")
        ok("cp", "-r", url_of(server, "/up0"), url_of(server, "/up1/empty"), f"{scratch}/into")
        assert_equal(f"{scratch}/into/up0", f"{scratch}/tree", times=False)
        assert os.path.isdir(f"{scratch}/into/empty/deep")


def between_servers(scratch):
    """From one server to another, and within one server."""
    make_tree(f"{scratch}/tree")
    with serving(scratch, "one") as one, serving(scratch, "two") as two:
        ok("cp", "-r", "-p", f"{scratch}/tree", url_of(one, "/a"))
        ok("cp", "-r", "-p", "--verify", url_of(one, "/a"), url_of(two, "/b", "3", "rdma"))
        assert_equal(f"{scratch}/two/b", f"{scratch}/tree")
        for number, version in enumerate(("4.2", "3")):
            ok("sync", url_of(one, "/a", version), url_of(one, f"/c{number}", version))
            assert_equal(f"{scratch}/one/c{number}", f"{scratch}/tree")
        refused("cp", "-r", url_of(one, "/a"), url_of(one, "/a/d0"), mentions=["into itself"])


def synchronizes(scratch):
    """sync copies what differs, deletes only what it may, and tells what it does."""
    make_tree(f"{scratch}/tree")
    with serving(scratch) as server:
        url, copy = url_of(server, "/copy"), f"{scratch}/export/copy"

        def sync(*options):
            events = [json.loads(line) for line in ok("sync", "--json", *options, f"{scratch}/tree", url).splitlines()]
            assert events[-1]["event"] == "end" and events[-1]["errors"] == 0, events[-1]
            return {os.path.basename(each["to"]) for each in events if each["event"] == "file" and each["action"] != "same"}

        sync("-H")
        assert_equal(copy, f"{scratch}/tree")
        assert sync("-H") == set(), "nothing has changed"
        with open(f"{scratch}/tree/d0/e0/f0", "ab") as file:
            file.write(b"more")
        os.unlink(f"{scratch}/tree/d1/e1/f1")
        for name in ("extra", "kept.log"):
            make(f"{copy}/d2/{name}", 10)
        listed = ok("sync", "-n", "--delete", "--exclude", "*.log", f"{scratch}/tree", url).decode()
        assert "delete " in listed and "extra" in listed and os.path.exists(f"{copy}/d2/extra"), listed
        changed = sync("--delete", "--exclude", "*.log")
        assert {"f0", "f1", "extra"} <= changed and "kept.log" not in changed, changed
        os.unlink(f"{copy}/d2/kept.log")
        assert sync() == set()
        assert_equal(copy, f"{scratch}/tree")
        # The same size and time, another content.
        before = os.stat(f"{copy}/large")
        with open(f"{copy}/large", "r+b") as file:
            file.write(b"other")
        os.utime(f"{copy}/large", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert "large" not in sync() and "large" in sync("-c")
        assert_equal(copy, f"{scratch}/tree")


def killed_and_interrupted(scratch):
    """A killed copy leaves only temporary files beside complete ones, and the next copy removes them."""
    make_tree(f"{scratch}/tree", size=24 * MIB)
    for how in (signal.SIGKILL, signal.SIGINT):
        got = f"{scratch}/got-{how.name}"
        with Server({"/": f"{scratch}/tree:no_root_squash"}) as server:
            with Valve(server.tcp, 9 * MIB) as valve:
                stopped = url_of(server, "/").replace(str(server.tcp), str(valve.port))
                client = subprocess.Popen([PENSTOCK, "cp", "-q", "-r", "-p", stopped, got], stdin=subprocess.DEVNULL)
                valve.wait()
                time.sleep(0.1)
                client.send_signal(how)
                assert client.wait(SECONDS) == -how, client.returncode
                left = [name for _, _, names in os.walk(got) for name in names]
                parts = [name for name in left if ".penstock-" in name]
                assert bool(parts) == (how == signal.SIGKILL), left
                for folder, _, names in os.walk(got):
                    for name in set(names) - set(parts):
                        path = os.path.join(folder, name)
                        if not os.path.islink(path):
                            source = path.replace(got, f"{scratch}/tree")
                            assert os.stat(path).st_size == os.stat(source).st_size, path
                valve.open()
                ok("cp", "-r", "-p", stopped, got)
                for folder, _, names in os.walk(got):
                    assert not [name for name in names if ".penstock-" in name], names


def server_restarts(scratch):
    """A server that is killed and started again while it makes the objects of a tree: the copy goes on, and lacks nothing."""
    make_tree(f"{scratch}/tree", files=1500)
    for number in range(300):
        os.makedirs(f"{scratch}/tree/many/{number % 20}/{number}")
        os.symlink("../x", f"{scratch}/tree/many/{number % 20}/link{number}")
        os.link(f"{scratch}/tree/large", f"{scratch}/tree/many/{number % 20}/again{number}")
    os.utime(f"{scratch}/tree/many", ns=(10**18, 10**18 + 5))
    os.makedirs(f"{scratch}/export")
    chance = random.Random(5)
    with Server({"/": f"{scratch}/export:no_root_squash"}, ["--grace=2", "--lease=2"]) as server:
        for number, way in enumerate(WAYS):
            url = url_of(server, f"/copy{number}", *way)
            restarts = 0
            with under_way("sync", "-q", "-H", f"{scratch}/tree", url) as client:
                for _ in range(4):
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        client.wait(chance.uniform(0.05, 0.5))
                        break
                    server.kill()
                    server.start()
                    restarts += 1
                assert client.wait(SECONDS) == 0, client.returncode
            assert restarts > 0, "the copy ended too early"
            assert_equal(f"{scratch}/export/copy{number}", f"{scratch}/tree")
            assert os.stat(f"{scratch}/export/copy{number}/large").st_nlink == 301


def streams_and_patterns(scratch):
    """Standard input and output, patterns in URLs, a limit of the rate."""
    make(f"{scratch}/file", 3 * MIB + 5)
    with open(f"{scratch}/file", "rb") as file:
        content = file.read()
    with serving(scratch) as server:
        for way in WAYS:
            url = url_of(server, "/piped", *way)
            subprocess.run([PENSTOCK, "cp", "-", url], input=content, check=True)
            done = subprocess.run([PENSTOCK, "cp", "-q", url, "-"], stdout=subprocess.PIPE, check=True)
            assert done.stdout == content
        for name in ("a.iso", "b.iso", "c.txt", ".d.iso"):
            make(f"{scratch}/export/{name}", 100)
        os.makedirs(f"{scratch}/got")
        ok("cp", url_of(server, "/*.iso"), f"{scratch}/got")
        assert sorted(os.listdir(f"{scratch}/got")) == ["a.iso", "b.iso"], os.listdir(f"{scratch}/got")
        refused("cp", url_of(server, "/*.img"), f"{scratch}/got", mentions=["*.img", "no file matches"])
        began = time.monotonic()
        ok("cp", "--limit", "8M", f"{scratch}/file", url_of(server, "/slow"))
        assert time.monotonic() - began > 0.2, "the limit has no effect"


def mistakes(scratch):
    """Errors name both files, and the others are copied. Wrong usage has its own exit code."""
    os.makedirs(f"{scratch}/tree/sub")
    for name in ("a", "b", "sub/c"):
        make(f"{scratch}/tree/{name}", 10)
    with serving(scratch) as server:
        os.makedirs(f"{scratch}/export/x/b")
        url = url_of(server, "/x")
        done = penstock("cp", "-r", f"{scratch}/tree/.", url)
        assert done.returncode == 1 and f"{scratch}/tree/./b -> nfs://" in done.stderr and "/x/b: " in done.stderr, done.stderr
        assert os.path.exists(f"{scratch}/export/x/a") and os.path.exists(f"{scratch}/export/x/sub/c")
        refused("cp", f"{scratch}/tree", url, mentions=["tree -> nfs://", "is a directory", "-r"])
        refused("cp", f"{scratch}/absent", url, mentions=["absent: no such file or directory"])
        refused("cp", f"{scratch}/tree/a", f"{scratch}/tree/b", url_of(server, "/x/a"), mentions=["/x/a", "not a directory"])
        refused("sync", f"{scratch}/tree/a", url, mentions=["tree/a", "not a directory"])
        refused("sync", url_of(server, "/absent"), f"{scratch}/got", mentions=["/absent", "no such file"])
        with open("/dev/full", "w") as full:
            full_disk = subprocess.run([PENSTOCK, "sync", "--json", f"{scratch}/tree/sub", url_of(server, "/y")],
                                       stdout=full, stderr=subprocess.PIPE, text=True)
        assert full_disk.returncode == 1 and "standard output" in full_disk.stderr, full_disk.stderr
    for words, said in ((["cp", "a"], "a source and a target"), (["cp", "a", "b"], "nfs:// URL"), (["sync", "a", "b"], "nfs:// URL"),
                        (["sync", "a"], "TO is required"), (["cp", "-", "a", "nfs://h/b"], "- is for one source"),
                        (["cp", "--in-place", "-r", "a", "nfs://h/b"], "--in-place"), (["cp", "--limit", "fast", "a", "nfs://h/b"], "--limit fast"),
                        (["cp", "--jobs", "0", "a", "nfs://h/b"], "--jobs")):
        done = penstock(*words)
        assert done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1, (words, done.stderr)


def dry_runs(scratch):
    """--dry-run makes nothing, also where the source is the root of a tree. Options that a copy into the target itself does
    not have are wrong usage."""
    os.makedirs(f"{scratch}/tree")
    make(f"{scratch}/tree/file", 10)
    with serving(scratch) as server:
        make(f"{scratch}/export/there", 5)
        for command in (["sync", "-n", f"{scratch}/tree/.", url_of(server, "/new")], ["cp", "-r", "-n", f"{scratch}/tree/.", url_of(server, "/new")],
                        ["sync", "-n", url_of(server, "/"), f"{scratch}/new"], ["cp", "-n", f"{scratch}/tree/file", url_of(server, "/new")]):
            assert b"new" in ok(*command), command
            assert os.listdir(f"{scratch}/export") == ["there"] and not os.path.exists(f"{scratch}/new"), command
        ok("cp", "-r", f"{scratch}/tree/.", url_of(server, "/new"))
        assert os.listdir(f"{scratch}/export/new") == ["file"]
        # The new directory is in the source.
        refused("cp", "-r", url_of(server, "/"), url_of(server, "/inner"), mentions=["inner", "into itself"])
        assert sorted(os.listdir(f"{scratch}/export/inner")) == ["new", "there"]
        os.symlink("tree/file", f"{scratch}/link")
        before = os.stat(f"{scratch}/tree/file")
        for option in ("--dry-run", "-p", "--resume", "--verify", "--itemize", "--json", "--limit=1M"):
            for words in ([url_of(server, "/there"), "-"], [url_of(server, "/there"), f"{scratch}/link"],
                          ["--in-place", f"{scratch}/tree/file", url_of(server, "/there")]):
                done = penstock("cp", option, *words)
                assert done.returncode == 2 and "--in-place" in done.stderr and not done.stdout, (option, words, done)
        after = os.stat(f"{scratch}/tree/file")
        assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        assert os.stat(f"{scratch}/export/there").st_size == 5


def keeps_sources(scratch):
    """sync --delete does not delete the source of the copy in its target."""
    with serving(scratch) as server:
        for version in ("3", "4.2"):
            home = f"/v{version}"
            os.makedirs(f"{scratch}/export{home}/old/tree")
            for number in range(50):
                make(f"{scratch}/export{home}/old/tree/f{number}", 300_000)
            make(f"{scratch}/export{home}/other", 1)
            refused("sync", "--delete", url_of(server, f"{home}/old/tree", version), url_of(server, home, version),
                    mentions=["old", "the source of the copy is not deleted"])
            names = {f"f{number}" for number in range(50)}
            assert set(os.listdir(f"{scratch}/export{home}/old/tree")) == names
            assert set(os.listdir(f"{scratch}/export{home}")) == names | {"old"}


def empty_files(scratch):
    """A file without octets has attributes as others have. What comes from a pipe gets the permissions of a new file."""
    make(f"{scratch}/empty", 0)
    os.chmod(f"{scratch}/empty", 0o640)
    os.utime(f"{scratch}/empty", ns=(10**18, 10**18 + 9))
    os.umask(0o027)
    with serving(scratch) as server:
        ok("cp", "-p", f"{scratch}/empty", url_of(server, "/kept"))
        status = os.stat(f"{scratch}/export/kept")
        assert (stat.S_IMODE(status.st_mode), status.st_mtime_ns) == (0o640, 10**18 + 9), status
        ok("cp", f"{scratch}/empty", url_of(server, "/plain"))
        assert stat.S_IMODE(os.stat(f"{scratch}/export/plain").st_mode) == 0o640
        subprocess.run([PENSTOCK, "cp", "-", url_of(server, "/piped")], input=b"x", check=True)
        assert stat.S_IMODE(os.stat(f"{scratch}/export/piped").st_mode) == 0o640
        assert b"same" in ok("cp", "--json", "-p", "--resume", f"{scratch}/empty", url_of(server, "/kept"))


def becomes_shorter(scratch):
    """A source that is cut while its first part is copied is an error: what is missing is no hole."""
    with serving(scratch) as server:
        for number, upload in enumerate((True, False)):
            source = f"{scratch}/large" if upload else f"{scratch}/export/large"
            make(source, 300 * MIB)
            words = [source, url_of(server, "/copy")] if upload else [url_of(server, "/large"), f"{scratch}/copy"]
            client = subprocess.Popen([PENSTOCK, "cp", "-q", "--limit", "60M", *words], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(0.7)
            os.truncate(source, 200 * MIB)
            said = client.communicate(timeout=SECONDS)[1].decode()
            assert client.returncode == 1 and "became shorter" in said, (upload, client.returncode, said)
            assert not [name for name in os.listdir(f"{scratch}/export" if upload else scratch) if "copy" in name], number
            os.unlink(source)


def squashed(scratch):
    """Where the server does not let root set owners, the copy says so once, and copies every file."""
    if os.geteuid() != 0:
        raise Skip("only root sets owners")
    os.makedirs(f"{scratch}/tree")
    for number in range(100):
        make(f"{scratch}/tree/f{number}", 10)
        os.utime(f"{scratch}/tree/f{number}", (1000, 2000))
        os.chmod(f"{scratch}/tree/f{number}", 0o4711)
        os.symlink("x", f"{scratch}/tree/l{number}")
    os.makedirs(f"{scratch}/export")
    os.chmod(f"{scratch}/export", 0o777)
    with Server({"/": f"{scratch}/export:root_squash"}) as server:
        for version in ("3", "4.2"):
            done = penstock("cp", "-r", "-p", f"{scratch}/tree", url_of(server, f"/v{version}", version))
            assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "--no-owner" in done.stderr, done.stderr
            assert sorted(os.listdir(f"{scratch}/export/v{version}")) == sorted(os.listdir(f"{scratch}/tree"))
            for number in range(100):
                status = os.stat(f"{scratch}/export/v{version}/f{number}")
                assert (status.st_mtime, stat.S_IMODE(status.st_mode)) == (2000, 0o711), status


def kills(scratch):
    """Copies of a large tree, killed at random moments and run again, have every octet in the end."""
    files, size = int(os.environ.get("TREE_FILES", 3000)), int(os.environ.get("TREE_MIB", 1024)) * MIB
    make_tree(f"{scratch}/tree", files)
    chance = random.Random(os.environ.get("TREE_SEED", 3))
    make_sparse(f"{scratch}/tree/holes", size, [chance.randrange(size - MIB) for _ in range(100)])
    with open(f"{scratch}/tree/filled", "wb") as filled:
        block = chance.randbytes(16 * MIB)
        for _ in range(size // 2 // len(block)):
            filled.write(block)
    with serving(scratch) as server:
        for number, way in enumerate((*WAYS, ("4.1", "rdma"))):
            url = url_of(server, f"/copy{number}", *way)
            down = number == 1
            source, target = (url, f"{scratch}/got") if down else (f"{scratch}/tree", url)
            if down:
                ok("sync", "-H", f"{scratch}/tree", url)
            command = [PENSTOCK, "sync", "-q", "-H", "--delete", source, target]
            began = time.monotonic()
            wholly = 10.0
            for turn in range(20):
                client = subprocess.Popen(command, stdin=subprocess.DEVNULL)
                try:
                    assert client.wait(chance.uniform(0, wholly) / 5) == 0
                    wholly = min(wholly, max(0.2, time.monotonic() - began))
                except subprocess.TimeoutExpired:
                    client.kill()
                    client.wait()
                began = time.monotonic()
            ok(*command[1:])
            copy = f"{scratch}/got" if down else f"{scratch}/export/copy{number}"
            assert_equal(copy, f"{scratch}/tree")
            # The blocks of the file and of the tree around it.
            assert os.stat(f"{copy}/holes").st_blocks * 512 < size // 8 + 100 * MIB, "the holes are filled"


if __name__ == "__main__":
    main({case.__name__: case for case in (both_ways, between_servers, synchronizes, killed_and_interrupted, server_restarts, streams_and_patterns,
                                           mistakes, dry_runs, keeps_sources, empty_files, becomes_shorter, squashed, kills)})
