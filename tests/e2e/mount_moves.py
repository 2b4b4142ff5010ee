#!/usr/bin/python3
"""penstock mount: an export moves to another server while programs use it."""

import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import main  # noqa: E402
from patience import SECONDS, wait_until  # noqa: E402
from penstock import ADDRESS, Server  # noqa: E402
from trees import WRITER, mounted, read, url_of, write  # noqa: E402


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


def programs_go_on(scratch):
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


def under_load(scratch):
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


main({case.__name__: case for case in (programs_go_on, under_load)})
