"""A minimal test framework: named cases, each one test of ctest, and ctest's exit code for "skipped"."""

import os
import shutil
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
