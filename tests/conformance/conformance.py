#!/usr/bin/env python3
"""Keeps docs/conformance.toml honest, and makes docs/conformance.md from it.

  conformance.py check --build BUILD_DIR    every entry names code and tests that exist, and the tests have run in BUILD_DIR
  conformance.py table                      prints docs/conformance.md

An entry of conformance.toml:

  [[requirement]]
  id = "rfc8166-3.3.1-a"                 # unique; the document, the section, a letter
  section = "RFC 8166 §3.3.1"
  level = "MUST NOT"                     # as in the document, or "recommendation"
  text = "what it asks of us, in our words, one line"
  code = ["src/rpcrdma/credits.h:CreditWindow"]        # file:symbol, where it is obeyed
  test = ["rpcrdma.CreditWindow.NeverExceedsTheGrant"] # as ctest has them; with parameters: "rdma/iwarp.All/Suite.Case/0"
  exception = "why it is not done, or not tested"      # only then may code or test be missing
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEVELS = {"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "REQUIRED", "RECOMMENDED", "NOT RECOMMENDED", "SHALL", "SHALL NOT",
          "MAY", "recommendation"}
FIELDS = {"id", "section", "level", "text", "code", "test", "exception"}


def load(path):
    with open(path, "rb") as file:
        return tomllib.load(file).get("requirement", [])


def symbol_problem(root, reference):
    """Returns the problem of a `file:symbol`, or None."""
    name, _, symbol = reference.partition(":")
    path = root / name
    if not path.is_file():
        return f"no file {name}"
    last = symbol.split("::")[-1]
    if not last or not re.search(rf"\b{re.escape(last)}\b", path.read_text(encoding="utf-8")):
        return f"no '{symbol}' in {name}"
    return None


def ctest_names(build):
    listing = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], check=True, capture_output=True)
    return {test["name"] for test in json.loads(listing.stdout)["tests"]}


def unit_results(build):
    """Returns {case: passed} from the results of GoogleTest: "rpc.Suite.Case" is in results/rpc.unit.xml. A skipped
    case has not passed."""
    passed = {}
    results = build / "results"
    for path in results.glob("**/*.unit*.xml"):
        module = str(path.relative_to(results)).rpartition(".unit")[0]  # Names of modules have slashes, too.
        for case in ElementTree.parse(path).iter("testcase"):
            skipped = case.find("skipped") is not None or case.get("status") == "notrun"
            name = f"{module}.{case.get('classname')}.{case.get('name')}"
            passed[name] = not skipped and case.find("failure") is None
    return passed


def problems(entries, root, programs, units):
    """Yields one line for each problem. `programs` are ctest's names; only their existence can be checked here. `units`
    is the result of unit_results()."""
    seen = set()
    for entry in entries:
        name = entry.get("id", "?")
        if name in seen:
            yield f"{name}: there are two of it"
        seen.add(name)
        for field in sorted(entry.keys() - FIELDS):
            yield f"{name}: unknown field '{field}'"
        for field in ("id", "section", "level", "text"):
            if not entry.get(field):
                yield f"{name}: no {field}"
        if entry.get("level") not in LEVELS:
            yield f"{name}: level '{entry.get('level')}'"
        for field in ("code", "test"):
            if not entry.get(field) and not entry.get("exception"):
                yield f"{name}: no {field}, and no exception that says why"
        for reference in entry.get("code", []):
            if problem := symbol_problem(root, reference):
                yield f"{name}: {problem}"
        for test in entry.get("test", []):
            if test not in units and test not in programs:
                yield f"{name}: no test {test}, or it did not run"
            elif not units.get(test, True):
                yield f"{name}: the test {test} failed, or was skipped"


def table(entries):
    yield "# Conformance"
    yield ""
    yield "Made from [conformance.toml](conformance.toml) by `tests/conformance/conformance.py table`. Do not edit."
    section = None
    for entry in entries:
        document = entry["section"].split(" §")[0]
        if document != section:
            section = document
            yield from ("", f"## {document}", "", "| § | level | what it asks | where | tested by |", "|---|---|---|---|---|")
        where = "<br>".join(f"`{code}`" for code in entry.get("code", []))
        tests = "<br>".join(f"`{test}`" for test in entry.get("test", []))
        text = entry["text"].replace("|", "\\|")
        if entry.get("exception"):
            text += f" *Exception: {entry['exception']}*".replace("|", "\\|")
        yield f"| {entry['section'].split('§')[-1]} | {entry['level']} | {text} | {where} | {tests} |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["check", "table"])
    parser.add_argument("--build", type=pathlib.Path)
    arguments = parser.parse_args()
    entries = load(ROOT / "docs" / "conformance.toml")
    page = "\n".join(table(entries)) + "\n"
    if arguments.command == "table":
        print(page, end="")
        return 0
    found = list(problems(entries, ROOT, ctest_names(arguments.build), unit_results(arguments.build)))
    if (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8") != page:
        found.append("docs/conformance.md is not what `conformance.py table` prints")
    for line in found:
        print(line)
    excepted = sum(1 for entry in entries if entry.get("exception"))
    print(f"{len(entries)} requirements, {excepted} with an exception, {len(found)} problems")
    return 1 if found or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
