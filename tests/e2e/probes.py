#!/usr/bin/python3
"""The program has the probes that docs/tracing.md lists, each with its arguments, and no other one."""

import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "harness"))
from cases import main  # noqa: E402
from penstock import PENSTOCK  # noqa: E402


def in_binary(_):
    with open(f"{ROOT}/docs/tracing.md") as page:
        text = page.read()
    listed = {name: len(arguments.split(",")) for name, arguments in re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, re.MULTILINE)}
    assert len(listed) >= 9, listed
    notes = subprocess.run(["readelf", "-nW", PENSTOCK], text=True, stdout=subprocess.PIPE, check=True).stdout
    found = {}
    for name, arguments in re.findall(r"Provider: penstock\s+Name: (\w+)\s+.*\n?\s*Arguments: (.*)", notes):
        found.setdefault(name, set()).add(len(re.findall(r"-?\d+@", arguments)))
    assert found == {name: {count} for name, count in listed.items()}, f"in the program: {found}; in the page: {listed}"
    for name in re.findall(r"penstock:(\w+__\w+)", text):
        assert name in listed, f"the example uses {name}"


if __name__ == "__main__":
    main({"in_binary": in_binary})
