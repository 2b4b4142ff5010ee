#!/usr/bin/python3
"""A temporary Ceph cluster of one machine, on loopback and in one folder: a monitor, a manager, an OSD, and an MDS for each
of its file systems. It uses only the programs of the host's Ceph, and leaves nothing behind.

    ceph.py run -- COMMAND...     runs COMMAND beside such a cluster; its exit code is COMMAND's

The environment of the command has CEPH_CONF, which Ceph's programs and libcephfs read. The file system is "cephfs".
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

from cases import Skip, run_beside
from patience import BUSY
from ports import free_ports

START_SECONDS = 60 * BUSY
COMMAND_SECONDS = 30 * BUSY
SYSTEM_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
PACKAGES = {"ceph-mon": "ceph-mon", "ceph-mgr": "ceph-mgr", "ceph-osd": "ceph-osd", "ceph-mds": "ceph-mds", "ceph": "ceph-common",
            "ceph-authtool": "ceph-common", "monmaptool": "ceph-base", "setpriv": "util-linux"}

# The manager loads only what `ceph fs status` needs; its other modules take most of its memory.
CONFIGURATION = """[global]
  fsid = %(fsid)s
  mon host = [v2:127.0.0.1:%(port)d/0]
  public network = 127.0.0.0/8
  public addr = 127.0.0.1
  auth cluster required = %(auth)s
  auth service required = %(auth)s
  auth client required = %(auth)s
  keyring = %(folder)s/keyring
  run dir = %(folder)s
  pid file =
  osd pool default size = 1
  osd pool default min size = 1
  osd pool default pg num = 8
  osd crush chooseleaf type = 0
  mon allow pool size one = true
  mon warn on pool no redundancy = false
  mon data avail warn = 1
  mon data avail crit = 1
%(settings)s
[mon]
  log file = %(folder)s/$name.log
  log to stderr = false
  mon data = %(folder)s/$name
  mon initial members = a
[mgr]
  log file = %(folder)s/$name.log
  log to stderr = false
  mgr data = %(folder)s/$name
  mgr initial modules =
  mgr disabled modules = %(unneeded)s
[osd]
  log file = %(folder)s/$name.log
  log to stderr = false
  osd data = %(folder)s/$name
  osd objectstore = bluestore
  osd memory target = 939524096
  bluestore block size = 8589934592
[mds]
  log file = %(folder)s/$name.log
  log to stderr = false
  mds data = %(folder)s/$name
  mds cache memory limit = 268435456
"""
LARGEST_FILE = 1 << 50
MODULES = "/usr/share/ceph/mgr"
CAPABILITIES = {
    "client.admin": ("mon", "allow *", "mgr", "allow *", "osd", "allow *", "mds", "allow *"),
    "mon.": ("mon", "allow *"),
    "mgr.x": ("mon", "allow profile mgr", "osd", "allow *", "mds", "allow *"),
    "osd.0": ("mon", "allow profile osd", "mgr", "allow profile osd", "osd", "allow *"),
}
OF_AN_MDS = "mon", "allow profile mds", "mgr", "allow profile mds", "osd", "allow rwx", "mds", "allow *"


def programs():
    """Returns {name: path} of what a cluster needs, or skips the test."""
    found = {name: shutil.which(name, path=SYSTEM_PATH) for name in PACKAGES}
    missing = [name for name, path in found.items() if not path]
    if missing:
        raise Skip(f"{', '.join(missing)}: not installed (packages {', '.join(sorted({PACKAGES[name] for name in missing}))})")
    return found


class Cluster:
    """A context manager: the cluster runs within it, and its placement groups are clean and each MDS active at the beginning.
    `auth` is "none" or "cephx"; `settings` are more lines of the section [global]. Daemons are named as Ceph names them:
    mon.a, mgr.x, osd.0, and mds.NAME for the file system NAME."""

    def __init__(self, file_systems=("cephfs",), auth="none", settings=()):
        self.file_systems, self.auth, self.settings = tuple(file_systems), auth, tuple(settings)
        self.daemons = {}

    def __enter__(self):
        self.programs = programs()
        self.scratch = tempfile.TemporaryDirectory(prefix="penstock-ceph-")
        self.folder = self.scratch.name
        try:
            self._make()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        self._end()

    @property
    def conf(self):
        return f"{self.folder}/ceph.conf"

    @property
    def environment(self):
        """Returns what the environment of a program must have so that it uses this cluster."""
        return {"CEPH_CONF": self.conf, "CEPH_ARGS": ""}

    def ceph(self, *arguments, seconds=COMMAND_SECONDS):
        """Runs the `ceph` command, which must succeed; returns its output."""
        return self._run("ceph", "-c", self.conf, *arguments, seconds=seconds)

    def json(self, *arguments):
        return json.loads(self.ceph(*arguments, "--format=json"))

    def make_user(self, name, **capabilities):
        """Makes client.NAME with these capabilities, such as mds="allow r", and adds its key to the keyring of the configuration."""
        caps = [word for pair in capabilities.items() for word in pair]
        self._append("keyring", self.ceph("auth", "get-or-create", f"client.{name}", *caps))

    # ---- daemons ----

    def stop(self, name, how=signal.SIGKILL):
        """Stops a daemon, by default like a failure of the power."""
        daemon = self.daemons[name]
        daemon.send_signal(how)
        try:
            daemon.wait(COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
            raise AssertionError(f"{name} does not end after {how!r}{self._said(name)}") from None

    def stop_osd(self):
        self.stop("osd.0")

    def start_osd(self):
        """Starts the OSD again, and waits until it has booted anew: what the monitor remembers of before does not count."""
        before = self._osd()["up_from"]
        self._start("osd.0")
        self._await(lambda: self._osd()["up_from"] > before and self._is_ready(), "the OSD to boot", "osd.0")

    def restart_mds(self, file_system="cephfs"):
        """Kills the MDS and starts it again. Returns when it is active."""
        name, before = f"mds.{file_system}", self._mds(file_system)["gid"]
        self.stop(name)
        self._start(name)
        self._await(lambda: self._mds(file_system)["gid"] != before and self._is_ready(), "the MDS to become active", name)

    def stop_mon(self):
        """Without the monitor nobody else can enter the cluster, and `ceph` does not answer."""
        self.stop("mon.a")

    def start_mon(self):
        self._start("mon.a")
        self._await(self._is_ready, "the monitor", "mon.a")

    # ---- clients of a file system ----

    def clients(self, file_system="cephfs"):
        """Returns the sessions of the MDS."""
        return self.json("tell", f"mds.{file_system}", "client", "ls")

    def evict_clients(self, file_system="cephfs", but=()):
        """Evicts all clients but these, which the OSDs then refuse as well. Returns their numbers."""
        numbers = [client["id"] for client in self.clients(file_system) if client["id"] not in but]
        for number in numbers:
            self.ceph("tell", f"mds.{file_system}", "client", "evict", f"id={number}")
        return numbers

    # ---- how it is made ----

    def _make(self):
        (self.port,) = free_ports(1)
        fsid, osd = uuid.uuid4(), uuid.uuid4()
        unneeded = sorted(set(os.listdir(MODULES)) - {"status"}) if os.path.isdir(MODULES) else []
        self._append("ceph.conf", CONFIGURATION % {
            "fsid": fsid, "port": self.port, "auth": self.auth, "folder": self.folder, "unneeded": " ".join(unneeded),
            "settings": "".join(f"  {line}\n" for line in self.settings)})
        self._append("keyring", "")
        servers = [f"mds.{name}" for name in self.file_systems]
        for name in ("mon.a", "mgr.x", "osd.0", *servers):
            os.mkdir(f"{self.folder}/{name}")
        if self.auth == "cephx":
            for name, caps in (CAPABILITIES | dict.fromkeys(servers, OF_AN_MDS)).items():
                options = [word for kind, what in zip(caps[::2], caps[1::2]) for word in ("--cap", kind, what)]
                self._run("ceph-authtool", f"{self.folder}/keyring", "--gen-key", "-n", name, *options)
        monitors = f"{self.folder}/monmap"
        self._run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:127.0.0.1:{self.port}]", monitors)
        self._run("ceph-mon", "-c", self.conf, "--mkfs", "-i", "a", "--monmap", monitors, "--keyring", f"{self.folder}/keyring")
        self._start("mon.a")
        self._await(lambda: self.ceph("-s"), "the monitor", "mon.a")
        self._start("mgr.x")
        self.ceph("osd", "new", osd)
        self._run("ceph-osd", "-c", self.conf, "-i", "0", "--mkfs", "--osd-uuid", osd)
        self._start("osd.0")
        for name in self.file_systems:
            for pool in (f"{name}.meta", f"{name}.data"):
                self.ceph("osd", "pool", "create", pool, 8)
            self._start(f"mds.{name}")
            # A free MDS takes over the first file system that has none.
            self.ceph("fs", "new", name, f"{name}.meta", f"{name}.data")
            self.ceph("fs", "set", name, "max_file_size", LARGEST_FILE)  # Ceph's default is 1 TiB
            self._await(lambda: self._mds(name)["name"] == name and self._is_ready(), f"the file system {name}", f"mds.{name}", "osd.0")

    def _is_ready(self):
        """Returns True if the OSD is up, all placement groups are clean, and each file system has an active MDS."""
        status = self.json("-s")
        groups, active = status["pgmap"], status["fsmap"]["by_rank"]
        clean = sum(each["count"] for each in groups.get("pgs_by_state", ()) if each["state_name"] == "active+clean")
        made = len(self.json("fs", "ls"))
        return (status["osdmap"]["num_up_osds"] == 1 and groups["num_pgs"] > 0 and clean == groups["num_pgs"]
                and [each["status"] for each in active] == ["up:active"] * made)

    def _osd(self):
        return self.json("osd", "dump")["osds"][0]

    def _mds(self, file_system):
        """Returns the MDS that the file system has, or had at last."""
        return self.json("fs", "get", file_system)["mdsmap"]["info"].popitem()[1]

    def _start(self, name):
        """Starts a daemon, which ends with this process in any case."""
        kind, _, which = name.partition(".")
        with open(f"{self.folder}/{name}.out", "a") as out:
            self.daemons[name] = subprocess.Popen(
                [self.programs["setpriv"], "--pdeathsig", "KILL", self.programs[f"ceph-{kind}"], "-c", self.conf, "-f", "-i", which],
                env=os.environ | self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def _await(self, condition, what, *names):
        """Waits until the condition, which asks the cluster, is true. While it is not, its command may fail."""
        deadline, why = time.monotonic() + START_SECONDS, ""
        while time.monotonic() < deadline:
            try:
                if condition():
                    return
            except (AssertionError, KeyError, IndexError) as failure:
                why = f": {failure}"
            for name in names:
                code = self.daemons[name].poll()
                assert code is None, f"waited for {what}: {name} ended with {code}{self._said(name)}"
            time.sleep(0.1)
        raise AssertionError(f"waited {START_SECONDS} s for {what}{why}" + "".join(map(self._said, names)))

    def _said(self, name):
        """Returns the last lines of the daemon's output and log."""
        lines = []
        for path in f"{self.folder}/{name}.out", f"{self.folder}/{name}.log":
            if os.path.exists(path):
                with open(path, errors="replace") as log:
                    lines += log.readlines()[-20:]
        return f"\n{name} said:\n{''.join(lines)}"

    def _append(self, name, text):
        with open(f"{self.folder}/{name}", "a", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
            out.write(text)

    def _run(self, name, *arguments, seconds=COMMAND_SECONDS):
        try:
            done = subprocess.run([self.programs[name], *map(str, arguments)], env=os.environ | self.environment, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, errors="replace", timeout=seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} {' '.join(map(str, arguments))}: no end within {seconds} s" +
                                 "".join(map(self._said, self.daemons))) from None
        assert done.returncode == 0, f"{name} {' '.join(map(str, arguments))}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _end(self):
        for daemon in self.daemons.values():
            daemon.kill()
        for daemon in self.daemons.values():
            daemon.wait()
        self.scratch.cleanup()


if __name__ == "__main__":
    run_beside(Cluster, lambda cluster: cluster.environment, __doc__)
