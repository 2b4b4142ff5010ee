"""Runs the real `penstock` program: a server on free ports, and the client commands against it.

Over loopback; or, where PENSTOCK_INSIDE names an address, over the RDMA device that has it. That is so inside a guest."""

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import time

from patience import BUSY
from ports import free_ports

PENSTOCK = os.environ.get("PENSTOCK", "build/release/src/cli/penstock")
START_SECONDS = 60 * BUSY
# Less than --stall-limit and a little: a server that stops does not wait for that.
STOP_SECONDS = 60
INSIDE = os.environ.get("PENSTOCK_INSIDE")
ADDRESS = INSIDE or "127.0.0.1"
# Inside a guest there is nothing new to be learned about TCP.
TRANSPORTS = ("rdma",) if INSIDE else ("rdma", "tcp")


def penstock(*arguments, seconds=120 * BUSY, **how):
    """A client command, run to its end. What it puts out are bytes; what it complains of is text. `how` is subprocess.run's."""
    done = subprocess.run([PENSTOCK, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=seconds, **how)
    done.stderr = done.stderr.decode(errors="replace")
    return done


def penstock_ok(*arguments):
    """A client command that must succeed; its output."""
    done = penstock(*arguments)
    assert done.returncode == 0, f"penstock {' '.join(map(str, arguments))}: {done.returncode}\n{done.stderr}"
    return done.stdout


def check_refusal(code, said, mentions=(), warnings=()):
    """Exit code 1, and one clear line on stderr, with nothing before it but a line for each of `warnings`. The line."""
    *warned, why = said.strip().splitlines() or [""]
    print("refused|", *warned, why, sep="\n  ")
    assert code == 1, f"exit code {code}: {said}"
    assert len(warned) == len(warnings), f"{len(warned)} lines before the last on stderr: {said}"
    for word, line in [*((word, why) for word in mentions), *zip(warnings, warned)]:
        assert word in line, f"{word!r} is not in {line!r}"
    return why


def penstock_refused(*arguments, mentions=(), warnings=(), **how):
    """A client command that ends so."""
    done = penstock(*arguments, seconds=60, **how)
    return check_refusal(done.returncode, done.stderr, mentions, warnings)


def serving(ports, *arguments):
    """The command of a server on these ports: for TCP, for RDMA, for MOUNT."""
    tcp, rdma, mount = ports
    return ["serve", *arguments, f"--listen={ADDRESS}", f"--tcp-port={tcp}", f"--rdma-port={rdma}", f"--mount-port={mount}"]


def serve_refused(scratch, *arguments, ports=None, mentions=()):
    """As penstock_refused, of a server that must not start. It has ports of its own, too, and keeps its state in `scratch`: else it
    would be refused for another reason beside a server on the usual ports."""
    return penstock_refused(*serving(ports or free_ports(3), *arguments, f"--state-dir={scratch}/state"), mentions=mentions)


@contextlib.contextmanager
def under_way(*arguments):
    """A client command while it runs: a process, which ends with the `with`. Where the test fails in there, what the command has
    said is told."""
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


class Server:
    """`penstock serve`, ready when entered and stopped (and its exit code checked) when left."""

    def __init__(self, exports, options=(), ports=None, environment=None):
        """`exports` is {exported path: "directory[:options]"}."""
        self.environment = environment
        self.tcp, self.rdma, self.mount = ports or free_ports(3)
        self.arguments = serving(self.ports, *(f"--export={path}={directory}" for path, directory in exports.items()),
                                 *(["--rdma=verbs"] if INSIDE else []), *options)
        self.lines = []

    def __enter__(self):
        self.state = tempfile.TemporaryDirectory(prefix="penstock-state-")  # what survives a restart
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
        """Waits until it has said a line with this in it; the line."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for line in list(self.lines):
                if part in line:
                    return line
            time.sleep(0.02)
        raise AssertionError(f"the server did not say {part!r}")

    def stop(self, how=signal.SIGTERM):
        """Asks it to end; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not stop within {STOP_SECONDS} s of {how!r}") from None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def url(self, path, transport):
        port = self.rdma if transport == "rdma" else self.tcp
        return f"nfs://{ADDRESS}:{port}{path}?vers=3&proto={transport}&mountport={self.mount}"
