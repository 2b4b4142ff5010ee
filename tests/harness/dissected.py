"""Lets tshark, an independent dissector, read what passes over loopback while a test runs in namespaces of its own."""

import contextlib
import shutil
import subprocess
import time

from cases import Skip
from patience import SECONDS

WARNING = 0x600000  # of tshark's severities


def said(*command):
    """Runs a command that must succeed; returns its output."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
    print(f"{' '.join(command)}|", *done.stdout.splitlines(), sep="\n  ", flush=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}"
    return done.stdout


@contextlib.contextmanager
def dissected(scratch, ports, layers):
    """tshark finds no malformed message in what passes over loopback meanwhile, and finds messages of each layer. `ports` are those
    of RPC programs; it may grow during the statement."""
    if not shutil.which("dumpcap"):
        raise Skip("dumpcap (package tshark) is not installed")
    path = f"{scratch}/capture.pcap"
    with subprocess.Popen(["dumpcap", "-q", "-P", "-i", "lo", "-w", path], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:  # printed once the interface is open
            if line.startswith("File: "):
                break
        try:
            yield
        finally:
            # The last packets reach the file when dumpcap ends.
            time.sleep(1)
            process.terminate()
            process.communicate()
    # The programs are at ports of this test. Each call names its program, which tshark takes from there.
    decode = [part for port in ports for kind in ("tcp", "udp") for part in ("-d", f"{kind}.port=={port},rpc")]
    heuristics = [part for transport in ("tcp", "udp") for part in ("-o", f"{transport}.try_heuristic_first:TRUE")]

    def shown(what, *fields):
        return subprocess.run(["tshark", "-n", "-r", path, *decode, *heuristics, "-Y", what, "-T", "fields", "-E", "aggregator=|",
                               *(part for field in fields for part in ("-e", field))],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=SECONDS,
                              check=True).stdout.splitlines()

    rows = [line.split("\t") for line in shown("rpc", "frame.number", "frame.protocols", "_ws.expert.severity", "_ws.expert.message")]
    bad = [(frame, protocols, said_of_it) for frame, protocols, severities, said_of_it in rows
           if "_ws.malformed" in protocols or any(int(each, 0) >= WARNING for each in severities.split("|") if each)]
    assert not bad, f"tshark finds errors: {bad[:10]}"
    # A call without arguments has no layer of its own in the list of protocols, but the filter finds it.
    seen = {layer: len(shown(layer, "frame.number")) for layer in layers}
    print(f"tshark reads {len(rows)} packets: {seen}", flush=True)
    assert all(seen.values()), "no message of a layer"
