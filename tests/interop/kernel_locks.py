#!/usr/bin/python3
"""A Linux client of version 3 that locks through the server's lock manager: against a client of version 4, against a
program on the server's host, and over restarts of the server and of the client.

The client finds every port by the server's port mapper, and the server calls the client's lock manager and status
monitor. So both need addresses of their own: the guest has a network device whose other end is in the namespace of the
test. Each case leaves a capture of its traffic for check_capture.py.
"""

import fcntl
import os
import signal
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import namespaces  # noqa: E402
import tap  # noqa: E402
from capture import Capture  # noqa: E402
from cases import main  # noqa: E402
from guest import Guest  # noqa: E402
from guest_programs import carried  # noqa: E402
from linux import require  # noqa: E402
from mounts import exported  # noqa: E402
from patience import BUSY  # noqa: E402
from penstock import Server  # noqa: E402

OURS = "10.9.0.1"
LEASE = 15  # Linux renews its lease every five seconds at most

# The status monitor runs as the owner of its folder.
CLIENT = f"""
{tap.UP}{tap.RDMA}
hostname client
mkdir -p /tmp/statd/sm /tmp/statd/sm.bak; echo {tap.GUEST} client >>/etc/hosts
rpcbind && rpc.statd -P /tmp/statd || exit 1
mkdir -p /mnt /other
mount -t nfs -o vers=3,proto=%(transport)s {OURS}:/export /mnt || exit 1
mount -t nfs -o vers=4.1,proto=tcp {OURS}:/export /other || exit 1
grep ' /mnt nfs .*vers=3,.*proto=%(transport)s,.*local_lock=none' /proc/mounts || exit 1
"""
WORK = """
mkdir /mnt/first /mnt/second
locks /mnt/first /other/first 3 || exit 1
locks /other/second /mnt/second 3 || exit 1

exec 9>/mnt/held
flock -x 9 && echo 'holds the lock'
read go
flock -x -n /other/held true && exit 1
echo 'the other client is refused'
read go
exec 9>&-
flock -x -n /other/held true || exit 1
echo 'the other client has had the lock'

exec 9>/mnt/again
flock -x 9 && echo 'holds another lock'
read go
sm-notify -f -P /tmp/statd
echo 'has told that it has started again'
read go
"""


def is_locked(path):
    """Whether a program on the server's host is refused a lock of the file."""
    whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    with open(path, "r+b") as file:
        (kind,) = struct.unpack_from("h", fcntl.fcntl(file, fcntl.F_GETLK, whole))
    return kind != fcntl.F_UNLCK


def until(done, what, seconds=60):
    deadline = time.monotonic() + seconds * BUSY
    while not done():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.2)


def lock(transport):
    def run(scratch, name):
        require()
        tap.make(OURS)
        folder = exported(scratch)
        server = Server({"/export": f"{folder}:no_root_squash"}, ["--portmap", f"--lease={LEASE}", f"--grace={LEASE}"],
                        ports=(2049, 20049, 20048), address=OURS)
        with server, Capture(name, server, restarted=True, interface=tap.TAP, filter="tcp or udp"), \
                Guest(CLIENT % {"transport": transport} + WORK, files=carried("locks"), taps=[tap.TAP]) as guest:
            guest.wait_for("holds the lock", 300)
            assert is_locked(f"{folder}/held"), "a program on the host sees the client's lock"
            server.stop(signal.SIGKILL)
            server.start()
            until(lambda: is_locked(f"{folder}/held"), "the client reclaims its lock")
            time.sleep(LEASE + 3)  # the grace period
            guest.go_on()
            guest.wait_for("the other client is refused", 60)
            with open(f"{folder}/free", "w") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            guest.go_on()
            guest.wait_for("the other client has had the lock", 60)
            guest.wait_for("holds another lock", 60)
            assert is_locked(f"{folder}/again")
            guest.go_on()
            guest.wait_for("has told that it has started again", 60)
            until(lambda: not is_locked(f"{folder}/again"), "the locks of a client that has started again end")
            guest.go_on()
            guest.finish(60)

    return run


CASES = {"locks_rdma": lock("rdma"), "locks_tcp": lock("tcp")}

if __name__ == "__main__":
    namespaces.enter()
    main({name: lambda scratch, do=do, name=name: do(scratch, name) for name, do in CASES.items()})
