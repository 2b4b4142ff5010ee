"""The real rpcbind of a test, in its namespaces, and what it lists."""

import contextlib
import os
import shutil
import subprocess
import time

import namespaces
from cases import Skip
from dissected import said
from patience import BUSY

SECONDS = 60 * BUSY
HOST = "127.0.0.1"
PORTMAPPER, NFS, MOUNT, RQUOTA, NLM, NSM, NFSACL = 100000, 100003, 100005, 100011, 100021, 100024, 100227


def prepare(*programs):
    for program in ("rpcinfo", *programs):
        if not shutil.which(program) and not shutil.which(program, path="/usr/sbin:/sbin"):
            raise Skip(f"{program} is not installed")
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    namespaces.require()


def ports(host=HOST):
    """What version 2 lists: {(program, version, protocol): port}, without the port mapper."""
    rows = (line.split() for line in said("rpcinfo", "-p", host).splitlines()[1:])
    return {(int(row[0]), int(row[1]), row[2]): int(row[3]) for row in rows if int(row[0]) != PORTMAPPER}


def addresses(host=HOST):
    """What version 4 lists: {(program, version, netid): address}, without the port mapper."""
    rows = (line.split() for line in said("rpcinfo", host).splitlines()[1:])
    return {(int(row[0]), int(row[1]), row[2]): row[3] for row in rows if int(row[0]) != PORTMAPPER}


def until(done, what):
    deadline = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}"
        time.sleep(0.2)


def listening(server, address):
    """Lets the server, which does not run yet, listen at this address. The test still uses the server's own one."""
    server.arguments = [f"--listen={address}" if each.startswith("--listen=") else each for each in server.arguments]
    return server


@contextlib.contextmanager
def rpcbind():
    os.makedirs("/run/rpcbind", mode=0o777, exist_ok=True)
    os.chmod("/run/rpcbind", 0o777)
    with subprocess.Popen(["rpcbind", "-f"], stdin=subprocess.DEVNULL) as process:
        try:
            until(lambda: subprocess.run(["rpcinfo", "-p", HOST], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0,
                  "rpcbind answers")
            yield
        finally:
            process.terminate()
