"""Counts what a server does, independently of the machine's load: under callgrind, or beside it by strace. bench/costs and
bench/sessions share it."""

import collections
import contextlib
import pathlib
import re
import signal
import subprocess
import time

from measuring import Failure, output_of

# Outside of valgrind, these calls do not enter the kernel.
WITHOUT_THE_KERNEL = ("clock_gettime", "gettimeofday", "time", "getcpu")

Counts = collections.namedtuple("Counts", "instructions functions system_calls")  # the last two: Counters by name


class Callgrind:
    """Runs processes of Penstock under callgrind, which counts what they do between two dumps."""

    def __init__(self, build, scratch):
        self.file, self.log = scratch / "callgrind", scratch / "valgrind"
        preloads = [build / f"bench/lib{name}.so" for name in ("openat2_preload", "slow_clock_preload")]
        for preload in preloads:
            if not preload.exists():
                raise Failure(f"{preload} does not exist: build openat2_preload and slow_clock_preload")
        # The beginning of a command that runs a program under callgrind.
        self.under = ("env", f"LD_PRELOAD={':'.join(map(str, preloads))}", "valgrind", "--tool=callgrind", f"--callgrind-out-file={self.file}-%p",
                      "--trace-syscalls=yes", f"--log-file={self.log}-%p")
        self.dumps = collections.Counter()
        self.read = collections.Counter()  # the octets of the logs that were counted

    def dump(self, pid):
        """Returns the Counts since the last dump of this process."""
        output_of(["callgrind_control", "--dump", pid], 60)
        self.dumps[pid] += 1
        path, deadline = pathlib.Path(f"{self.file}-{pid}.{self.dumps[pid]}"), time.monotonic() + 60
        while time.monotonic() < deadline:
            text = path.read_text() if path.exists() else ""
            total = re.search(r"^totals: (\d+)", text, re.MULTILINE)
            if total:
                path.unlink()
                return Counts(int(total[1]), calls_of_functions(text), self._system_calls(pid))
            time.sleep(0.05)
        raise Failure(f"callgrind does not write {path}")

    def _system_calls(self, pid):
        with open(f"{self.log}-{pid}") as log:
            log.seek(self.read[pid])
            text = log.read()
            self.read[pid] = log.tell()
        calls = collections.Counter(re.findall(r"^SYSCALL\[\d+,\d+\]\( *\d+\) sys_(\w+)", text, re.MULTILINE))
        for name in WITHOUT_THE_KERNEL:
            calls.pop(name, None)
        return calls


def calls_of_functions(dump):
    """Returns {function: calls} of a file of callgrind. It gives each name once, and numbers after that."""
    names, calls, callee = {}, collections.Counter(), None
    for line in dump.splitlines():
        if line.startswith(("fn=", "cfn=")):
            kind, _, rest = line.partition("=")
            number, _, name = rest.partition(" ")
            if name:
                names[number] = name
            if kind == "cfn":
                callee = names[number]
        elif line.startswith("calls="):
            calls[callee] += int(line[6:].split()[0])
    return calls


def of_one(run, seconds):
    """Returns what one operation costs: the difference of two runs leaves out what surrounds the operations. `run` returns
    {what: count} and the number of operations."""
    (less, few), (more, many) = run(seconds), run(4 * seconds)
    return {what: (more[what] - less.get(what, 0)) / (many - few) for what in more}


@contextlib.contextmanager
def system_calls(pid, file, names):
    """Counts the system calls of these names that a process and its threads make during a with statement: its value is a Counter,
    which is filled at the end. strace slows the process down, and writes `file`."""
    counted = collections.Counter()
    with subprocess.Popen(["strace", "-f", "-c", "-U", "calls,name", "-e", f"trace={','.join(names)}", "-o", file, "-p", str(pid)], stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as strace:
        try:
            said = strace.stderr.readline()
            if "attached" not in said:
                raise Failure(f"strace: {said.strip()}")
            yield counted
        finally:
            strace.send_signal(signal.SIGINT)
            strace.communicate(timeout=30)
    for line in file.read_text().splitlines():
        count, _, name = line.strip().partition(" ")
        if count.isdigit() and name.strip() != "total":
            counted[name.strip()] += int(count)
