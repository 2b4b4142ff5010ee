"""The time limits of tests for expected events. Only a failing test waits so long."""

import time

BUSY = 5  # on a busy machine everything may take so many times as long
SECONDS = 30 * BUSY  # for an event that normally takes a moment


def wait_until(condition, otherwise):
    """Waits until condition() is true; `otherwise` is the message if it never is."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.02)
