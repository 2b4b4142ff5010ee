"""Boots the throw-away Linux guest and runs a shell script in it.

The guest reaches the host's 127.0.0.1 as 10.0.2.2 (QEMU's user-mode network: no privilege, no bridge, nothing left
behind); what the host connects to is forwarded. The script's output is read as it comes, so that a test can act in the
middle of it: `wait_for` returns when the guest has said a line.
"""

import os
import re
import subprocess
import tempfile
import threading
import time

import guest_image
from guest_image import GuestUnavailable
from guest_programs import carried

BOOT_SECONDS = 180
MEMORY_MIB = int(os.environ.get("PENSTOCK_GUEST_MEM", "1400"))


class GuestFailed(AssertionError):
    """The guest's script failed, or the guest did not come up; carries what it printed."""


def archive_of(files, folder):
    """An initramfs of `files` ({path: bytes or host path}), to be appended to the base one."""
    for name, content in files.items():
        target = f"{folder}/{name}"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if isinstance(content, bytes):
            with open(target, "wb") as out:
                out.write(content)
        elif os.path.isdir(content):
            subprocess.run(["cp", "-a", content, target], check=True)
        else:
            subprocess.run(["cp", "-L", content, target], check=True)
    names = subprocess.run(["find", ".", "-mindepth", "1"], cwd=folder, stdout=subprocess.PIPE, check=True).stdout
    return subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], input=names, stdout=subprocess.PIPE, cwd=folder,
                          check=True).stdout


def accelerators():
    """What to boot with, best first. KVM is tried for real: a /dev/kvm that opens may still not run a guest."""
    if os.environ.get("PENSTOCK_GUEST_ACCEL"):
        return [os.environ["PENSTOCK_GUEST_ACCEL"]]
    if os.access("/dev/kvm", os.R_OK | os.W_OK) and kvm_works():
        return ["kvm"]
    return ["tcg,thread=multi"]


def kvm_works():
    """Boots the kernel alone with KVM, once per host boot; the verdict is kept beside the image."""
    with open("/proc/sys/kernel/random/boot_id") as boot_id:
        verdict = f"{guest_image.IMAGE_DIR}/kvm-{boot_id.read().strip()}"
    if not os.path.exists(verdict):
        kernel, _ = guest_image.ensure()
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/initrd", "wb") as out:
                out.write(archive_of({"init": b"#!/bin/busybox sh\necho kvm works\nexec /bin/busybox poweroff -f\n",
                                      "bin/busybox": "/bin/busybox"}, folder + "/root"))
            try:
                said = subprocess.run(
                    ["qemu-system-x86_64", "-accel", "kvm", "-cpu", "host", "-m", "256", "-display", "none", "-serial",
                     "stdio", "-monitor", "none", "-no-reboot", "-kernel", kernel, "-initrd", f"{folder}/initrd",
                     "-append", "console=ttyS0 panic=-1 quiet rdinit=/init"],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20).stdout
            except subprocess.TimeoutExpired as late:
                said = late.stdout or b""
        with open(verdict, "w") as out:
            out.write("yes" if b"kvm works" in said else "no")
    with open(verdict) as kept:
        return kept.read() == "yes"


class Guest:
    """One boot. Use as a context manager: leaving it ends the guest whatever happened."""

    def __init__(self, script, files=None, forwards=None, memory=MEMORY_MIB, networks=1):
        """`forwards` is {host port: guest port}; `files` appear in the guest under the given paths. The first of the networks
        is eth0, set up; on another, ethN, the host is 10.0.(2+N).2."""
        self.kernel, self.base = guest_image.ensure()
        self.script, self.files = script, carried("octets") | (files or {})
        self.forwards, self.memory, self.networks = forwards or {}, memory, networks
        self.lines, self.changed = [], threading.Condition()
        self.ended = False
        self.began = time.monotonic()

    def __enter__(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="penstock-guest-")
        folder = self.scratch.name
        self.files["guest-script"] = self.script.encode()
        with open(f"{folder}/initrd", "wb") as out:
            with open(self.base, "rb") as base:
                out.write(base.read())
            out.write(archive_of(self.files, f"{folder}/root"))
        forwards = "".join(f",hostfwd=tcp:127.0.0.1:{host}-:{guest}" for host, guest in self.forwards.items())
        self.accel = accelerators()[0]
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", self.accel, "-cpu", "host" if self.accel == "kvm" else "max", "-smp", "2",
             "-m", str(self.memory), "-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot",
             "-kernel", self.kernel, "-initrd", f"{folder}/initrd", "-append",
             "console=ttyS0 panic=-1 quiet loglevel=4 mitigations=off", *self._network(0, forwards),
             *(option for number in range(1, self.networks) for option in self._network(number))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        try:
            self.wait_for("==== guest ready", BOOT_SECONDS)
        except GuestFailed:
            self.__exit__(None, None, None)
            raise
        print(f"guest up after {time.monotonic() - self.began:.1f} s ({self.accel})", flush=True)
        return self

    def _network(self, number, forwards=""):
        return ("-netdev", f"user,id=net{number},net=10.0.{2 + number}.0/24{forwards}", "-device",
                f"virtio-net-pci,netdev=net{number}")

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.reader.join(10)
        self.scratch.cleanup()

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
        return any("==== guest ready" in line for line in self.lines)

    def output(self):
        with self.changed:
            return list(self.lines)

    def wait_for(self, pattern, seconds, after=0):
        """The first line that matches, as soon as it is there; of the lines that come `after` so many."""
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
                    raise GuestFailed(f"guest {why} and never said /{pattern}/; its last lines:\n" +
                                      "\n".join(self.lines[-40:]))
                self.changed.wait(left)

    def go_on(self):
        """Lets a script continue that waits in `read`."""
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def finish(self, seconds):
        """Waits for the script's end; it must have succeeded. Returns what the guest printed."""
        line = self.wait_for(r"==== guest exit \d+", seconds)
        if not line.endswith(" 0"):
            raise GuestFailed("the guest's script failed: " + line + "\n" + "\n".join(self.output()[-40:]))
        return self.output()


def require():
    """Builds the image, or raises GuestUnavailable with the reason."""
    guest_image.ensure()
    return accelerators()[0]


def hashes(lines, mark):
    """{file name: BLAKE2b} of the lines `mark HASH PATH` that a guest has printed."""
    return {line.split()[2].rsplit("/", 1)[-1]: line.split()[1] for line in lines if line.startswith(mark + " ")}


__all__ = ["Guest", "GuestFailed", "GuestUnavailable", "hashes", "require"]
