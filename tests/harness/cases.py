"""A minimal test framework: named cases, each one test of ctest, and ctest's exit code for "skipped"."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

SKIPPED = 77


class Skip(Exception):
    """This machine cannot run the case; the message says what is missing."""


def main(cases):
    """Runs the case that the command line names ({name: function(scratch folder)}), or all of them."""
    names = sys.argv[1:] or list(cases)
    for name in names:
        began, scratch = time.monotonic(), tempfile.mkdtemp(prefix="penstock-test-")
        os.chmod(scratch, 0o755)
        try:
            cases[name](scratch)
        except Skip as why:
            print(f"SKIPPED {name}: {why}")
            sys.exit(SKIPPED)
        except Exception:
            traceback.print_exc()
            print(f"FAILED {name}")
            sys.exit(1)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        print(f"passed {name} in {time.monotonic() - began:.1f} s", flush=True)


def run_beside(scenery, environment, usage):
    """The program of a module that runs a command beside something: "run -- COMMAND...". `scenery()` is a context manager, and
    environment(what it gives) are the variables that the command gets. Ends with the exit code of the command."""
    arguments = sys.argv[1:]
    if arguments[:2] != ["run", "--"] or not arguments[2:]:
        sys.exit(usage)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with scenery() as made, subprocess.Popen(arguments[2:], env=os.environ | environment(made)) as command:
            try:
                code = command.wait()
            finally:
                command.kill()
    except Skip as why:
        print(f"SKIPPED: {why}")
        sys.exit(SKIPPED)
    sys.exit(code if code >= 0 else 128 - code)
