"""Trees of penstock mount: a server, and its tree in a directory of this host."""

import contextlib
import errno
import fcntl
import os
import socket
import subprocess

from cases import Skip
from patience import SECONDS
from penstock import PENSTOCK, Server

WAYS = (("tcp", "3"), ("rdma", "3"), ("tcp", "4.0"), ("tcp", "4.1"), ("rdma", "4.2"))


def served(scratch, *options):
    for name in ("export", "tree", "other"):
        os.makedirs(f"{scratch}/{name}")
    os.chmod(f"{scratch}/export", 0o777)
    return Server({"/": f"{scratch}/export:no_root_squash"}, options=["--lease=2", "--grace=2", *options])


def url_of(server, transport, version):
    return server.url("/", transport).replace("vers=3", f"vers={version}")


def require_fuse():
    if not os.path.exists("/dev/fuse"):
        raise Skip("/dev/fuse is missing")


@contextlib.contextmanager
def mounted(url, directory, *options):
    require_fuse()
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


def is_free(file, lock=fcntl.lockf):
    """Whether the lock of the file is available; then `file` has it."""
    try:
        lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as why:
        assert why.errno in (errno.EAGAIN, errno.EACCES), why
        return False
    return True


# Writes until the file of the second argument exists.
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


class HostLog:
    """The log of this host, as processes see it that are started by `words`. Their mounts are in a namespace of their own."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"{scratch}/log")
        self.socket.settimeout(SECONDS)
        os.mkdir(f"{scratch}/dev")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def words(self, *command):
        return ["unshare", "-m", "sh", "-c", MOUNT_WITH_A_LOG, "sh", f"{self.scratch}/dev", f"{self.scratch}/log", *command]

    def await_message(self, text):
        while True:
            message = self.socket.recv(65536).decode()
            if text in message:
                return message


def process_of(message):
    """The process that has logged the message."""
    return int(message.split("penstock[")[1].split("]")[0])
