"""What the tests of the Python module share: a server with an export, and a main function for ctest."""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "harness"))
from cases import SKIPPED  # noqa: E402
from penstock import ADDRESS, Server  # noqa: E402

# The harness has a module of the same name as the one under test. From here on the name means the latter.
del sys.modules["penstock"]
sys.path.pop(0)
sys.path[:] = [folder for folder in sys.path if not os.path.exists(os.path.join(folder, "cases.py"))]
try:
    import penstock  # noqa: E402
except ImportError as why:
    print(f"SKIPPED: the Python module is not built: {why}")
    sys.exit(SKIPPED)

# (transport, version) of mounts that the tests use.
WAYS = [("tcp", "3"), ("tcp", "4.0"), ("tcp", "4.1"), ("tcp", "4.2"), ("rdma", "3"), ("rdma", "4.1")]


class Export:
    """A server while a test runs, and the folder that it exports as /export."""

    def __init__(self, options=()):
        self.scratch = tempfile.mkdtemp(prefix="penstock-python-")
        os.chmod(self.scratch, 0o755)
        self.folder = os.path.join(self.scratch, "export")
        os.mkdir(self.folder)
        os.chmod(self.folder, 0o777)
        self.server = Server({"/export": f"{self.folder}:no_root_squash"}, options)

    def __enter__(self):
        self.server.__enter__()
        return self

    def __exit__(self, *why):
        try:
            self.server.__exit__(*why)
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def url(self, path="/export", transport="tcp", version="4.1", more=""):
        port = self.server.rdma if transport == "rdma" else self.server.tcp
        return f"nfs://{ADDRESS}:{port}{path}?vers={version}&proto={transport}&mountport={self.server.mount}{more}"

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, contents):
        with open(self.path(name), "wb") as file:
            file.write(contents)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    @contextlib.contextmanager
    def silent(self):
        """Meanwhile the server does not answer."""
        self.server.process.send_signal(signal.SIGSTOP)
        while not self.is_stopped():  # its threads stop one after another
            time.sleep(0.001)
        try:
            yield
        finally:
            self.server.process.send_signal(signal.SIGCONT)

    def is_stopped(self):
        tasks = f"/proc/{self.server.process.pid}/task"
        states = []
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/stat") as file:
                states.append(file.read().rpartition(")")[2].split()[0])
        return all(state == "T" for state in states)


class ExportTest(unittest.TestCase):
    """Tests with one server for all of a class."""

    OPTIONS = ()

    @classmethod
    def setUpClass(cls):
        cls.export = Export(cls.OPTIONS)
        cls.export.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.export.__exit__(None, None, None)

    def setUp(self):
        for name in os.listdir(self.export.folder):
            path = self.export.path(name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)


def main():
    """Runs the tests of the script that calls it, or those that the command line names."""
    unittest.main(verbosity=2)


__all__ = ["ADDRESS", "Export", "ExportTest", "SKIPPED", "WAYS", "main", "penstock"]
