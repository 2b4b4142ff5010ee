#!/usr/bin/python3
"""A Linux client lets one server copy files from another (RFC 7862 §4.5): from Penstock to Penstock, and from Linux's own server.

Linux names the other server by its address, and uses the default port. So each server has an address of its own. Linux starts such a copy
only for more than two of its largest READs. Whatever a server refuses, the client copies by itself. Each case leaves a capture of its
traffic for check_capture.py.
"""

import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import namespaces  # noqa: E402
import tap  # noqa: E402
from capture import Capture  # noqa: E402
from cases import main  # noqa: E402
from files import MIB, digest, make  # noqa: E402
from guest import Guest  # noqa: E402
from guest_programs import carried  # noqa: E402
from kernel_server import SERVE  # noqa: E402
from linux import require  # noqa: E402
from patience import SECONDS  # noqa: E402
from penstock import Server  # noqa: E402
from script import hashes  # noqa: E402

OURS, OTHERS = "10.9.0.1", "10.9.0.3"
PORTS = (2049, 20049, 20048)
COPIES = ("--inter-server-copy",)
SIZES = {"small": 100_001, "medium": 9 * MIB + 1, "large": 80 * MIB + 4097}

SET_UP = """
mount_at() { mkdir -p $2; mount -t nfs -o vers=4.2,proto=$3 $1:/ $2 || exit 1; }
# count MOUNT OPERATION: how often the client has sent it
count() { grep -A200 " mounted on $1 " /proc/self/mountstats | awk -v of="$2:" '/^device/ && seen++ { exit } $1 == of { print $2 }' | head -n1; }
tell() { echo "count $1 $2 $(count $1 $2)"; }
"""


def folder(scratch, name, sizes=()):
    path = f"{scratch}/{name}"
    os.makedirs(path)
    os.chmod(path, 0o777)
    for file in sizes:
        make(f"{path}/{file}", sizes[file])
    return path


def exported(path):
    return {"/": f"{path}:no_root_squash"}


def told(lines):
    """Returns {(mount, operation): count} of what the guest has told."""
    rows = [line.split() for line in lines if line.startswith("count ")]
    return {(row[1], row[2]): int(row[3]) for row in rows}


def guest(transport, script):
    return Guest(tap.UP + (tap.RDMA if transport == "rdma" else "") + SET_UP + script, files=carried("copier"), taps=[tap.TAP])


def same(*paths):
    assert len({digest(path) for path in paths}) == 1, paths


BETWEEN = """
mount_at %(ours)s /mnt/ours %(transport)s; mount_at %(others)s /mnt/others %(transport)s
for size in small medium large; do copier /mnt/others/$size /mnt/ours/from-$size || exit 1; done
tell /mnt/others COPY_NOTIFY; tell /mnt/ours COPY
copier /mnt/ours/from-large /mnt/others/back-large /mnt/ours/from-large /mnt/ours/within || exit 1
tell /mnt/ours COPY_NOTIFY; tell /mnt/others COPY; echo "within $(count /mnt/ours COPY)"
"""


def between(transport):
    """Files are copied in both directions, and within one server."""
    def run(scratch, name):
        require()
        tap.make(OURS, OTHERS)
        ours, others = folder(scratch, "ours"), folder(scratch, "others", SIZES)
        with Server(exported(ours), COPIES, PORTS, address=OURS) as server, Server(exported(others), COPIES, PORTS, address=OTHERS), \
                Capture(name, server, interface=tap.TAP), Capture(f"{name}_servers", server), \
                guest(transport, BETWEEN % {"ours": OURS, "others": OTHERS, "transport": transport}) as client:
            lines = client.finish(300)
        for size in SIZES:
            same(f"{others}/{size}", f"{ours}/from-{size}")
        same(f"{others}/large", f"{others}/back-large", f"{ours}/within")
        counts = told(lines)
        assert counts["/mnt/others", "COPY_NOTIFY"] == 2 and counts["/mnt/ours", "COPY"] == 2, counts
        assert counts["/mnt/ours", "COPY_NOTIFY"] == 1 and counts["/mnt/others", "COPY"] == 1, counts
        assert "within 3" in lines, "the copy within the server"

    return run


CUT = """
mount_at %(ours)s /mnt/ours tcp; mount_at %(others)s /mnt/others tcp
for end in orderly sudden; do copier /mnt/others/file /mnt/ours/$end || exit 1; done
"""


def restarts(scratch, name):
    """The server that copies ends in the middle, orderly and suddenly; the client goes on when it is back."""
    require()
    tap.make(OURS, OTHERS)
    ours, others = folder(scratch, "ours"), folder(scratch, "others", {"file": 700 * MIB})
    with Server(exported(ours), (*COPIES, "--lease=10"), PORTS, address=OURS) as target, \
            Server(exported(others), COPIES, PORTS, address=OTHERS) as source, \
            guest("tcp", CUT % {"ours": OURS, "others": OTHERS}) as client:
        for end, stop in (("orderly", target.stop), ("sudden", target.kill)):
            hold_in_the_middle(source, f"{ours}/{end}", 700 * MIB)
            stop()
            source.process.send_signal(signal.SIGCONT)
            target.start()
            client.wait_for(f"copied /mnt/ours/{end} ", 200)
            same(f"{others}/file", f"{ours}/{end}")
        client.finish(60)


def hold_in_the_middle(source, path, size):
    """Stops the source as soon as a part of the file is there."""
    deadline = time.monotonic() + 3 * SECONDS
    while not os.path.exists(path) or not os.path.getsize(path):
        assert time.monotonic() < deadline, f"nothing is copied to {path}"
        time.sleep(0.001)
    source.process.send_signal(signal.SIGSTOP)
    time.sleep(0.5)  # what is on its way arrives
    there = os.path.getsize(path)
    assert there < size, f"{path}: the copy had ended before it could be interrupted"
    print(f"{path}: {there} of {size} octets are there", flush=True)


FROM_LINUX = """
for size in %(sizes)s; do octets ${size#*=} >/srv/x/made/${size%%=*}; done
mount_at %(ours)s /mnt/ours tcp
mkdir -p /mnt/linux; mount -t nfs -o vers=4.2,proto=tcp %(guest)s:/srv/x/made /mnt/linux || exit 1
for size in small medium large; do copier /mnt/linux/$size /mnt/ours/$size || exit 1; echo "made $(b2sum /srv/x/made/$size)"; done
tell /mnt/linux COPY_NOTIFY; tell /mnt/ours COPY
"""


def from_linux(options):
    """The files are on the kernel's server, in the guest."""
    def run(scratch, name):
        require()
        tap.make(OURS)
        ours = folder(scratch, "ours")
        script = SERVE + FROM_LINUX % {"ours": OURS, "guest": tap.GUEST, "sizes": " ".join(f"{name}={size}" for name, size in SIZES.items())}
        with Server(exported(ours), options, PORTS, address=OURS) as server, Capture(name, server, interface=tap.TAP), \
                guest("tcp", script) as client:
            lines = client.finish(300)
        assert hashes(lines, "made") == {size: digest(f"{ours}/{size}") for size in SIZES}
        counts = told(lines)
        assert counts["/mnt/linux", "COPY_NOTIFY"] == 2 and counts["/mnt/ours", "COPY"] == 2, counts

    return run


CASES = {"copies_tcp": between("tcp"), "copies_rdma": between("rdma"), "copies_restart": restarts,
         "copies_from_linux": from_linux(COPIES), "copies_refused": from_linux(())}

if __name__ == "__main__":
    namespaces.enter()
    main({name: lambda scratch, do=do, name=name: do(scratch, name) for name, do in CASES.items()})
