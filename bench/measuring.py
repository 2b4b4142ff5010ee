"""What the programs of bench/ share: processes for the time of a measurement, a server with its client, and medians."""

import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "harness"))
from ports import free_ports  # noqa: E402, F401 (for the users of this module)

START_SECONDS, STOP_SECONDS = 20, 10


class Failure(Exception):
    """An error that the user can correct."""


def wait_for(port, process, what, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Failure(f"{what} ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 0.5).close()
            return
        except OSError:
            time.sleep(0.05)
    raise Failure(f"{what} does not listen on port {port}")


@contextlib.contextmanager
def running(command, port, log, seconds=START_SECONDS):
    """Runs a process that listens on `port` within so many seconds, for the duration of a with statement."""
    what = os.path.basename(str(command[0]))
    with open(log, "w") as output:
        process = subprocess.Popen([*map(str, command)], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            wait_for(port, process, f"{what} (see {log})", seconds)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def output_of(command, seconds):
    done = subprocess.run([*map(str, command)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=seconds)
    if done.returncode != 0:
        raise Failure(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def medians(rounds):
    """Returns the medians of dictionaries of the same shape, number by number. Other values come from the first
    dictionary."""
    first = rounds[0]
    if isinstance(first, dict):
        return {key: medians([each[key] for each in rounds]) for key in first}
    if isinstance(first, (int, float)) and all(isinstance(each, (int, float)) for each in rounds):
        return statistics.median(rounds)
    return first


def rounded(number):
    """Returns the number with five digits: none of them is sure."""
    return float(f"{number:.5g}")


def columns(rounds):
    """Returns one dictionary in place of those of the rounds, which have the same shape, with a list for each number."""
    first = rounds[0]
    if isinstance(first, dict):
        return {key: columns([each[key] for each in rounds]) for key in first}
    return [rounded(each) for each in rounds]


def middle(values):
    """Returns the median, and half of the distance between the quartiles."""
    if len(values) < 2:
        return values[0], 0.0
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return median, (high - low) / 2


def bench(setting, url, operations, depths, seconds, server_pid, size="1MiB", rate=0):
    """Runs `penstock bench`. Returns {(operation, depth): measurement}."""
    file = setting.scratch / "last.json"
    output_of([setting.program, "bench", url, "--ops", ",".join(operations), "--depth", ",".join(map(str, depths)), "--seconds", seconds,
               "--size", size, "--rate", rate, "--json", file, "--server-pid", server_pid], 120 + 10 * seconds * len(operations) * len(depths))
    return {(each["operation"], each["depth"]): each for each in json.loads(file.read_text())["measurements"]}


class Server:
    """A server on loopback, until the with statement of `stack` ends. `setting` has the program, the folder for logs and
    a scratch folder. `under`: the beginning of a command that runs the program in another one. `export`: the directory that it serves, by
    default a new one in the scratch folder."""

    def __init__(self, stack, setting, name, log, program=None, options=(), under=(), seconds=START_SECONDS, export=None):
        self.setting = setting
        self.tcp, self.rdma, self.mount = free_ports(3)
        state = setting.scratch / f"state-{name}"
        state.mkdir()
        if not export:
            export = setting.scratch / f"export-{name}"
            export.mkdir()
        self.process = stack.enter_context(running(
            [*under, program or setting.program, "serve", "--export", f"/={export}:no_root_squash", "--state-dir", state, "--listen", "127.0.0.1",
             "--tcp-port", self.tcp, "--rdma-port", self.rdma, "--mount-port", self.mount, *options], self.tcp, setting.out / log, seconds))

    def url(self, version, transport, options=""):
        port = self.rdma if transport == "rdma" else self.tcp
        return f"nfs://127.0.0.1:{port}/?vers={version}&proto={transport}&mountport={self.mount}{options}"

    def bench(self, url, operations, depths, seconds, size="1MiB", rate=0):
        """Returns {(operation, depth): measurement}."""
        return bench(self.setting, url, operations, depths, seconds, self.process.pid, size, rate)
