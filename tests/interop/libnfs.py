#!/usr/bin/python3
"""Debian's libnfs programs (nfs-ls, nfs-cp, nfs-cat) against the TCP port."""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from capture import Capture  # noqa: E402
from cases import Skip, main  # noqa: E402
from files import SIZES, assert_same, digests, make_sizes  # noqa: E402
from patience import BUSY  # noqa: E402
from penstock import Server  # noqa: E402


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120 * BUSY)
    assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stderr.decode(errors='replace')}"
    return done.stdout


def libnfs(scratch):
    if not shutil.which("nfs-ls"):
        raise Skip("libnfs-utils is not installed")
    for folder in ("export", "export/made", "export/put", "got"):
        os.mkdir(f"{scratch}/{folder}")
        os.chmod(f"{scratch}/{folder}", 0o777)
    make_sizes(f"{scratch}/export/made")
    with Server({"/export": f"{scratch}/export:no_root_squash"}) as server, Capture("libnfs", server):
        def url(path):
            return f"nfs://127.0.0.1/export{path}?nfsport={server.tcp}&mountport={server.mount}"

        listed = run("nfs-ls", url("/made")).decode().split()
        assert all(name in listed for name in SIZES), listed
        for name in SIZES:
            run("nfs-cp", url(f"/made/{name}"), f"{scratch}/got/{name}")
            run("nfs-cp", f"{scratch}/got/{name}", url(f"/put/{name}"))
        with open(f"{scratch}/export/made/4097", "rb") as made:
            assert run("nfs-cat", url("/made/4097")) == made.read()
    wanted = digests(f"{scratch}/export/made")
    assert_same(digests(f"{scratch}/got"), wanted, "what nfs-cp read")
    assert_same(digests(f"{scratch}/export/put"), wanted, "what nfs-cp wrote")


main({"libnfs": libnfs})
