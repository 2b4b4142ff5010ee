#!/usr/bin/python3
"""bench/idle and bench/directories, briefly: each of their clients does its work without an error, and each row has its numbers."""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "harness"))
from cases import main  # noqa: E402
from patience import BUSY  # noqa: E402
from penstock import PENSTOCK  # noqa: E402

BUILD = os.path.abspath(os.path.join(os.path.dirname(PENSTOCK), "..", ".."))
BENCH = os.path.join(HERE, "..", "..", "bench")


def run(scratch, program, rows, *options):
    done = subprocess.run([sys.executable, "-B", os.path.join(BENCH, program), "--build", BUILD, "--out", f"{scratch}/out", *options],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300 * BUSY)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    lines = done.stdout.splitlines()
    assert len(lines) == 2 + rows and all(line.count("|") == lines[0].count("|") for line in lines), done.stdout


def idle(scratch):
    run(scratch, "idle", 4, "--connections", "40", "--settle-seconds", "0.2", "--idle-seconds", "0.2", "--seconds", "0.2")
    (kept,) = [name for name in os.listdir(f"{scratch}/out") if name.endswith(".json")]
    with open(f"{scratch}/out/{kept}") as file:
        for kind, connections, result in json.load(file):
            assert connections == 40 and result["latency_beside_us"]["p99"] > 0 and result["cpu_ms_per_s"] >= 0, (kind, result)


def directories(scratch):
    """A page of READDIRPLUS has fewer entries than the second directory."""
    run(scratch, "directories", 2, "--files", "20", "2000", "--rounds", "1", "--changes", "50", "--directory", scratch)
    with open(f"{scratch}/out/directories.json") as file:
        measured = json.load(file)
    assert list(measured) == ["20", "2000"], measured
    assert all(server > 0 and local > 0 for result in measured.values() for server, local in result.values()), measured
    with open(f"{scratch}/out/directories.svg") as file:
        assert file.read().count("<polyline") == len(measured["20"])


main({case.__name__: case for case in (idle, directories)})
