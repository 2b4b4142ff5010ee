"""A `penstock cp` that a valve stops in the middle, so that a test can change something before the copy goes on."""

import os
import subprocess

from files import MIB
from patience import SECONDS, wait_until
from penstock import PENSTOCK, check_refusal
from valve import Valve

# SIZE is more than a client requests at a time. So a copy that is held after PASSING octets has calls that it has not yet sent.
SIZE, PASSING = 24 * MIB, 3 * MIB


class HeldCopy:
    """A context manager: the copy is held when it begins, and has ended when it ends."""

    def __init__(self, port, url, local, upload=False, options=(), environment=None):
        """Copies between the file `local` and url(the port of the valve). The valve is before the server at `port`."""
        self.valve = Valve(port, PASSING, holds_clients=upload)
        self.url, self.local, self.upload = url, local, upload
        self.options, self.environment = options, os.environ | (environment or {})

    def __enter__(self):
        if not self.upload:
            with open(self.local, "wb") as old:
                old.write(b"old")
        self.valve.__enter__()
        remote = self.url(self.valve.port)
        ends = [self.local, remote] if self.upload else [remote, self.local]
        # The file has its name from the beginning.
        in_place = ["--in-place"] if self.upload else []
        self.process = subprocess.Popen([PENSTOCK, "cp", "-q", *in_place, *self.options, *ends], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)
        try:
            wait_until(lambda: self.valve.is_closed.is_set() or self.process.poll() is not None, "the copy is not held")
            assert self.process.poll() is None, f"{self.local}: the copy is over"
        except BaseException:
            self.process.kill()
            print(*self.process.communicate(), flush=True)
            self.valve.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        self.valve.__exit__()

    def let_go(self):
        """Opens the valve, and waits for the end of the copy. Returns the exit code and the text on stderr."""
        self.valve.open()
        _, said = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, said

    def finish(self):
        """The copy must succeed. Returns the lines on stderr."""
        code, said = self.let_go()
        assert code == 0, f"{self.local}: exit code {code}: {said[-2000:]}"
        return said.splitlines()

    def fail(self, *mentions, may_warn=False):
        """The copy must fail with one line on stderr, which may follow warnings. A download leaves the local file as it was before."""
        code, said = self.let_go()
        check_refusal(code, said.splitlines()[-1] if may_warn and said else said, mentions)
        folder, name = os.path.split(self.local)
        assert not [other for other in os.listdir(folder) if name in other and other != name], os.listdir(folder)
        if not self.upload:
            with open(self.local, "rb") as old:
                assert old.read() == b"old", f"{self.local}: the old file is damaged"
