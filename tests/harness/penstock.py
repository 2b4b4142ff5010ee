"""Runs the real `penstock` program: a server on free ports, and the client commands against it.

It uses loopback, or, if TEST_INSIDE names an address, the RDMA device with that address, inside a guest.
"""

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import time

from patience import BUSY, wait_until
from ports import free_ports

PENSTOCK = os.environ.get("PENSTOCK", "build/release/src/cli/penstock")
os.environ["PENSTOCK_CLIENT_CONFIG"] = "none"  # the user of a test may have defaults
START_SECONDS = 60 * BUSY
# Shorter than --stall-limit with its tolerance, so that no test passes because a stopping server waits for that.
STOP_SECONDS = 60
INSIDE = os.environ.get("TEST_INSIDE")
ADDRESS = INSIDE or "127.0.0.1"
# TCP inside a guest is no different.
TRANSPORTS = ("rdma",) if INSIDE else ("rdma", "tcp")


def penstock(*arguments, seconds=120 * BUSY, **how):
    """Runs a client command to its end. Its output is bytes; its error output is text. `how` are arguments of
    subprocess.run."""
    done = subprocess.run([PENSTOCK, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=seconds, **how)
    done.stderr = done.stderr.decode(errors="replace")
    return done


def penstock_ok(*arguments):
    """Runs a client command that must succeed; returns its output."""
    done = penstock(*arguments)
    assert done.returncode == 0, f"penstock {' '.join(map(str, arguments))}: {done.returncode}\n{done.stderr}"
    return done.stdout


def check_refusal(code, said, mentions=(), warnings=(), expects=1):
    """Requires this exit code and one clear line on stderr, preceded only by one line for each of `warnings`. Returns the
    line."""
    *warned, why = said.strip().splitlines() or [""]
    print("refused|", *warned, why, sep="\n  ")
    assert code == expects, f"exit code {code}: {said}"
    assert len(warned) == len(warnings), f"{len(warned)} lines before the last on stderr: {said}"
    for word, line in [*((word, why) for word in mentions), *zip(warnings, warned)]:
        assert word in line, f"{word!r} is not in {line!r}"
    return why


def penstock_refused(*arguments, mentions=(), warnings=(), expects=1, **how):
    """Runs a command that must fail with one clear message; see check_refusal()."""
    done = penstock(*arguments, seconds=60, **how)
    return check_refusal(done.returncode, done.stderr, mentions, warnings, expects)


def penstock_misused(*arguments, mentions=(), **how):
    """Runs a command line that makes no sense: exit code 2 and one clear message; see check_refusal()."""
    return penstock_refused(*arguments, mentions=mentions, expects=2, **how)


def serving(ports, *arguments, address=ADDRESS):
    """Returns the command of a server on these ports: for TCP, RDMA and MOUNT."""
    tcp, rdma, mount = ports
    return ["serve", *arguments, f"--listen={address}", f"--tcp-port={tcp}", f"--rdma-port={rdma}", f"--mount-port={mount}"]


def serve_refused(scratch, *arguments, ports=None, mentions=()):
    """Like penstock_refused, for a server that must not start. It gets its own ports and keeps its state in `scratch`;
    otherwise a server on the default ports could be the reason."""
    return penstock_refused(*serving(ports or free_ports(3), *arguments, f"--state-dir={scratch}/state"), mentions=mentions)


@contextlib.contextmanager
def under_way(*arguments):
    """Runs a client command during a with statement. If the test fails within it, the command's output is printed."""
    with tempfile.TemporaryFile("w+", errors="replace") as said, \
            subprocess.Popen([PENSTOCK, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=said, stderr=said) as process:
        try:
            yield process
        except BaseException:
            said.seek(0)
            print("the command had said|", *said.readlines()[-40:], sep="\n  ", flush=True)
            raise
        finally:
            process.kill()


def state_of(task):
    """The state of a thread (proc(5)), or None if it has ended."""
    try:
        with open(f"{task}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return None


class Server:
    """Runs `penstock serve` during a with statement: ready at the beginning; stopped, with its exit code checked, at
    the end."""

    def __init__(self, exports, options=(), ports=None, environment=None, address=ADDRESS):
        """`exports` is {exported path: "directory[:options]"}."""
        self.environment = environment
        self.tcp, self.rdma, self.mount = ports or free_ports(3)
        self.arguments = serving(self.ports, *(f"--export={path}={directory}" for path, directory in exports.items()),
                                 *(["--rdma=verbs"] if INSIDE else []), *options, address=address)
        self.lines = []

    def __enter__(self):
        self.state = tempfile.TemporaryDirectory(prefix="penstock-state-")  # the state directory
        self.arguments.append(f"--state-dir={self.state.name}")
        self.start()
        return self

    def __exit__(self, failure, *_):
        code = self.stop()
        self.state.cleanup()
        if failure is None:
            assert code == 0, f"the server ended with {code}; it said:\n" + "\n".join(self.lines[-30:])

    @property
    def ports(self):
        return self.tcp, self.rdma, self.mount

    def start(self):
        self.process = subprocess.Popen([PENSTOCK, *self.arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace", env=self.environment)
        self.is_ready = threading.Event()
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()
        deadline = time.monotonic() + START_SECONDS
        while not self.is_ready.wait(0.02):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError("the server did not get ready; it said:\n" + "\n".join(self.lines))

    def _read(self, process):
        for line in process.stdout:
            self.lines.append(line.rstrip("\n"))
            print("server|", line, end="", flush=True)
            if re.match(r"ready\b", line):
                self.is_ready.set()

    def expect_line(self, part):
        """Waits for a line that contains this text; returns the line."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for line in list(self.lines):
                if part in line:
                    return line
            time.sleep(0.02)
        raise AssertionError(f"the server did not say {part!r}")

    def stop(self, how=signal.SIGTERM):
        """Stops the server; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not stop within {STOP_SECONDS} s of {how!r}") from None

    @contextlib.contextmanager
    def silence(self):
        """Stops all threads of the server for a while, so that it does not answer."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            tasks = f"/proc/{self.process.pid}/task"
            wait_until(lambda: all(state_of(f"{tasks}/{task}") in ("T", None) for task in os.listdir(tasks)), "the server does not stop")
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def url(self, path, transport):
        port = self.rdma if transport == "rdma" else self.tcp
        return f"nfs://{ADDRESS}:{port}{path}?vers=3&proto={transport}&mountport={self.mount}"
