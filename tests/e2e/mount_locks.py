#!/usr/bin/python3
"""penstock mount: locks of programs in trees."""

import errno
import fcntl
import os
import subprocess
import threading
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import main  # noqa: E402
from patience import SECONDS, wait_until  # noqa: E402
from penstock import PENSTOCK, penstock_ok as ok  # noqa: E402
from trees import WAYS, is_free, mounted, read, served, url_of, write  # noqa: E402


LOCKS_OF_TWO_DESCRIPTORS = """
import fcntl, os, sys
reader, both = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(reader, fcntl.LOCK_SH, 10, 0)
fcntl.lockf(both, fcntl.LOCK_EX, 10, 50)
fcntl.lockf(both, fcntl.LOCK_EX, 10, 0)
os.write(both, b"written")
print("locked", flush=True)
sys.stdin.read()
"""


def of_descriptors(scratch):
    """A process locks a file by a descriptor for reading, and then by one for writing: it has all of its locks."""
    with served(scratch) as server:
        for transport, version in WAYS:
            url = url_of(server, transport, version)
            with mounted(url, f"{scratch}/tree") as one, mounted(url, f"{scratch}/other") as two:
                write(f"{one}/file", "text")
                holder = subprocess.Popen([sys.executable, "-c", LOCKS_OF_TWO_DESCRIPTORS, f"{one}/file"], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE)
                assert holder.stdout.readline() == b"locked\n"
                with open(f"{two}/file", "r+") as file:
                    for offset in (0, 50):
                        try:
                            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, 10, offset)
                            raise AssertionError("both have the lock")
                        except OSError as why:
                            assert why.errno in (errno.EAGAIN, errno.EACCES), why
                    holder.communicate(timeout=SECONDS)
                    assert holder.returncode == 0
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    assert file.read() == "written"


# Ways to open a file for appends: for writing only, for each line, also for reading, and as others do with fcntl(2).
APPENDS = ("keeps", "opens", "reads", "sets")
# Appends lines, each of another length, under a lock if the last word is so. Reads them again where it can.
APPENDER = """
import fcntl, os, re, sys
path, name, lines, way, locks = *sys.argv[1:3], int(sys.argv[3]), sys.argv[4], sys.argv[5] == "locks"
def opened():
    if way == "sets":
        file = os.open(path, os.O_RDWR)
        fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
        return file
    return os.open(path, (os.O_RDWR if way == "reads" else os.O_WRONLY) | os.O_APPEND)
file = opened()
for number in range(lines):
    if way == "opens":
        os.close(file)
        file = opened()
    if locks:
        fcntl.lockf(file, fcntl.LOCK_EX)
    text = f"{name} {number} {'x' * (number * 37 % 3000)}\\n".encode()
    assert os.write(file, text) == len(text)
    if locks and way == "reads":
        whole = os.pread(file, 10 << 20, 0)
        assert whole.endswith(text), (way, number, whole[-len(text):][:40])
        assert re.fullmatch(rb"([01][a-z]+ [0-9]+ x*\\n)*", whole), (way, number)
    if locks:
        fcntl.lockf(file, fcntl.LOCK_UN)
"""


def append(jobs, lines, locks):
    """Starts a program for each (path, name, way), and returns the lines that they must leave."""
    programs = [subprocess.Popen([sys.executable, "-c", APPENDER, path, name, str(lines), way, "locks" if locks else ""])
                for path, name, way in jobs]
    assert [program.wait(SECONDS) for program in programs] == [0] * len(programs), jobs
    return sorted(f"{name} {line} {'x' * (line * 37 % 3000)}" for _, name, _ in jobs for line in range(lines))


def assert_lines(paths, wanted, what):
    for path in paths:
        got = sorted(read(path).splitlines())
        assert got == wanted, (what, path, len(got), len(wanted), [line[:40] for line in got if line not in wanted][:5])


def appends(scratch):
    """Programs in two trees append to one file under locks: nothing is lost, whatever the versions are."""
    with served(scratch) as server:
        for number, versions in enumerate((("3", "3"), ("4.0", "4.0"), ("4.1", "4.1"), ("4.2", "4.2"), ("3", "4.2"), ("4.0", "4.1"))):
            urls = [url_of(server, transport, version) for transport, version in zip(("tcp", "rdma"), versions)]
            with mounted(urls[0], f"{scratch}/tree") as one, mounted(urls[1], f"{scratch}/other") as two:
                name = f"file{number}"
                write(f"{one}/{name}", "")
                wanted = append([(f"{tree}/{name}", f"{index}{way}", way) for index, tree in enumerate((one, two)) for way in APPENDS], 25, True)
                assert_lines([f"{tree}/{name}" for tree in (one, two, f"{scratch}/export")], wanted, versions)


def appends_in_one_tree(scratch):
    """Within a tree, appends need no locks, also while other programs look at the file and read it."""
    with served(scratch) as server:
        for transport, version in (("tcp", "3"), ("rdma", "4.2")):
            with mounted(url_of(server, transport, version), f"{scratch}/tree") as tree:
                name = f"{tree}/{version}"
                write(name, "")
                done = threading.Event()

                def look():
                    while not done.is_set():
                        os.stat(name)
                        read(name)

                others = [threading.Thread(target=look) for _ in range(2)]
                with open(name) as reader:
                    for each in others:
                        each.start()
                    try:
                        wanted = append([(name, way, way) for way in APPENDS], 50, False)
                    finally:
                        done.set()
                        for each in others:
                            each.join()
                    assert sorted(reader.read().splitlines()) == wanted
                assert_lines([name, f"{scratch}/export/{version}"], wanted, version)


def appends_after_truncation(scratch):
    """What a program appends under a lock comes behind the end that another tree has given the file before."""
    with served(scratch) as server:
        for versions in (("3", "3"), ("4.0", "4.0"), ("4.2", "4.2")):
            urls = [url_of(server, "tcp", version) for version in versions]
            with mounted(urls[0], f"{scratch}/tree") as one, mounted(urls[1], f"{scratch}/other") as two:
                for flags in (os.O_WRONLY, os.O_RDWR):
                    write(f"{one}/file", "")
                    mine, other = os.open(f"{one}/file", flags | os.O_APPEND), os.open(f"{two}/file", os.O_RDWR)
                    for step, (file, change) in enumerate(((mine, lambda: os.write(mine, b"first")), (other, lambda: os.ftruncate(other, 2)),
                                                           (mine, lambda: os.write(mine, b"second")), (other, lambda: os.ftruncate(other, 0)),
                                                           (mine, lambda: os.write(mine, b"third")))):
                        fcntl.lockf(file, fcntl.LOCK_EX)
                        change()
                        fcntl.lockf(file, fcntl.LOCK_UN)
                        wanted = ("first", "fi", "fisecond", "", "third")[step]
                        assert read(f"{two}/file") == read(f"{one}/file") == wanted, (versions, step, read(f"{one}/file"))
                    os.close(mine)
                    os.close(other)


LOCKER = """
import fcntl, sys
file = open(sys.argv[1], "r+")
for line in sys.stdin:
    try:
        fcntl.lockf(file, {"lock": fcntl.LOCK_EX | fcntl.LOCK_NB, "unlock": fcntl.LOCK_UN}[line.strip()])
        file.write("written")
        file.flush()
        print("done", flush=True)
    except OSError as why:
        print(why.errno, flush=True)
"""


class Locker:
    """A process with an open file, which it locks and writes: this one starts the server, and would close its files."""

    def __init__(self, path):
        self.process = subprocess.Popen([sys.executable, "-c", LOCKER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate(timeout=SECONDS)

    def does(self, what):
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


def after_restarts(scratch):
    """The server is killed and started again: locks of version 3 stay, unless another client was faster."""
    with served(scratch) as server:
        url = url_of(server, "tcp", "3")
        with mounted(url, f"{scratch}/tree") as one, mounted(url, f"{scratch}/other") as two:
            write(f"{one}/file", "text")
            with Locker(f"{one}/file") as holder:
                assert holder.does("lock") == "done"
                for _ in range(2):
                    server.kill()
                    server.start()
                    # The client asks for its lock again without being told, in the grace period.
                    with Locker(f"{two}/file") as other:
                        assert other.does("lock") in (str(errno.EAGAIN), str(errno.EACCES))
                    assert holder.does("lock") == "done"
                assert holder.does("unlock") == "done"
                with Locker(f"{two}/file") as other:
                    assert other.does("lock") == "done"


def of_a_killed_mount(scratch):
    """A tree of version 3 whose process is killed leaves its locks at the server. The next one gives them back."""
    os.environ["XDG_STATE_HOME"] = f"{scratch}/state"
    with served(scratch) as server:
        url = url_of(server, "tcp", "3")
        with mounted(url, f"{scratch}/other") as other:
            killed = subprocess.Popen([PENSTOCK, "mount", "--foreground", url, f"{scratch}/tree"])
            try:
                wait_until(lambda: os.path.ismount(f"{scratch}/tree"), "no tree")
                write(f"{scratch}/tree/file", "text")
                with Locker(f"{scratch}/tree/file") as holder, Locker(f"{other}/file") as waiter:
                    assert holder.does("lock") == "done"
                    killed.kill()
                    killed.wait(SECONDS)
                    ok("umount", "--lazy", f"{scratch}/tree")
                    assert waiter.does("lock") != "done", "nothing is left to be given back"
                    with mounted(url, f"{scratch}/tree"):
                        wait_until(lambda: waiter.does("lock") == "done", "the lock stays")
            finally:
                killed.kill()
                killed.wait(SECONDS)
        left = os.listdir(f"{scratch}/state/penstock/client-locks")
        assert not left, left


def of_this_host(scratch):
    """nolock keeps the locks of version 3 on this host."""
    with served(scratch) as server:
        url = url_of(server, "tcp", "3")
        with mounted(url + "&nolock", f"{scratch}/tree") as one, mounted(url, f"{scratch}/other") as two:
            write(f"{one}/file", "text")
            with open(f"{one}/file", "r+") as first, open(f"{two}/file", "r+") as second:
                assert is_free(first) and is_free(second)
                with open(f"{one}/file", "r+") as third:
                    assert is_free(first, fcntl.flock) and not is_free(third, fcntl.flock)


main({case.__name__: case for case in (of_descriptors, appends, appends_in_one_tree, appends_after_truncation, after_restarts, of_a_killed_mount, of_this_host)})
