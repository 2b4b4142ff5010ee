#!/usr/bin/python3
"""The example async_read: it reads files at the same time, with a time limit for each read, and until it is interrupted.

    async_read_test.py ASYNC_READ [CASE...]"""

import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "harness"))
from cases import main  # noqa: E402
from patience import BUSY  # noqa: E402
from penstock import Server  # noqa: E402
from valve import Valve  # noqa: E402

ASYNC_READ = sys.argv.pop(1)
SIZES = {"empty": 0, "small": 7, "exact": 1 << 20, "large": 5_000_001}


def serve(scratch):
    os.mkdir(f"{scratch}/tree")
    for name, size in SIZES.items():
        with open(f"{scratch}/tree/{name}", "wb") as file:
            file.write(os.urandom(size))
    return Server({"/tree": f"{scratch}/tree"})


def start(port, *names):
    return subprocess.Popen([ASYNC_READ, f"nfs://127.0.0.1:{port}/tree?noresvport", *names], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines_of(process):
    """The output as {name: rest of the line}, and the exit code."""
    said, errors = process.communicate(timeout=120 * BUSY)
    print("async_read|", said, errors, sep="\n", flush=True)
    return dict(line.split(": ", 1) for line in said.splitlines()), process.returncode


def reads(scratch):
    """All sizes are right, and a file that is not there is no obstacle for others."""
    with serve(scratch) as server:
        sizes, code = lines_of(start(server.tcp, *SIZES))
        assert code == 0, code
        assert sizes == {name: f"{size} octets" for name, size in SIZES.items()}, sizes
        sizes, code = lines_of(start(server.tcp, "small", "absent", "large"))
        assert code == 1, code
        assert sizes["small"] == "7 octets" and sizes["large"] == "5000001 octets", sizes
        assert "no such file" in sizes["absent"], sizes


def is_interrupted(scratch):
    """SIGINT ends the reads of a server that does not answer."""
    with serve(scratch) as server, Valve(server.tcp, limit=2_000_000) as valve:
        process = start(valve.port, "large")
        valve.wait()
        process.send_signal(signal.SIGINT)
        sizes, code = lines_of(process)
        assert code == 1 and "cancelled" in sizes["large"], (sizes, code)


def has_time_limits(scratch):
    """A read of a server that does not answer ends when its time is over."""
    with serve(scratch) as server, Valve(server.tcp, limit=2_000_000) as valve:
        sizes, code = lines_of(start(valve.port, "large"))
        assert code == 1 and "time limit" in sizes["large"], (sizes, code)


main({"reads": reads, "is_interrupted": is_interrupted, "has_time_limits": has_time_limits})
