#!/usr/bin/python3
"""penstock mount: locks of programs in trees."""

import errno
import fcntl
import os
import subprocess
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


main({case.__name__: case for case in (of_descriptors, after_restarts, of_a_killed_mount, of_this_host)})
