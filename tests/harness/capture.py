"""Captures loopback traffic on given ports, or that of another interface, during a test (dumpcap, so it needs root or dumpcap's capabilities)."""

import json
import os
import socket
import struct
import subprocess
import sys
import time

import guest_image
from patience import BUSY
from penstock import INSIDE

CAPTURE_DIR = f"{guest_image.IMAGE_DIR}/captures"
START_SECONDS, QUIET_SECONDS = 60 * BUSY, 2


class Capture:
    """A context manager. Without the right to capture it records the reason, which the checking test then reports. It
    does not see the traffic of an RDMA device inside a guest, which does not use loopback."""

    def __init__(self, name, server, restarted=False, interface="lo", filter=None):
        """Without `filter`, captures the traffic on the server's TCP ports."""
        os.makedirs(CAPTURE_DIR, exist_ok=True)
        self.path = f"{CAPTURE_DIR}/{name}.pcap"
        self.interface = interface
        self.filter = filter or " or ".join(f"tcp port {port}" for port in (server.tcp, server.rdma, server.mount))
        self.about = {"tcp": server.tcp, "rdma": server.rdma, "mount": server.mount, "restarted": restarted, "others": bool(filter)}

    def __enter__(self):
        for old in (self.path, self.path + ".json"):
            if os.path.exists(old):
                os.unlink(old)
        self.errors = open(self.path + ".log", "w+")
        if INSIDE:
            return self._without("inside a guest")
        try:
            self.process = subprocess.Popen(["dumpcap", "-q", "-P", "-i", self.interface, "-B", "256", "-f", self.filter, "-w", self.path],
                                            stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors)
        except FileNotFoundError:
            return self._without("dumpcap (package tshark) is not installed")
        deadline = time.monotonic() + START_SECONDS
        while "File: " not in self._said():  # printed once the interface is open and the filter is set
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                self.process.wait()
                return self._without("dumpcap may not capture here: " + self._said())
            time.sleep(0.01)
        return self

    def _without(self, reason):
        print(f"NOT CAPTURED: {reason}", flush=True)
        self.process, self.about["reason"] = None, reason
        return self

    def _said(self):
        self.errors.seek(0)
        return self.errors.read().strip().replace("\n", " ")

    def __exit__(self, *_):
        if self.process:
            try:
                self._drain()
            finally:
                self.process.terminate()
                self.process.wait()
            print("capture|", self._said(), flush=True)
        self.errors.close()
        with open(self.path + ".json", "w") as out:
            json.dump(self.about, out)

    def _drain(self):
        """Waits until dumpcap has written all packets: when it is told to end, it forgets those that it has not read."""
        if self.interface == "lo" and not self.about["others"]:
            self._wait_for_mark()
        else:
            self._wait_until_quiet()

    def _wait_for_mark(self):
        """Makes a last connection, and waits until its first packet is in the file."""
        with socket.socket() as mark:
            mark.bind(("127.0.0.1", 0))
            ports = struct.pack(">HH", mark.getsockname()[1], self.about["tcp"])
            mark.connect_ex(("127.0.0.1", self.about["tcp"]))  # the packet is there even if nobody listens any more
        deadline = time.monotonic() + START_SECONDS
        while True:
            with open(self.path, "rb") as written:
                written.seek(max(0, os.path.getsize(self.path) - (1 << 20)))
                if ports in written.read():
                    return
            if time.monotonic() > deadline:
                raise RuntimeError(f"dumpcap did not write the last packet within {START_SECONDS} s: {self._said()}")
            time.sleep(0.05)

    def _wait_until_quiet(self):
        """Waits until the file does not grow for a time. dumpcap writes its buffers twice a second."""
        size, since = -1, time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS:
            if os.path.getsize(self.path) != size:
                size, since = os.path.getsize(self.path), time.monotonic()
            time.sleep(0.05)


def report(check, needs_guest):
    """The main function of a program that checks a capture: `NAME [WHAT...]`. Calls check(path, about, wanted, may_break_off),
    which returns the problems and a summary. Exits with 77 if there is no capture for a good reason. `needs_guest`: the test
    that leaves the capture is skipped without a guest. A capture without problems is removed."""
    name, *wanted = sys.argv[1:]
    path = f"{CAPTURE_DIR}/{name}.pcap"
    if not os.path.exists(path + ".json"):
        try:
            if needs_guest:
                guest_image.available_release()
        except guest_image.GuestUnavailable as why:
            print(f"SKIPPED: no capture of {name}, as there is no guest: {why}")
            sys.exit(77)
        sys.exit(f"no capture of {name}: the test that leaves it did not run to its end")
    with open(path + ".json") as kept:
        about = json.load(kept)
    if "reason" in about:
        print(f"SKIPPED: {about['reason']}")
        sys.exit(77)
    problems, summary = check(path, about, wanted, about["restarted"])
    print(f"{name}: {summary}")
    if problems:
        print(f"{len(problems)} problems; the capture is {path}", *problems[:30], sep="\n  ")
        sys.exit(1)
    os.unlink(path)
    os.unlink(path + ".json")
