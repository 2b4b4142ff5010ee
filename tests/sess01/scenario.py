#!/usr/bin/python3
"""Checks a server of the sessions of 2004 (draft-talpey-nfsv4-rdma-sess-01) with our own client. Prints each check and its result.

    scenario.py [--host HOST] [--tcp PORT] [--rdma PORT] [--model tcp|step-up|rdma]... [--path NAME/NAME] [--uid UID] [CHECK...]

Each model runs all checks. The user must have the right to write in the directory of the path, which is the root by default. The exit
code is 0 if no check fails.
"""

import argparse
import os
import sys
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import check_back  # noqa: E402
import check_chains  # noqa: E402
import check_control  # noqa: E402
import check_once  # noqa: E402
import check_rdma  # noqa: E402
import check_sessions  # noqa: E402
from check import NotHere, Place  # noqa: E402
from client import MODELS  # noqa: E402

CHECKS = [*check_sessions.CHECKS, *check_control.CHECKS, *check_once.CHECKS, *check_chains.CHECKS, *check_back.CHECKS,
          *check_rdma.CHECKS]


def run(place, checks, say=print):
    """Runs checks; returns the names of those that failed, and those that did not apply."""
    failed, not_here = [], []
    for check in checks:
        began = time.monotonic()
        try:
            check(place)
            result = "passed"
        except NotHere as why:
            not_here.append(check.__name__)
            result = f"does not apply: {why}"
        except Exception as why:
            failed.append(check.__name__)
            result = f"FAILED: {why}" if isinstance(why, AssertionError) and str(why) else "FAILED: " + traceback.format_exc()
        finally:
            place.tidy()
        say(f"{place.model:8} {check.__name__}: {result} ({time.monotonic() - began:.1f} s)", flush=True)
    return failed, not_here


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--tcp", type=int, default=2049)
    parser.add_argument("--rdma", type=int, default=20049)
    parser.add_argument("--model", action="append", choices=MODELS)
    parser.add_argument("--path", default="")
    parser.add_argument("--uid", type=int, default=os.getuid())
    parser.add_argument("checks", nargs="*", metavar="CHECK")
    options = parser.parse_args()
    unknown = set(options.checks) - {check.__name__ for check in CHECKS}
    if unknown:
        parser.error(f"there is no check {' '.join(sorted(unknown))}")
    checks = [check for check in CHECKS if not options.checks or check.__name__ in options.checks]
    failed, path = [], [name.encode() for name in options.path.split("/") if name]
    for model in options.model or MODELS:
        place = Place(options.host, options.tcp, options.rdma, model, options.uid, path)
        failed += [f"{model} {name}" for name in run(place, checks)[0]]
    print(f"{len(failed)} checks failed", *failed, sep="\n  ")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
