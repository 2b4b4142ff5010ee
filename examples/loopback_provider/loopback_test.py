#!/usr/bin/python3
"""The example loopback_provider: a server and a client of one process over its network.

    loopback_test.py LOOPBACK_PROVIDER [CASE...]"""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "harness"))
from cases import main  # noqa: E402
from patience import BUSY  # noqa: E402

LOOPBACK_PROVIDER = sys.argv.pop(1)


def carries(scratch):
    """A file is written to the served directory and read from it, and all of it goes through the network."""
    os.mkdir(f"{scratch}/served")
    done = subprocess.run([LOOPBACK_PROVIDER, f"{scratch}/state", f"{scratch}/served"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, timeout=60 * BUSY, check=True)
    octets, moved = map(int, re.findall(r"\d+", done.stdout))
    size = os.path.getsize(f"{scratch}/served/through-the-network")
    assert octets == size == 3_000_001, done.stdout
    assert moved > 2 * octets, done.stdout


main({"carries": carries})
