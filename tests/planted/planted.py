#!/usr/bin/python3
"""Plants bugs, one at a time, as a tired engineer might make them, and runs the tests that should find them.

    tests/planted/planted.py [--build DIR] [--only REGEX] [--check]

Works on a copy of the sources below --build (build/planted), built without sanitizers. A bug that does not compile, or
whose place does not occur exactly once in the sources, is an error of bugs.toml. Prints for each bug whether it was
found and by which test, and at the end the count; the exit code is 1 if fewer than 95 in a hundred were found.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LEAST = 0.95
# A bug may leave a parameter unused, and compiler warnings are not under test.
NO_WARNINGS = "".join(f'#pragma clang diagnostic ignored "{group}"\n' for group in ("-Wall", "-Wextra"))


def load(only):
    with open(f"{HERE}/bugs.toml", "rb") as file:
        bugs = tomllib.load(file)["bug"]
    names = [bug["name"] for bug in bugs]
    assert len(set(names)) == len(names), "two bugs of one name"
    return [bug for bug in bugs if re.search(only, bug["name"])]


def place_of(bug, root):
    """Returns the sources of the file, which must contain the place once."""
    with open(f"{root}/{bug['file']}") as file:
        text = file.read()
    count = text.count(bug["find"])
    if count != 1:
        sys.exit(f"{bug['name']}: its place is found {count} times in {bug['file']}")
    return text


def copy_sources(tree):
    """Unchanged files keep their times, so that only changed ones are compiled again."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    for name in listed:
        source, target = f"{ROOT}/{name}", f"{tree}/{name}"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(source, "rb") as file:
            content = file.read()
        if os.path.exists(target):
            with open(target, "rb") as file:
                if file.read() == content:
                    continue
        shutil.copy(source, target)


def run(command, cwd, seconds):
    """Returns the exit code and the output; code 124 after the time limit."""
    try:
        done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=seconds)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        return 124, (late.stdout or b"").decode(errors="replace") if isinstance(late.stdout, bytes) else ""


def build(tree, targets):
    return run(["cmake", "--build", "build", "--target", *targets], tree, 3600)


def find(tree, bug):
    """Returns the name of the test that found the bug, or None."""
    for program in bug["tests"]:
        code, said = run([f"{tree}/build/{program}", "--gtest_brief=1", "--gtest_fail_fast"], tree, 600)
        if code != 0:
            failed = re.findall(r"^\[  FAILED  \] (\S+)", said, flags=re.M)
            return failed[0] if failed else f"{program} ends with {code}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=f"{ROOT}/build/planted")
    parser.add_argument("--only", default="", help="bugs whose names match")
    parser.add_argument("--check", action="store_true", help="only look whether every bug has its place")
    arguments = parser.parse_args()
    bugs = load(arguments.only)
    for bug in bugs:
        place_of(bug, ROOT)
    print(f"{len(bugs)} bugs, each with its place")
    if arguments.check:
        return 0

    tree = f"{arguments.build}/tree"
    copy_sources(tree)
    configure = ["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DPENSTOCK_BUILD_TESTS=ON",
                 "-DCMAKE_CXX_COMPILER=clang++-19", "-DCMAKE_CXX_FLAGS_DEBUG=-O0 -g0"]
    code, said = run(configure, tree, 600)
    if code != 0:
        sys.exit(said)
    every = sorted({os.path.basename(program) for bug in bugs for program in bug["tests"]})
    code, said = build(tree, every)
    if code != 0:
        sys.exit(said)
    for program in sorted({program for bug in bugs for program in bug["tests"]}):
        if (found := find(tree, {"tests": [program]})) is not None:
            sys.exit(f"without any bug: {found} fails")

    survived = []
    for bug in bugs:
        began, text = time.monotonic(), place_of(bug, tree)
        path = f"{tree}/{bug['file']}"
        with open(path, "w") as file:
            file.write(NO_WARNINGS + text.replace(bug["find"], bug["put"]))
        try:
            code, said = build(tree, [os.path.basename(program) for program in bug["tests"]])
            if code != 0:
                sys.exit(f"{bug['name']}: does not compile:\n{said[-3000:]}")
            found = find(tree, bug)
        finally:
            with open(path, "w") as file:
                file.write(text)
        if found is None:
            survived.append(bug["name"])
        print(f"{'found' if found else 'SURVIVED':9}{bug['name']} ({time.monotonic() - began:.0f} s){': ' + found if found else ''}",
              flush=True)
    share = 1 - len(survived) / max(1, len(bugs))
    print(f"{len(bugs) - len(survived)} of {len(bugs)} found ({share:.0%})")
    return 0 if share >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
