"""A disk that fails on demand, for a program in its own process: see src/base/failing_disk.h for the rules."""

import os
import time

from patience import BUSY
from penstock import PENSTOCK

LIBRARY = os.path.join(os.path.dirname(os.path.abspath(PENSTOCK)), "..", "base", "libpenstock_failing_disk_preload.so")


class FailingDisk:
    def __init__(self, scratch):
        self.rules = f"{scratch}/disk-rules"
        self.log = f"{scratch}/disk-log"
        self.mend()
        assert os.path.exists(LIBRARY), f"{LIBRARY} is not built"
        self.environment = os.environ | {"LD_PRELOAD": os.path.realpath(LIBRARY), "TEST_FAILING_DISK": self.rules,
                                         "TEST_FAILING_DISK_LOG": self.log}

    def fail(self, *rules):
        """Replaces the rules."""
        with open(f"{self.rules}.new", "w") as out:
            out.writelines(f"{rule}\n" for rule in rules)
        os.rename(f"{self.rules}.new", self.rules)

    def mend(self):
        self.fail()

    def await_hanging(self, path):
        """Waits until a call for the file hangs."""
        deadline = time.monotonic() + 60 * BUSY
        while time.monotonic() < deadline:
            if os.path.exists(self.log):
                with open(self.log) as log:
                    if f"hangs {path}" in log.read().splitlines():
                        return
            time.sleep(0.02)
        raise AssertionError(f"no call for {path} hangs")

    def synced(self, path):
        """Returns how often the file has been made stable."""
        if not os.path.exists(self.log):
            return 0
        with open(self.log) as log:
            return log.read().splitlines().count(f"fsync {path}")
