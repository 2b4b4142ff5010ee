#!/usr/bin/python3
"""bench/bystander, briefly: each of its worst clients does its work without an error while the bystander is served, and lets go of it."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "harness"))
from cases import main  # noqa: E402
from patience import BUSY  # noqa: E402
from penstock import PENSTOCK  # noqa: E402

BUILD = os.path.abspath(os.path.join(os.path.dirname(PENSTOCK), "..", ".."))
BYSTANDER = os.path.join(HERE, "..", "..", "bench", "bystander")


def run(scratch, rows, *options):
    """Runs it with few locks, but more than the server releases at once. It prints a table with this number of rows."""
    done = subprocess.run([sys.executable, "-B", BYSTANDER, "--rounds", "2", "--seconds", "0.1", "--threads", "2", "--ops", "getattr", "--locks", "600", "--no-floor",
                           "--build", BUILD, "--out", f"{scratch}/out", *options], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=600 * BUSY)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    lines = done.stdout.splitlines()
    assert len(lines) == 2 + rows and all(line.count("|") == lines[0].count("|") for line in lines), done.stdout
    assert all(float(line.split("|")[-2]) > 0 for line in lines[2:]), done.stdout
    kept = sorted(os.path.splitext(name)[1] for name in os.listdir(f"{scratch}/out") if name.endswith((".json", ".txt")))
    assert kept == [".json", ".txt"], kept


def worst_clients(scratch):
    run(scratch, 11)


def on_the_same_host(scratch):
    run(scratch, 3, "--same-host", "--transport", "rdma", "--version", "3", "--only", "many lock")


main({case.__name__: case for case in (worst_clients, on_the_same_host)})
