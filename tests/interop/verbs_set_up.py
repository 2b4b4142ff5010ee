#!/usr/bin/python3
"""The messages of Penstock's server and client if RDMA is not available. Runs inside a guest with one device, at
TEST_INSIDE, and removes the device."""

import glob
import os
import resource
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import main  # noqa: E402
from files import MIB, make  # noqa: E402
from penstock import ADDRESS, PENSTOCK, penstock, penstock_ok, penstock_refused  # noqa: E402

NOBODY = 65534


def ordinary_user(locked=None):
    """Returns the command that starts a program as a user other than root; `locked` is the limit of locked memory."""
    limit = resource.RLIM_INFINITY if locked is None else locked
    return {"user": NOBODY, "group": NOBODY, "extra_groups": [],
            "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))}


def permit(mode, *names):
    for name in names or glob.glob("/dev/infiniband/*"):
        os.chmod(name, mode)


URL = f"nfs://{ADDRESS}:20049/?vers=4.1&proto=rdma&timeout=1"


def serve(scratch, *options):
    """The command, for every user."""
    folder = f"{scratch}/served"
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o777)
    return ["serve", folder, f"--listen={ADDRESS}", "--tcp-port=0", "--rdma-port=20049", "--mount-port=0", f"--state-dir={folder}/state",
            *options]


def both_refused(scratch, *options, mentions, **how):
    penstock_refused(*serve(scratch, *options), mentions=mentions, **how)
    penstock_refused("ping", "-c", 1, *options, URL, mentions=mentions, **how)


def unknown_device(scratch):
    for options in (["--rdma-device=absent0"], ["--rdma-device=absent0", "--rdma=verbs"]):
        both_refused(scratch, *options, mentions=["absent0", "penstock devices"])


def no_permission(scratch):
    """The user may not open any RDMA device file; later, only the connection manager's file is closed."""
    cure = ["no permission", "/dev/infiniband", "docs/hardware.md"]
    permit(0o600)
    both_refused(scratch, "--rdma=verbs", mentions=cure, **ordinary_user())
    penstock_refused("devices", mentions=cure, **ordinary_user())
    permit(0o666)
    permit(0o600, "/dev/infiniband/rdma_cm")
    both_refused(scratch, "--rdma=verbs", mentions=["/dev/infiniband/rdma_cm", *cure], **ordinary_user())
    permit(0o666)
    assert b"port active" in penstock("devices", **ordinary_user()).stdout


def memory_limit(scratch):
    permit(0o666)
    both_refused(scratch, "--rdma=verbs", mentions=["64 KiB", "ulimit -l unlimited", "LimitMEMLOCK=infinity"],
                 **ordinary_user(locked=64 << 10))


def memory_limit_later(scratch):
    """Enough locked memory to start, but not for clients: the server reports it, because clients cannot know."""
    permit(0o666)
    make(f"{scratch}/large", 30 * MIB)
    with open(f"{scratch}/log", "w+") as log, subprocess.Popen(
            [PENSTOCK, *serve(scratch, "--rdma=verbs")], stdout=log, stderr=log, **ordinary_user(locked=2200 << 10)) as server:
        while "\nready" not in said(log):
            assert server.poll() is None, said(log)
            time.sleep(0.1)
        done = penstock("cp", "-q", f"{scratch}/large", URL.replace("/?", "/large?"))
        assert server.poll() is None, "the others are served on"
        server.terminate()
        assert done.returncode == 1 and "lost" in done.stderr, done
        assert "only 2200 KiB" in said(log) and "LimitMEMLOCK=infinity" in said(log), said(log)


def said(log):
    with open(log.name) as again:
        return again.read()


def no_device(scratch):
    for link in os.listdir("/sys/class/infiniband"):
        subprocess.run(["rdma", "link", "delete", link], check=True)
    assert penstock_ok("devices") == b"no RDMA devices: Penstock uses software iWARP\n"
    both_refused(scratch, "--rdma=verbs", mentions=["no RDMA device", "--rdma iwarp"])


# The last case removes the device, so its place is last.
CASES = {case.__name__: case for case in (unknown_device, no_permission, memory_limit, memory_limit_later, no_device)}

if __name__ == "__main__":
    main(CASES)
