"""How long tests wait for what must come. Only a test that fails waits so long."""

import time

BUSY = 5  # on a machine that is busy with other things everything may take so many times as long
SECONDS = 30 * BUSY  # for what takes a moment


def wait_until(condition, otherwise):
    """Until condition() is true; `otherwise` says what it means that it never is."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.02)
