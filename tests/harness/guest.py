"""Boots a temporary Linux guest and runs a shell script in it.

The guest reaches the host's 127.0.0.1 as 10.0.2.2. QEMU's user-mode network needs no privilege and no bridge, and
leaves nothing behind. Ports to which the host connects are forwarded.
"""

import os
import subprocess
import tempfile
import time

import guest_image
from guest_image import GuestUnavailable
from guest_programs import carried
from kept import kept
from patience import BUSY
from script import Script, ScriptFailed

BOOT_SECONDS = 180
KVM_SECONDS = 12 * BUSY  # a boot takes three seconds
MEMORY_MIB = int(os.environ.get("TEST_GUEST_MEM", "1400"))


def archive_of(files, folder):
    """Returns an initramfs of `files` ({path: bytes or host path}), to be appended to the base one."""
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
    """Returns the QEMU accelerators, best first. It tries KVM for real: a /dev/kvm that opens may still not run a
    guest."""
    if os.environ.get("TEST_GUEST_ACCEL"):
        return [os.environ["TEST_GUEST_ACCEL"]]
    if os.access("/dev/kvm", os.R_OK | os.W_OK) and kvm_works():
        return ["kvm"]
    return ["tcg,thread=multi"]


def kvm_works():
    """Boots the kernel alone with KVM, once per boot of the host; keeps the result beside the image."""
    with open("/proc/sys/kernel/random/boot_id") as boot_id:
        verdict = f"{guest_image.IMAGE_DIR}/kvm-{boot_id.read().strip()}"
    with open(kept(verdict, try_kvm)) as said:
        return said.read() == "yes"


def try_kvm(verdict):
    kernel, _ = guest_image.ensure()
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/initrd", "wb") as out:
            out.write(archive_of({"init": b"#!/bin/busybox sh\necho kvm works\nexec /bin/busybox poweroff -f\n",
                                  "bin/busybox": "/bin/busybox"}, folder + "/root"))
        try:
            said = subprocess.run(
                ["qemu-system-x86_64", "-accel", "kvm", "-cpu", "host", "-m", "256", "-display", "none", "-serial",
                 "stdio", "-monitor", "none", "-no-reboot", "-kernel", kernel, "-initrd", f"{folder}/initrd",
                 "-append", "console=ttyS0 panic=-1 quiet no_timer_check rdinit=/init"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=KVM_SECONDS).stdout
        except subprocess.TimeoutExpired as late:
            said = late.stdout or b""
    with open(verdict, "w") as out:
        out.write("yes" if b"kvm works" in said else "no")


class Guest(Script):
    """One boot of the guest, which runs one script."""

    def __init__(self, script, files=None, forwards=None, memory=MEMORY_MIB, networks=1, taps=(), image=None):
        """`forwards` is {host port: guest port}. `files` appear in the guest under the given paths. The first network
        is eth0, which is set up; on another one, ethN, the host is 10.0.(2+N).2. After these come devices whose other
        ends are the host's `taps`. `image` is (kernel, initramfs) of a system that runs the script as that of
        guest_image.py does."""
        super().__init__()
        self.kernel, self.base = image or guest_image.ensure()
        self.script, self.files = script, ({} if image else carried("octets")) | (files or {})
        self.forwards, self.memory, self.networks, self.taps = forwards or {}, memory, networks, taps
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
        # no_timer_check: without it the kernel stops if a busy host delivers no timer interrupt for a tenth of a
        # second.
        self.begin(
            ["qemu-system-x86_64", "-accel", self.accel, "-cpu", "host" if self.accel == "kvm" else "max", "-smp", "2",
             "-m", str(self.memory), "-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot",
             "-kernel", self.kernel, "-initrd", f"{folder}/initrd", "-append",
             "console=ttyS0 panic=-1 quiet loglevel=4 mitigations=off no_timer_check", *self._network(0, forwards),
             *(option for number in range(1, self.networks) for option in self._network(number)),
             *(option for tap in self.taps for option in (
                 "-netdev", f"tap,id={tap},ifname={tap},script=no,downscript=no", "-device", f"virtio-net-pci,netdev={tap}"))])
        try:
            self.wait_for("==== guest ready", BOOT_SECONDS)
        except ScriptFailed:
            self.__exit__(None, None, None)
            raise
        print(f"guest up after {time.monotonic() - self.began:.1f} s ({self.accel})", flush=True)
        return self

    def _network(self, number, forwards=""):
        return ("-netdev", f"user,id=net{number},net=10.0.{2 + number}.0/24{forwards}", "-device",
                f"virtio-net-pci,netdev=net{number}")

    def __exit__(self, *why):
        super().__exit__(*why)
        self.scratch.cleanup()

    def ready(self):
        return any("==== guest ready" in line for line in self.lines)


def require():
    """Builds the image, or raises GuestUnavailable with the reason."""
    guest_image.ensure()
    return accelerators()[0]


__all__ = ["Guest", "GuestUnavailable", "require"]
