#!/usr/bin/python3
"""penstock mount: programs use a server's tree in a directory of this host, by FUSE."""

import contextlib
import errno
import fcntl
import os
import random
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import Skip, main  # noqa: E402
from files import assert_same, digests, make_sizes  # noqa: E402
from patience import SECONDS, wait_until  # noqa: E402
from penstock import ADDRESS, PENSTOCK, Server, penstock_misused as misused, penstock_ok as ok, penstock_refused as refused  # noqa: E402
from trees import WAYS, is_free, mounted, read, require_fuse, served, url_of, write  # noqa: E402


def programs(scratch):
    """Names, data, attributes, links, sparse files and extended attributes, in every version."""
    with served(scratch) as server:
        make_sizes(f"{scratch}/other")
        for number, (transport, version) in enumerate(WAYS):
            inside = f"{scratch}/export/{number}"
            with mounted(url_of(server, transport, version), f"{scratch}/tree") as tree:
                here = f"{tree}/{number}"
                os.mkdir(here)
                shutil.copytree(f"{scratch}/other", f"{here}/copy")
                assert_same(digests(f"{here}/copy"), digests(f"{scratch}/other"), "through the tree")
                assert_same(digests(f"{inside}/copy"), digests(f"{scratch}/other"), "on the server")
                write(f"{here}/file", "some text")
                os.rename(f"{here}/file", f"{here}/renamed")
                os.link(f"{here}/renamed", f"{here}/linked")
                os.symlink("renamed", f"{here}/symbolic")
                assert read(f"{here}/symbolic") == "some text"
                assert os.stat(f"{here}/linked").st_nlink == 2
                os.chmod(f"{here}/renamed", 0o604)
                os.utime(f"{here}/renamed", (1, 2))
                status = os.stat(f"{inside}/renamed")
                assert (status.st_mode & 0o7777, status.st_mtime) == (0o604, 2), status
                os.truncate(f"{here}/renamed", 4)
                assert read(f"{here}/linked") == "some"
                os.mkfifo(f"{here}/fifo")
                assert sorted(os.listdir(here)) == sorted(os.listdir(inside))
                assert os.statvfs(here).f_namemax == 255
                if version == "4.2":
                    os.setxattr(f"{here}/renamed", "user.color", b"red")
                    assert os.listxattr(f"{here}/renamed") == ["user.color", "system.nfs4_acl"]
                    with open(f"{here}/sparse", "wb") as file:
                        file.truncate(1 << 20)
                        file.seek(512 << 10)
                        file.write(b"data")
                        file.flush()
                        assert os.lseek(file.fileno(), 0, os.SEEK_DATA) == 512 << 10
                    with open(f"{here}/linked", "rb") as source, open(f"{here}/copied", "wb") as target:
                        assert os.copy_file_range(source.fileno(), target.fileno(), 100) == 4
                    assert read(f"{inside}/copied") == "some"
                shutil.rmtree(f"{here}/copy")
                assert not os.path.exists(f"{inside}/copy")


def small_reads(scratch):
    """A server that gives a kilobyte at a time, and a kernel that reads megabytes."""
    content = random.Random(1).randbytes(8 << 20)
    with served(scratch) as server:
        with open(f"{scratch}/export/file", "wb") as file:
            file.write(content)
        for version in ("3", "4.2"):
            with mounted(url_of(server, "tcp", version) + "&rsize=1024", f"{scratch}/tree") as tree:
                with open(f"{tree}/file", "rb", buffering=0) as file:
                    assert b"".join(iter(lambda: file.read(4 << 20), b"")) == content


def open_files(scratch):
    """A file that a program has open stays usable when its name goes; then nothing of it is left."""
    with served(scratch) as server:
        for transport, version in (("tcp", "3"), ("rdma", "4.1")):
            with mounted(url_of(server, transport, version), f"{scratch}/tree") as tree:
                for end in (os.remove, lambda path: os.replace(f"{tree}/new", path)):
                    write(f"{tree}/file", "old")
                    write(f"{tree}/new", "new")
                    with open(f"{tree}/file", "r+") as file:
                        end(f"{tree}/file")
                        assert os.fstat(file.fileno()).st_nlink == 0
                        file.write("OLDER")
                        file.seek(0)
                        assert file.read() == "OLDER"
                    shown = f"{scratch}/export"
                    wait_until(lambda: not any(name.startswith(".nfs") for name in os.listdir(shown)), "a hidden file stays behind")
                    for name in os.listdir(shown):
                        os.remove(f"{tree}/{name}")


def linked_open_files(scratch):
    """A file with several names stays usable after the last of them goes, whichever program has opened it by."""
    with served(scratch) as server:
        for transport, version in WAYS:
            with mounted(url_of(server, transport, version), f"{scratch}/tree") as tree:
                for order in ("ab", "ba"):
                    write(f"{tree}/a", "text")
                    with open(f"{tree}/a") as file:
                        os.link(f"{tree}/a", f"{tree}/b")
                        for name in order:
                            os.remove(f"{tree}/{name}")
                            assert os.fstat(file.fileno()).st_nlink == 2 - order.index(name) - 1
                        assert file.read() == "text"
                    wait_until(lambda: not os.listdir(f"{scratch}/export"), "a hidden file stays behind")
                # The name that was known last has gone: the other one is opened.
                write(f"{tree}/a", "text")
                os.link(f"{tree}/a", f"{tree}/b")
                os.remove(f"{tree}/b")
                assert read(f"{tree}/a") == "text"
                os.remove(f"{tree}/a")


def replaced_open_files(scratch):
    """Programs replace, remove and link files that others are opening: who has a file open reads all of it."""
    with served(scratch) as server:
        for transport, version in (("tcp", "3"), ("tcp", "4.2")):
            with mounted(url_of(server, transport, version), f"{scratch}/tree") as tree:
                failures = []
                end = time.monotonic() + 3

                def by_name(call, *names):
                    """The result of a call, or None if a name has got another file twice: the kernel tries twice."""
                    try:
                        return call(*names)
                    except OSError as why:
                        if why.errno != errno.ESTALE:
                            raise
                        return None

                def use(seed):
                    rng = random.Random(seed)
                    while time.monotonic() < end and not failures:
                        name, other = (f"{tree}/{rng.randrange(8)}" for _ in range(2))
                        with contextlib.suppress(FileNotFoundError, FileExistsError):
                            choice = rng.randrange(6)
                            if choice < 2:
                                write(f"{tree}/new{seed}", "x" * rng.randrange(20000) + "end")
                                by_name(os.rename, f"{tree}/new{seed}", name)
                            elif choice == 2:
                                by_name(os.unlink, name)
                            elif choice == 3:
                                by_name(os.link, name, other)
                            elif file := by_name(open, name):
                                with file:
                                    time.sleep(rng.random() / 100)
                                    text = file.read()
                                    if not text.endswith("end"):
                                        failures.append((version, name, len(text)))

                def watched(seed):
                    try:
                        use(seed)
                    except OSError as why:
                        failures.append((version, why))

                threads = [threading.Thread(target=watched, args=(seed,)) for seed in range(6)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert not failures, failures
                for name in os.listdir(tree):
                    if not name.startswith(".nfs"):
                        os.remove(f"{tree}/{name}")
                wait_until(lambda: not os.listdir(f"{scratch}/export"), "a hidden file stays behind")


def listed_changes(scratch):
    """A program changes files while it lists their directory: the rest of the listing brings nothing old back."""
    with served(scratch) as server:
        shown, names = f"{scratch}/export/list", [f"{number:03}" for number in range(600)]
        for transport, version in (("tcp", "3"), ("rdma", "4.1"), ("tcp", "4.2")):
            os.makedirs(shown)
            os.makedirs(f"{scratch}/export/moved", exist_ok=True)
            for name in names:
                write(f"{shown}/{name}", "old")
            with mounted(url_of(server, transport, version), f"{scratch}/tree") as tree:
                listed = f"{tree}/list"
                with os.scandir(listed) as entries:
                    next(entries)
                    # The kernel has some of the entries, the tree has more of them, and the server has the rest.
                    for name in names[:300]:
                        os.rename(f"{listed}/{name}", f"{tree}/moved/{name}")
                    for name in names[200:300]:
                        write(f"{listed}/{name}", f"new {name}")
                    for name in names[300:400]:
                        os.chmod(f"{listed}/{name}", 0o600)
                        write(f"{listed}/{name}", f"longer {name}")
                    for _ in entries:
                        pass
                wrong = []
                for name in names:
                    here, there = [os.stat(f"{top}/{name}") if os.path.exists(f"{top}/{name}") else None for top in (listed, shown)]
                    if here and there:
                        here, there = [(each.st_ino, each.st_size, each.st_mode) for each in (here, there)]
                    if here != there:
                        wrong.append((name, here, there))
                assert not wrong, f"{version}: {len(wrong)}: {wrong[:3]}"
                for name in names[200:]:
                    assert read(f"{listed}/{name}") == read(f"{shown}/{name}"), f"{version}: {name}"
            shutil.rmtree(shown)


def two_trees(scratch):
    """What a program has written and closed, a program in another tree reads when it opens the file; and locks of one
    exclude the other, whatever their versions are."""
    with served(scratch) as server:
        for versions in (("4.2", "4.2"), ("3", "3"), ("3", "4.1"), ("4.0", "3")):
            urls = [url_of(server, "tcp", version) for version in versions]
            with mounted(urls[0], f"{scratch}/tree") as one, mounted(urls[1], f"{scratch}/other") as two:
                for text in ("first", "second one", "3rd"):
                    write(f"{one}/file", text)
                    assert read(f"{two}/file") == text
                    write(f"{two}/file", text[::-1])
                    assert read(f"{one}/file") == text[::-1]
                # The kernel knows a size, and perhaps data, that are not those of the server any more.
                for number, before in enumerate((os.stat, read, lambda path: open(path, "r+"))):
                    write(f"{one}/size{number}", "")
                    kept = [before(f"{two}/size{number}")]
                    for text in ("a long text", "short", "the longest one"):
                        write(f"{one}/size{number}", text)
                        assert read(f"{two}/size{number}") == text, (versions, number, text)
                        assert os.stat(f"{two}/size{number}").st_size == len(text)
                    del kept
                for lock in (fcntl.lockf, fcntl.flock):
                    with open(f"{one}/file", "r+") as first, open(f"{two}/file", "r+") as second:
                        lock(first, fcntl.LOCK_EX)
                        assert not is_free(second, lock)
                        waits = threading.Thread(target=lock, args=(second, fcntl.LOCK_EX))
                        waits.start()
                        lock(first, fcntl.LOCK_UN)
                        waits.join(SECONDS)
                        assert not waits.is_alive()


def made_directories(scratch):
    """In a directory that a tree has made, a name that another tree makes is there at once, unless a program has looked
    for it before."""
    with served(scratch) as server:
        for transport, version in (("tcp", "3"), ("tcp", "4.2")):
            url = url_of(server, transport, version)
            with mounted(url, f"{scratch}/tree") as one, mounted(url, f"{scratch}/other") as two:
                os.mkdir(f"{one}/{version}")
                write(f"{one}/{version}/ours", "ours")
                write(f"{two}/{version}/theirs", "theirs")
                assert read(f"{one}/{version}/theirs") == "theirs"
                try:
                    os.open(f"{one}/{version}/theirs", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
                    raise AssertionError("the file of the other tree is overwritten")
                except FileExistsError:
                    pass


def two_file_systems(scratch):
    """Files of two file systems of the server are not taken for one, although they have the same numbers."""
    points = [f"{scratch}/{name}" for name in ("one", "two")]
    tried = []
    try:
        for point in points:
            os.mkdir(point)
            done = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", point], capture_output=True, text=True)
            if done.returncode != 0:
                raise Skip(done.stderr.strip())
            tried.append(point)
            write(f"{point}/file", os.path.basename(point))
        assert os.stat(f"{points[0]}/file").st_ino == os.stat(f"{points[1]}/file").st_ino, "this test needs equal numbers"
        os.mkdir(f"{scratch}/tree")
        with Server({"/one": f"{points[0]}:no_root_squash", "/two": f"{points[1]}:no_root_squash"}) as server:
            with mounted(url_of(server, "tcp", "4.2"), f"{scratch}/tree") as tree:
                assert not os.path.samefile(f"{tree}/one", f"{tree}/two")
                assert not os.path.samefile(f"{tree}/one/file", f"{tree}/two/file")
                shutil.copyfile(f"{tree}/one/file", f"{tree}/two/file")
                assert read(f"{points[1]}/file") == "one"
    finally:
        for point in tried:
            subprocess.run(["umount", point], check=True)


def refusals(scratch):
    """What cannot be mounted says why."""
    with served(scratch) as server:
        url = url_of(server, "tcp", "4.2")
        refused("mount", url, f"{scratch}/absent", mentions=["absent", "No such file"])
        write(f"{scratch}/file", "")
        refused("mount", url, f"{scratch}/file", mentions=["file", "Not a directory"])
        refused("mount", url.replace("/?", "/nowhere?"), f"{scratch}/tree", mentions=["nowhere"])
        misused("mount", "somewhere", f"{scratch}/tree", mentions=["somewhere"])
        misused("mount", "-o", "acregmin=x", url, f"{scratch}/tree", mentions=["acregmin"])
        misused("mount", url, mentions=["DIRECTORY"])
        refused("umount", f"{scratch}/tree", mentions=["tree", "mounted" if os.geteuid() == 0 else ""])
        ok("mount", "--fake", f"{ADDRESS}:/", f"{scratch}/tree")
        require_fuse()
        helper = f"{scratch}/mount.penstock"
        os.symlink(PENSTOCK, helper)
        subprocess.run([helper, f"{ADDRESS}:/", f"{scratch}/tree", "-n", "-o",
                        f"rw,vers=3,port={server.tcp},mountport={server.mount},_netdev"], check=True, timeout=SECONDS)
        assert "file" not in os.listdir(f"{scratch}/tree")
        ok("umount", f"{scratch}/tree")


main({case.__name__: case for case in (programs, small_reads, open_files, linked_open_files, replaced_open_files, listed_changes, two_trees, made_directories, two_file_systems, refusals)})
