#!/usr/bin/python3
"""The example memory_server: the client commands change files over TCP and RDMA.

    memory_test.py MEMORY_SERVER [CASE...]"""

import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "harness"))
from cases import main  # noqa: E402
from patience import BUSY  # noqa: E402
from penstock import penstock_ok as ok, penstock_refused as refused  # noqa: E402

MEMORY_SERVER = sys.argv.pop(1)


def change(url, folder, scratch):
    """Makes, reads, renames and removes files."""
    content = os.urandom(3_000_001)
    with open(f"{scratch}/mine", "wb") as mine:
        mine.write(content)
    ok("mkdir", url("/directory"))
    ok("cp", "-q", f"{scratch}/mine", url("/directory/file"))
    assert ok("cat", url("/directory/file")) == content
    ok("mv", url("/directory/file"), f"{folder}/directory/renamed")
    ok("chmod", "600", url("/directory/renamed"))
    line = ok("ls", "-l", url("/directory/renamed")).decode().split()
    assert line[0] == "-rw-------" and "3000001" in line, line
    refused("rm", url("/directory/file"), mentions=["no such file"])
    ok("rm", url("/directory/renamed"))
    assert ok("ls", url("/directory")) == b""


def serves(scratch):
    """Clients of versions 3 and 4.1 change files over both transports, and the server ends without an error."""
    with subprocess.Popen([MEMORY_SERVER, f"{scratch}/state"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True) as server:
        try:
            ports = {}
            for line in server.stdout:
                print("server|", line, end="", flush=True)
                if line == "ready\n":
                    break
                name, _, address = line.rpartition(": ")
                ports[name] = address.rpartition(":")[2].strip()
            assert len(ports) == 3, f"the server did not get ready: {ports}"
            for transport in ("tcp", "rdma"):
                for version in ("3", "4.1"):
                    folder = f"/{transport}{version}"

                    def url(path):
                        port = ports[f"NFS over {transport.upper()}"]
                        return (f"nfs://127.0.0.1:{port}{folder}{path}?vers={version}&proto={transport}"
                                f"&mountport={ports['MOUNT over TCP']}")
                    ok("mkdir", url(""))
                    change(url, folder, scratch)
            server.send_signal(signal.SIGTERM)
            assert server.wait(60 * BUSY) == 0, server.returncode
        finally:
            server.kill()


main({"serves": serves})
