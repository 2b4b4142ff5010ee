"""Runs a test in network and mount namespaces of its own: its servers may use every port, and /run is empty."""

import os
import subprocess
import sys

from cases import Skip

MARK = "TEST_TEST_NAMESPACES"


def enter():
    """Starts this program again in new namespaces, unless it runs there already. Call it before anything else. Without
    the right to do so it returns, and require() tells the cases."""
    if MARK in os.environ:
        return
    unshare = ["unshare", "--mount", "--net", "--propagation", "private"]
    try:
        allowed = subprocess.run([*unshare, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    except FileNotFoundError:
        allowed = False
    if allowed:
        os.execvpe(unshare[0], [*unshare, sys.executable, "-B", *sys.argv], {**os.environ, MARK: "yes"})


def require():
    """Prepares the namespaces for a case, or skips it."""
    if MARK not in os.environ:
        raise Skip("no right to make network and mount namespaces (unshare)")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # /var/run leads there as well.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/run"], check=True)
