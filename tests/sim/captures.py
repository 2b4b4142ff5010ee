#!/usr/bin/python3
"""tshark reads the captured traffic of simulations and finds no malformed message. Connections may end anywhere.

captures.py SIM_SCHEDULES
"""

import os
import shutil
import subprocess
import sys
import tempfile

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(TESTS, "harness"), os.path.join(TESTS, "interop")]
import check_capture  # noqa: E402

SCHEDULES = 12
ALLOWED = (
    # Some schedules make Reply chunks too short. The client then repeats the call with a longer chunk.
    ": RDMA_ERROR",
    # tshark complains about a bitmap of length zero. The bitmap is valid: it names no attribute (RFC 8881 §5.6).
    "an attribute mask is required but was not provided.",
)
PORTS = {"rdma": 20049, "tcp": 2049, "mount": 20048}  # the simulated server listens on the first one only


def main():
    if not (shutil.which("tshark") and shutil.which("editcap")):
        print("SKIPPED: tshark and editcap (package tshark) are not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as folder:
        subprocess.run([sys.argv[1], f"--count={SCHEDULES}", f"--capture={folder}"], check=True)
        failed = False
        for seed in range(1, SCHEDULES + 1):
            path = f"{folder}/{seed}"
            subprocess.run(["editcap", "-F", "nsecpcap", path + ".pcapng", path + ".pcap"], check=True)
            version = "rdma-nfs" if seed % 2 else "rdma-nfs4"  # see schedule.cc
            # A lost connection leaves calls without replies.
            problems, summary = check_capture.check(path + ".pcap", PORTS, ["mpa", "rpc-over-rdma", version], restarted=True)
            problems = [problem for problem in problems if not problem.endswith(ALLOWED)]
            print(f"seed {seed}: {summary}", *problems[:20], sep="\n  ", flush=True)
            failed = failed or bool(problems)
    sys.exit(1 if failed else 0)


main()
