#!/usr/bin/python3
"""penstock mount: programs use a server's tree in a directory of this host, by FUSE."""

import contextlib
import errno
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import Skip, main  # noqa: E402
from files import assert_same, digests, make, make_sizes  # noqa: E402
from patience import SECONDS, wait_until  # noqa: E402
from penstock import ADDRESS, PENSTOCK, Server, penstock_misused as misused, penstock_ok as ok, penstock_refused as refused  # noqa: E402

WAYS = (("tcp", "3"), ("rdma", "3"), ("tcp", "4.0"), ("tcp", "4.1"), ("rdma", "4.2"))


def served(scratch, *options):
    for name in ("export", "tree", "other"):
        os.makedirs(f"{scratch}/{name}")
    os.chmod(f"{scratch}/export", 0o777)
    return Server({"/": f"{scratch}/export:no_root_squash"}, options=["--lease=2", "--grace=2", *options])


def url_of(server, transport, version):
    return server.url("/", transport).replace("vers=3", f"vers={version}")


@contextlib.contextmanager
def mounted(url, directory, *options):
    if not os.path.exists("/dev/fuse"):
        raise Skip("/dev/fuse is missing")
    started = subprocess.run([PENSTOCK, "mount", *options, url, directory], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=SECONDS)
    if started.returncode != 0 and "cannot mount it by FUSE" in started.stderr and os.geteuid() != 0:
        raise Skip("this user cannot mount")
    assert started.returncode == 0, started.stderr
    try:
        yield directory
    finally:
        ended = subprocess.run([PENSTOCK, "umount", directory], capture_output=True, text=True, timeout=SECONDS)
        if ended.returncode != 0:
            subprocess.run([PENSTOCK, "umount", "-l", directory], timeout=SECONDS)
        assert ended.returncode == 0, ended.stderr


def works(call, *arguments):
    try:
        call(*arguments)
    except OSError:
        return False
    return True


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path) as file:
        return file.read()


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

                def use(seed):
                    rng = random.Random(seed)
                    while time.monotonic() < end and not failures:
                        name, other = (f"{tree}/{rng.randrange(8)}" for _ in range(2))
                        with contextlib.suppress(FileNotFoundError, FileExistsError):
                            choice = rng.randrange(6)
                            if choice < 2:
                                write(f"{tree}/new{seed}", "x" * rng.randrange(20000) + "end")
                                os.rename(f"{tree}/new{seed}", name)
                            elif choice == 2:
                                os.unlink(name)
                            elif choice == 3:
                                os.link(name, other)
                            else:
                                try:
                                    file = open(name)
                                except OSError as why:
                                    # The name has got another file twice: the kernel tries twice.
                                    if why.errno == errno.ESTALE:
                                        continue
                                    raise
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


def is_free(file, lock=fcntl.lockf):
    """Whether the lock of the file is available; then `file` has it."""
    try:
        lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as why:
        assert why.errno in (errno.EAGAIN, errno.EACCES), why
        return False
    return True


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


def locks_of_descriptors(scratch):
    """A process locks a file by a descriptor for reading, and then by one for writing: it has all of its locks."""
    with served(scratch) as server:
        for transport, version in (("tcp", "3"), ("rdma", "3"), ("tcp", "4.1"), ("rdma", "4.2")):
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


def locks_after_restarts(scratch):
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


def locks_of_a_killed_mount(scratch):
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


def local_locks(scratch):
    """nolock keeps the locks of version 3 on this host."""
    with served(scratch) as server:
        url = url_of(server, "tcp", "3")
        with mounted(url + "&nolock", f"{scratch}/tree") as one, mounted(url, f"{scratch}/other") as two:
            write(f"{one}/file", "text")
            with open(f"{one}/file", "r+") as first, open(f"{two}/file", "r+") as second:
                assert is_free(first) and is_free(second)
                with open(f"{one}/file", "r+") as third:
                    assert is_free(first, fcntl.flock) and not is_free(third, fcntl.flock)


WRITER = """
import os, sys, time
block = bytes(range(256)) * 400
with open(sys.argv[1], "wb") as file:
    blocks = 0
    while blocks < 200 or not os.path.exists(sys.argv[2]):
        file.write(block)
        blocks += 1
        time.sleep(0.001)
print(blocks)
"""


def server_restarts(scratch):
    """The server is killed and started again while a program writes: the program sees no error, and no octet is lost."""
    with served(scratch) as server:
        for transport, version in (("tcp", "3"), ("rdma", "4.2")):
            end = f"{scratch}/{version}"
            with mounted(url_of(server, transport, version), f"{scratch}/tree") as tree:
                # Another process, because this one starts the server: a process that starts a program closes its files.
                writer = subprocess.Popen([sys.executable, "-c", WRITER, f"{tree}/file", end], stdout=subprocess.PIPE, text=True)
                for _ in range(2):
                    time.sleep(0.3)
                    server.kill()
                    server.start()
                write(end, "")
                said, _ = writer.communicate(timeout=SECONDS)
                assert writer.returncode == 0
                with open(f"{scratch}/export/file", "rb") as file:
                    assert file.read() == bytes(range(256)) * 400 * int(said), "octets are lost"


class Migration:
    """Two servers of one transport: `first` serves a folder, which is to move to `second`."""

    def __init__(self, scratch, transport):
        self.scratch, self.transport = scratch, transport
        self.folders = {name: f"{scratch}/{name}" for name in ("before", "after", "tree")}
        for folder in self.folders.values():
            os.makedirs(folder)
            os.chmod(folder, 0o777)
        self.table = f"{scratch}/exports"
        self.serve_here()
        self.first = Server({}, [f"--exports={self.table}", "--lease=2", "--grace=2"])
        self.second = Server({"/new/place": f"{self.folders['after']}:no_root_squash"}, ["--lease=2", "--grace=0"])

    def serve_here(self):
        write(self.table, f"{self.folders['before']} *(rw,insecure,no_root_squash)\n")

    def copy_and_refer(self):
        """Copies the folder, and makes its export a referral."""
        shutil.copytree(self.folders["before"], self.folders["after"], dirs_exist_ok=True, symlinks=True)
        port = self.second.rdma if self.transport == "rdma" else self.second.tcp
        write(self.table, f"{self.folders['before']} *(rw,insecure,refer=/new/place@{ADDRESS}.{port >> 8}.{port & 255})\n")

    def reload(self):
        before = len(self.first.lines)
        self.first.process.send_signal(signal.SIGHUP)
        wait_until(lambda: any("refers clients of" in line for line in self.first.lines[before:]), "the server does not reload")

    def url(self, version, path=""):
        return url_of(self.first, self.transport, version).replace("/?", f"{self.folders['before']}{path}?")


# A program that goes on behind the move when it reads a line.
MOVED = """
import errno, fcntl, os, sys
top = sys.argv[1]
os.chdir(f"{top}/inner")
file = open("file", "r+b", buffering=0)
locked = os.open("locked", os.O_RDWR)
fcntl.lockf(locked, fcntl.LOCK_EX)
gone = os.open("gone", os.O_RDONLY)
listing = os.scandir(f"{top}/many")
seen = [next(listing).name for _ in range(10)]
assert file.read(6) == b"before"
file.write(b" MIDDLE")  # is on its way
print("ready", flush=True)
assert sys.stdin.readline()
file.write(b" AFTER")
file.flush()
os.fsync(file.fileno())
assert os.pread(file.fileno(), 100, 0) == b"before MIDDLE AFTER", os.pread(file.fileno(), 100, 0)
assert open("file", "rb").read() == b"before MIDDLE AFTER"
assert os.path.samestat(os.fstat(file.fileno()), os.stat(f"{top}/inner/file"))
assert os.path.samefile(".", f"{top}/inner")
open("new", "w").write("made after the move")
os.rename("new", "../renamed")
os.mkdir("made")
os.symlink("file", "made/link")
try:
    os.pread(locked, 10, 0)
    raise AssertionError("the lock is there")
except OSError as why:
    assert why.errno == errno.ENOLCK, why
for call in (lambda: os.pread(gone, 1, 0), lambda: os.fstat(gone)):
    try:
        call()
        raise AssertionError("the file is there")
    except OSError as why:
        assert why.errno == errno.ESTALE, why
seen += [entry.name for entry in listing]
assert sorted(seen) == sorted(str(number) for number in range(2000)), (len(seen), len(set(seen)))
file.close()
print("done", flush=True)
"""


def moves(scratch):
    """An export moves to another server, whose address the reloaded configuration names: programs go on with their files,
    directories and names there."""
    for transport, version in (("tcp", "4.0"), ("tcp", "4.1"), ("rdma", "4.2")):
        migration = Migration(f"{scratch}/{version}", transport)
        before, after = migration.folders["before"], migration.folders["after"]
        for name in ("inner", "many"):
            os.mkdir(f"{before}/{name}")
        for number in range(2000):
            write(f"{before}/many/{number}", "")
        for name in ("file", "locked", "gone"):
            write(f"{before}/inner/{name}", "before")
        with migration.first, migration.second, mounted(migration.url(version), migration.folders["tree"]) as tree:
            program = subprocess.Popen([sys.executable, "-c", MOVED, tree], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert program.stdout.readline() == "ready\n"
            migration.copy_and_refer()
            os.remove(f"{after}/inner/gone")
            migration.reload()
            said, _ = program.communicate("go on\n", timeout=SECONDS)
            assert (program.returncode, said) == (0, "done\n")
            assert sorted(os.listdir(tree)) == ["inner", "many", "renamed"]
        assert read(f"{after}/inner/file") == "before MIDDLE AFTER"
        assert read(f"{after}/renamed") == "made after the move"
        assert sorted(os.listdir(f"{before}/inner")) == ["file", "gone", "locked"]


def moves_under_load(scratch):
    """The server stops while a program writes, the operator copies its folder, and the server starts again as a referral to
    another one, which comes later: the program sees no error, and no octet is lost."""
    for transport, version in (("tcp", "4.1"), ("rdma", "4.2")):
        migration = Migration(f"{scratch}/{version}", transport)
        end = f"{scratch}/end-{version}"
        with migration.first, mounted(migration.url(version), migration.folders["tree"]) as tree:
            writer = subprocess.Popen([sys.executable, "-c", WRITER, f"{tree}/file", end], stdout=subprocess.PIPE, text=True)
            time.sleep(0.5)
            migration.first.stop()
            migration.copy_and_refer()
            migration.first.start()
            time.sleep(1)
            with migration.second:
                time.sleep(0.5)
                write(end, "")
                said, _ = writer.communicate(timeout=SECONDS)
                assert writer.returncode == 0
                with open(f"{migration.folders['after']}/file", "rb") as file:
                    assert file.read() == bytes(range(256)) * 400 * int(said), "octets are lost"


def failing_disk(scratch):
    """The program that has written learns of each error of the server's disk, at the latest in close(). The tree lives on."""
    for faults, numbers in (("write:enospc", (errno.ENOSPC,)), ("commit:eio", (errno.EIO,)), ("read:eio", (errno.EIO,))):
        here = f"{scratch}/{faults.replace(':', '-')}"
        os.mkdir(here)
        with served(here, f"--faults={faults}") as server:
            make(f"{here}/export/file", 3 << 20)
            for transport, version in (("tcp", "3"), ("rdma", "4.2")):
                with mounted(url_of(server, transport, version), f"{here}/tree") as tree:
                    for attempt in range(3):
                        try:
                            if faults.startswith("read"):
                                assert len(read(f"{tree}/file")) < 0, "octets that cannot be read came as success"
                            with open(f"{tree}/new{attempt}", "wb", buffering=0) as file:
                                for _ in range(40):
                                    file.write(bytes(100 << 10))
                                if attempt:
                                    os.fsync(file.fileno())
                            raise AssertionError(f"{faults}: no error")
                        except OSError as why:
                            assert why.errno in numbers, (faults, why)
                    assert "new0" in os.listdir(tree) or faults.startswith("read")
                    os.mkdir(f"{tree}/{version}")


def lost_data(scratch):
    """Data that the server's disk does not take: each program that has the file open learns of it, none reads them, and a
    lock ends."""
    with served(scratch, "--faults=write:eio") as server:
        for transport, version in (("tcp", "3"), ("rdma", "4.2")):
            write(f"{scratch}/export/file", "old data")
            with mounted(url_of(server, transport, version), f"{scratch}/tree") as tree:
                assert read(f"{tree}/file") == "old data"

                def fails(call, *arguments):
                    try:
                        call(*arguments)
                    except OSError as why:
                        assert why.errno == errno.EIO, why
                        return
                    raise AssertionError(f"{call.__name__}: no error")

                file, other = (os.open(f"{tree}/file", os.O_RDWR) for _ in range(2))
                fcntl.lockf(file, fcntl.LOCK_EX)
                assert os.pwrite(file, b"new", 0) == 3
                # A child closes what it has inherited, and ends without a word.
                subprocess.run(["true"], pass_fds=[file], check=True)
                fcntl.lockf(file, fcntl.LOCK_UN)
                subprocess.run([sys.executable, "-c", "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)",
                                f"{tree}/file"], check=True, timeout=SECONDS)
                fails(os.fsync, file)
                fails(os.close, other)
                wait_until(lambda: os.pread(file, 20, 0) == b"old data", "a program reads data that are lost")
                os.close(file)
                assert read(f"{tree}/file") == "old data"


def lost_at_the_end(scratch):
    """A tree that ends without waiting for its server says of which files data are lost that no program was told of."""
    if not os.path.exists("/dev/fuse"):
        raise Skip("/dev/fuse is missing")
    tree = f"{scratch}/tree"

    def begins(server):
        process = subprocess.Popen([PENSTOCK, "mount", "--foreground", url_of(server, "tcp", "4.2"), tree], stderr=subprocess.PIPE, text=True)
        wait_until(lambda: os.path.ismount(tree) or process.poll() is not None, "no tree")
        return process

    def ends(process):
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=SECONDS)
        return process.returncode, said

    @contextlib.contextmanager
    def written(name):
        file = os.open(f"{tree}/{name}", os.O_WRONLY | os.O_CREAT)
        try:
            assert os.write(file, b"text") == 4
            yield file
        finally:
            works(os.close, file)

    with served(scratch) as server:
        process = begins(server)
        with written("waits"):
            assert ends(process) == (0, "")
        assert read(f"{scratch}/export/waits") == "text"

        process = begins(server)
        with written("lost") as file, server.silence():
            process.send_signal(signal.SIGTERM)
            # Not by a look at the tree: it refuses requests.
            wait_until(lambda: f" {tree} " not in read("/proc/self/mounts"), "the tree stays")
            late = subprocess.run([sys.executable, "-c", f"import os; os.ftruncate({file}, 9)"], pass_fds=[file], capture_output=True,
                                  text=True, timeout=SECONDS)
            assert os.strerror(errno.ENOTCONN) in late.stderr, late.stderr
            assert process.poll() is None, "it does not wait for the server"
            code, said = ends(process)
        assert code == 1, said
        assert said.splitlines()[-1].endswith("data are lost, and the programs that have written them do not know: /lost"), said
    shutil.rmtree(f"{scratch}/export")
    os.rmdir(f"{scratch}/tree")
    os.rmdir(f"{scratch}/other")
    with served(scratch, "--faults=write:eio") as server:
        process = begins(server)
        with written("told") as file:
            assert not works(os.fsync, file)
        code, said = ends(process)
        assert code == 0, said


def silent_server(scratch):
    """A process that waits for a server that does not answer can be killed at any time."""
    with served(scratch) as server:
        make(f"{scratch}/export/file", 8 << 20)
        with mounted(url_of(server, "tcp", "4.2"), f"{scratch}/tree") as tree:
            write(f"{tree}/known", "text")
            with server.silence():
                waiting = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for words in (
                    ["cat", f"{tree}/file"], ["ls", f"{tree}/absent"], ["cp", "/etc/passwd", f"{tree}/copy"],
                    ["dd", "if=/dev/zero", f"of={tree}/known", "bs=1M", "count=4", "conv=notrunc"])]
                time.sleep(0.5)
                for process in waiting:
                    assert process.poll() is None, process.args
                    process.kill()
                # The kernel makes look-ups in a directory wait for one another.
                for process in waiting:
                    process.wait(SECONDS)
            assert read(f"{tree}/known")[:4] in ("text", "\0\0\0\0")


def soft(scratch):
    """A tree with `soft` fails with EIO when the server does not answer, and works again afterwards."""
    with served(scratch) as server:
        for transport, version in (("tcp", "3"), ("tcp", "4.2")):
            with mounted(f"{url_of(server, transport, version)}&soft&timeo=3&retrans=1", f"{scratch}/tree") as tree:
                file = open(f"{tree}/file", "w")
                file.write("lost")
                file.flush()
                with server.silence():
                    for call, *words in ((os.listdir, tree), (os.fsync, file.fileno()), (os.mkdir, f"{tree}/new")):
                        try:
                            call(*words)
                        except OSError as why:
                            assert why.errno == errno.EIO, why
                        else:
                            raise AssertionError(f"no error from {call.__name__} in version {version}")
                file.close()
                wait_until(lambda: works(write, f"{tree}/file", "text"), "the tree stays dead")
                assert read(f"{tree}/file") == "text"


def users_wait(scratch):
    """A user whose connection is made while the server is away waits for it, as programs do that have one."""
    if os.geteuid() != 0:
        raise Skip("only root mounts for all users")
    with served(scratch) as server:
        write(f"{scratch}/export/file", "text")
        for version in ("3", "4.2"):
            with mounted(url_of(server, "tcp", version), f"{scratch}/tree", "-o", "allow_other") as tree:
                # The directories above the tree are closed to this user.
                program = subprocess.Popen(["sh", "-c", "read word && cat file"], cwd=tree, user=65534, group=65534, extra_groups=[],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                server.kill()
                program.stdin.write("go\n")
                program.stdin.flush()
                time.sleep(1)
                assert program.poll() is None, program.communicate(timeout=SECONDS)
                server.start()
                said = program.communicate(timeout=SECONDS)
                assert (program.returncode, *said) == (0, "text", ""), said


# With a directory /dev of its own, so that it has a log of its own.
MOUNT_WITH_A_LOG = """
set -e
mount -t tmpfs tmpfs "$1"
for name in null urandom fuse; do touch "$1/$name"; mount --bind "/dev/$name" "$1/$name"; done
ln -s "$2" "$1/log"
mount --move "$1" /dev
shift 2
exec "$@"
"""


ONE_WRITE = """
import os, sys
file = open(sys.argv[1], "w")
file.write("text")
file.flush()
print("written", flush=True)
sys.stdin.read()
os.fsync(file.fileno())
"""


def log_in_the_background(scratch):
    """A tree in the background tells the log of the host how it recovers from a restart of the server."""
    if not os.path.exists("/dev/fuse"):
        raise Skip("/dev/fuse is missing")
    with served(scratch) as server, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(f"{scratch}/log")
        log.settimeout(SECONDS)
        os.mkdir(f"{scratch}/dev")

        def await_message(text):
            while True:
                message = log.recv(65536).decode()
                if text in message:
                    return message

        words = ["unshare", "-m", "sh", "-c", MOUNT_WITH_A_LOG, "sh", f"{scratch}/dev", f"{scratch}/log", PENSTOCK, "mount", "-v",
                 url_of(server, "tcp", "4.2"), f"{scratch}/tree"]
        started = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
        if started.returncode != 0 and os.geteuid() != 0:
            raise Skip("this user cannot make a namespace")
        assert started.returncode == 0, started.stderr
        message = await_message("is mounted at")
        assert "<30>" in message, message
        process = int(message.split("penstock[")[1].split("]")[0])
        # The tree is in the namespace of its process.
        tree = f"/proc/{process}/root/{scratch}/tree"
        # Not this process: a server that it starts would begin as a copy of it, and wait to close the file.
        writer = subprocess.Popen([sys.executable, "-c", ONE_WRITE, f"{tree}/file"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert writer.stdout.readline() == b"written\n"
        server.kill()
        server.start()
        writer.communicate(timeout=SECONDS)
        assert writer.returncode == 0
        assert "open files reclaimed: 1" in await_message(f"{ADDRESS}: the server has restarted")
        os.kill(process, signal.SIGTERM)
        await_message("is no longer mounted at")
        wait_until(lambda: not os.path.exists(f"/proc/{process}"), "the process does not end")


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
        refused("umount", f"{scratch}/tree", mentions=["tree"])
        ok("mount", "--fake", f"{ADDRESS}:/", f"{scratch}/tree")
        if not os.path.exists("/dev/fuse"):
            raise Skip("/dev/fuse is missing")
        helper = f"{scratch}/mount.penstock"
        os.symlink(PENSTOCK, helper)
        subprocess.run([helper, f"{ADDRESS}:/", f"{scratch}/tree", "-n", "-o",
                        f"rw,vers=3,port={server.tcp},mountport={server.mount},_netdev"], check=True, timeout=SECONDS)
        assert "file" not in os.listdir(f"{scratch}/tree")
        ok("umount", f"{scratch}/tree")


main({case.__name__: case for case in (programs, small_reads, open_files, linked_open_files, replaced_open_files, listed_changes, two_trees, made_directories, locks_of_descriptors, locks_after_restarts, locks_of_a_killed_mount, local_locks, two_file_systems, server_restarts, moves, moves_under_load, failing_disk, lost_data, lost_at_the_end, silent_server, soft, users_wait, log_in_the_background, refusals)})
