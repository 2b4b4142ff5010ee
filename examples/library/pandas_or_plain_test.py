#!/usr/bin/python3
"""The example pandas_or_plain.py, with pandas and without it, against the real server."""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python", "tests"))
from served import SKIPPED, Export  # noqa: E402

try:
    import fsspec  # noqa: E402, F401
except ImportError as why:
    print(f"SKIPPED: {why}")
    sys.exit(SKIPPED)

EXAMPLE = os.path.join(HERE, "pandas_or_plain.py")
# Runs the example as if pandas were not installed.
WITHOUT_PANDAS = """
import importlib.util, runpy, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "pandas" else find(name, *more)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def check(export, command, name, transport):
    done = subprocess.run([*command, export.url(f"/export/{name}", transport)], stdout=subprocess.PIPE, text=True, check=True)
    print(done.stdout, end="")
    assert done.stdout.startswith("2.0 million people, by "), done.stdout
    assert export.read(name).decode().split() == ["city,millions", "Amsterdam,0.9", "Oslo,0.7", "Zürich,0.4"], export.read(name)
    return done.stdout


with Export() as served:
    for way in ("tcp", "rdma"):
        check(served, [sys.executable, "-B", EXAMPLE], f"{way}.csv", way)
        assert "by csv" in check(served, [sys.executable, "-B", "-c", WITHOUT_PANDAS, EXAMPLE], f"{way}-plain.csv", way)
    assert subprocess.run([sys.executable, "-B", EXAMPLE], stderr=subprocess.DEVNULL).returncode == 1
print("passed")
