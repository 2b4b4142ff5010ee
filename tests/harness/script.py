"""A running shell script, here or in a guest. Its output is read as it arrives, so that a test can act in the middle of
it: `wait_for` returns when the script has printed a line."""

import os
import re
import subprocess
import threading
import time

from patience import BUSY


class ScriptFailed(AssertionError):
    """The script failed, or did not print an expected line; carries its output."""


class Script:
    """A context manager: leaving it ends the script in any case."""

    END = "==== guest exit"

    def __init__(self):
        self.lines, self.changed = [], threading.Condition()
        self.ended = False

    def begin(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.reader.join(10)

    def _read(self):
        for raw in self.process.stdout:
            line = raw.decode(errors="replace").strip("\r\n")
            with self.changed:
                self.lines.append(line)
                self.changed.notify_all()
            if self.ready():
                print(f"guest| {line}", flush=True)
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def ready(self):
        return True

    def output(self):
        with self.changed:
            return list(self.lines)

    def wait_for(self, pattern, seconds, after=0):
        """Returns the first matching line as soon as it is printed, among the lines after the first `after`. `seconds`
        is the time limit on a machine without other load."""
        seconds *= BUSY
        expression, deadline, seen = re.compile(pattern), time.monotonic() + seconds, after
        with self.changed:
            while True:
                for line in self.lines[seen:]:
                    if expression.search(line):
                        return line
                seen = len(self.lines)
                left = deadline - time.monotonic()
                if self.ended or left <= 0:
                    why = "ended" if self.ended else f"had {seconds} s"
                    raise ScriptFailed(f"guest {why} and never said /{pattern}/; its last lines:\n" +
                                       "\n".join(self.lines[-40:]))
                self.changed.wait(left)

    def go_on(self):
        """Lets a script continue that waits in `read`."""
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def finish(self, seconds):
        """Waits for the end of the script, which must have succeeded. Returns its output."""
        line = self.wait_for(rf"{self.END} \d+", seconds)
        if not line.endswith(" 0"):
            raise ScriptFailed("the guest's script failed: " + line + "\n" + "\n".join(self.output()[-40:]))
        return self.output()


class ScriptHere(Script):
    """Replaces Guest if the test itself runs in a guest: the script runs beside it."""

    END = "==== script exit"  # a line that only ScriptHere prints

    def __init__(self, script, files=None, forwards=None):
        super().__init__()
        self.script, self.files = script, files or {}

    def __enter__(self):
        for name, content in self.files.items():
            if not os.path.lexists(f"/{name}"):
                os.symlink(content, f"/{name}")
        self.begin(["sh", "-c", f"({self.script}\n)\necho \"{self.END} $?\""])
        return self


def hashes(lines, mark):
    """Returns {file name: BLAKE2b} from the lines `mark HASH PATH` that a script has printed."""
    return {line.split()[2].rsplit("/", 1)[-1]: line.split()[1] for line in lines if line.startswith(mark + " ")}
