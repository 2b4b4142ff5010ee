#!/usr/bin/python3
"""The examples in C that use libpenstock: copy_tree and many_reads, against `penstock serve`.

    library_test.py FOLDER_OF_PROGRAMS [CASE...]"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "harness"))
from cases import main  # noqa: E402
from patience import BUSY  # noqa: E402
from penstock import Server  # noqa: E402

PROGRAMS = sys.argv.pop(1)
WAYS = [("tcp", "3"), ("tcp", "4.2"), ("rdma", "4.1")]


def url(server, path, transport, version):
    return server.url(path, transport).replace("vers=3", f"vers={version}")


def run(program, *arguments):
    return subprocess.run([f"{PROGRAMS}/{program}", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=300 * BUSY)


def ok(program, *arguments):
    done = run(program, *arguments)
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def tree_of(folder):
    """All names below a folder, with what a copy must keep."""
    found = {}
    for path, folders, files in os.walk(folder):
        for name in folders + files:
            full = os.path.join(path, name)
            status = os.lstat(full)
            if os.path.islink(full):
                what = ("link", os.readlink(full))
            elif os.path.isdir(full):
                what = ("directory",)
            else:
                with open(full, "rb") as file:
                    what = ("file", status.st_mode, status.st_mtime_ns, file.read())
            found[os.path.relpath(full, folder)] = what
    return found


def make_tree(folder):
    os.makedirs(f"{folder}/empty")
    os.makedirs(f"{folder}/deep/er/est")
    for name, size in {"small": 5, "none": 0, "deep/large": 3_000_001, "deep/er/est/grün": 70_000}.items():
        with open(f"{folder}/{name}", "wb") as file:
            file.write(os.urandom(size))
        os.utime(f"{folder}/{name}", ns=(1_000_000_000_123_456_000, 981_173_106_987_654_000))
    os.chmod(f"{folder}/small", 0o750)
    os.symlink("deep/large", f"{folder}/link")
    os.symlink("/nowhere", f"{folder}/dangling")


def copies_a_tree(scratch):
    """The copy has the names, contents, modes and times of the original, over each transport."""
    make_tree(f"{scratch}/export")
    with Server({"/export": f"{scratch}/export"}) as server:
        for number, (transport, version) in enumerate(WAYS):
            said = ok("copy_tree", url(server, "/export", transport, version), f"{scratch}/copy{number}")
            assert said == "copied 4 files with 3070006 octets\n", said
            assert tree_of(f"{scratch}/copy{number}") == tree_of(f"{scratch}/export"), (transport, version)


def tells_errors(scratch):
    """Each error is one line, and the exit code is not zero."""
    make_tree(f"{scratch}/export")
    with Server({"/export": f"{scratch}/export"}) as server:
        export = url(server, "/export", "tcp", "4.2")
        for program, arguments, mentions in [
                ("copy_tree", ["http://x/", f"{scratch}/copy"], "nfs://"),
                ("copy_tree", [url(server, "/export/gone", "tcp", "4.2"), f"{scratch}/copy"], "no such file"),
                ("copy_tree", [export, f"{scratch}/export/small"], "Not a directory"),
                ("many_reads", [export], "is a directory"),
                ("many_reads", [url(server, "/export/gone", "tcp", "3")], "no such file")]:
            done = run(program, *arguments)
            assert done.returncode == 1 and mentions in done.stderr, (program, arguments, done)
            assert done.stderr.count("\n") == 1, done.stderr
        assert run("copy_tree").returncode == 2 and run("many_reads").returncode == 2


def reads_in_one_poll_loop(scratch):
    """A thousand reads are under way at the same time, and read the whole file."""
    os.makedirs(f"{scratch}/export")
    with Server({"/export": f"{scratch}/export"}) as server:
        for size in (0, 999, 5_000_001):
            with open(f"{scratch}/export/file", "wb") as file:
                file.write(os.urandom(size))
            for transport, version in WAYS:
                said = ok("many_reads", url(server, "/export/file", transport, version))
                assert said == f"1000 reads at the same time have read {size} of {size} octets\n", said


main({case.__name__: case for case in (copies_a_tree, tells_errors, reads_in_one_poll_loop)})
