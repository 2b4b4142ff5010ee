#!/usr/bin/python3
"""The rights of the server's process: with root's rights it acts as its callers, without them as its own user."""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import Skip, main  # noqa: E402
from files import make  # noqa: E402
from penstock import PENSTOCK, TRANSPORTS, Server, penstock_ok as ok, serving  # noqa: E402
from ports import free_ports  # noqa: E402

CAP_SYS_RESOURCE = 24  # linux/capability.h: lets a thread exceed disk quotas and use the reserved blocks of a disk


def capabilities_of_threads(process):
    """The effective capabilities of each thread of a process, as sets of bits."""
    found = []
    for thread in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{thread}/status") as status:
            found += [int(line.split()[1], 16) for line in status if line.startswith("CapEff:")]
    return found


def no_thread_exceeds_quotas(scratch):
    """No thread of a server of root may exceed quotas: threads act as callers that do not have this right."""
    if os.geteuid() != 0:
        raise Skip("only a server of root has the right to lose")
    os.makedirs(f"{scratch}/export")
    make(f"{scratch}/source", 1 << 20)
    with Server({"/": f"{scratch}/export:no_root_squash"}) as server:
        for transport in TRANSPORTS:
            ok("cp", f"{scratch}/source", server.url(f"/{transport}", transport))
        found = capabilities_of_threads(server.process.pid)
        assert len(found) > 2 and any(found), found
        assert not any(each >> CAP_SYS_RESOURCE & 1 for each in found), [f"{each:x}" for each in found]


def without_root(scratch):
    """Without root's rights every client acts as the user who started the server, and the server says so."""
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        raise Skip("setpriv (package util-linux) is not installed")
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    for name in ("export", "state"):
        os.makedirs(f"{scratch}/{name}")
        os.chmod(f"{scratch}/{name}", 0o777)
    program = f"{scratch}/penstock"  # The build folder may be closed to other users.
    shutil.copy(PENSTOCK, program)
    os.chmod(program, 0o755)
    with subprocess.Popen([*as_nobody, program, *serving(free_ports(3), f"{scratch}/export", f"--state-dir={scratch}/state")],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            lines = []
            while "ready" not in lines:
                lines.append(server.stdout.readline().rstrip("\n"))
                assert lines[-1] or server.poll() is None, lines
            uid = 65534 if as_nobody else os.geteuid()
            assert [line for line in lines if "every client acts as" in line and f"uid {uid}" in line], lines
        finally:
            server.terminate()
    with Server({"/": f"{scratch}/export"}) as server:
        assert os.geteuid() != 0 or not any("every client acts as" in line for line in server.lines), server.lines


main({case.__name__: case for case in (no_thread_exceeds_quotas, without_root)})
