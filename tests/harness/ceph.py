"""A whole Ceph cluster of one machine, for tests alone: a monitor, a manager, an OSD and an MDS on loopback, with one CephFS.

    python3 ceph.py run -- COMMAND...     runs the command beside such a cluster; CEPH_CONF is the path of its ceph.conf

Skips (77) where Ceph's programs are missing.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

import ports

SKIPPED = 77
START_SECONDS = 300
PROGRAMS = ("ceph", "ceph-mon", "ceph-mgr", "ceph-osd", "ceph-mds", "monmaptool")


class Skip(Exception):
    pass


class Cluster:
    """Runs from `with` to its end. `conf` is the path of its configuration."""

    def __init__(self):
        if missing := [name for name in PROGRAMS if not shutil.which(name)]:
            raise Skip(f"{', '.join(missing)} missing: scripts/install-deps ceph")
        self.folder = tempfile.mkdtemp(prefix="penstock-ceph-", dir="/var/tmp")
        self.conf, self.daemons = f"{self.folder}/ceph.conf", {}

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in ("mds.a", "osd.0", "mgr.x", "mon.a"):
            self.stop(name)
        shutil.rmtree(self.folder)

    def ceph(self, *arguments, seconds=60):
        """Runs the ceph command, and returns what it prints."""
        done = subprocess.run(["ceph", "-c", self.conf, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=seconds)
        assert done.returncode == 0, f"ceph {' '.join(arguments)}: {done.returncode}\n{done.stderr}"
        return done.stdout

    def start(self, name):
        """Starts a daemon, such as "osd.0"."""
        kind, _, number = name.partition(".")
        with open(f"{self.folder}/{name}.out", "ab") as out:
            self.daemons[name] = subprocess.Popen([f"ceph-{kind}", "-c", self.conf, "-f", "-i", number], stdin=subprocess.DEVNULL, stdout=out,
                                                  stderr=out)

    def stop(self, name, how=signal.SIGTERM):
        daemon = self.daemons.pop(name, None)
        if not daemon:
            return
        daemon.send_signal(how)
        try:
            daemon.wait(30)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def wait_until_ready(self):
        """Waits until the OSD has all placement groups, and the MDS is active."""
        def is_ready():
            groups = re.match(r"(\d+) pgs: (\d+) active\+clean;", self.ceph("pg", "stat"))
            return groups and groups[1] == groups[2] and int(groups[1]) > 0 and "up:active" in self.ceph("mds", "stat")
        self._wait(is_ready)

    def _wait(self, condition):
        deadline = time.monotonic() + START_SECONDS
        while True:
            for name, daemon in self.daemons.items():
                assert daemon.poll() is None, f"{name} has ended with {daemon.returncode}:\n{self._end_of_log(name)}"
            try:
                if condition():
                    return
            except (AssertionError, subprocess.TimeoutExpired) as why:
                last = why
            else:
                last = "the cluster is not ready"
            assert time.monotonic() < deadline, f"{last}\n" + "\n".join(f"{name}: {self._end_of_log(name)}" for name in self.daemons)
            time.sleep(0.5)

    def _end_of_log(self, name):
        with open(f"{self.folder}/{name}.out", errors="replace") as log:
            return log.read()[-2000:]

    def _run(self, *command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=START_SECONDS)
        assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout[-2000:]}"

    def _make(self):
        address = f"v2:127.0.0.1:{ports.free_ports(1)[0]}/0"
        cluster, osd = uuid.uuid4(), uuid.uuid4()
        for folder in ("mon.a", "mgr.x", "osd.0", "mds.a"):
            os.mkdir(f"{self.folder}/{folder}")
        open(f"{self.folder}/keyring", "w").close()
        with open(self.conf, "w") as conf:
            conf.write(f"""[global]
fsid = {cluster}
mon host = [{address}]
public network = 127.0.0.0/8
public addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd crush chooseleaf type = 0
mon allow pool size one = true
mon data avail warn = 1
mon data avail crit = 1
mgr initial modules =
osd memory target = 939524096
bluestore block size = 8589934592
run dir = {self.folder}
admin socket = {self.folder}/$cluster-$name-$pid.asok
log file = {self.folder}/$name.log
pid file =
keyring = {self.folder}/keyring
[mon]
mon data = {self.folder}/mon.$id
mon initial members = a
[mgr]
mgr data = {self.folder}/mgr.$id
[osd]
osd data = {self.folder}/osd.$id
[mds]
mds data = {self.folder}/mds.$id
""")
        self._run("monmaptool", "--create", "--fsid", str(cluster), "--addv", "a", f"[{address}]", f"{self.folder}/monmap")
        self._run("ceph-mon", "-c", self.conf, "--mkfs", "-i", "a", "--monmap", f"{self.folder}/monmap")
        self.start("mon.a")
        self._wait(lambda: self.ceph("-s"))
        self.start("mgr.x")
        self.ceph("osd", "new", str(osd))
        self._run("ceph-osd", "-c", self.conf, "-i", "0", "--mkfs", "--osd-uuid", str(osd))
        self.start("osd.0")
        self.start("mds.a")
        for pool in ("meta", "data"):
            self.ceph("osd", "pool", "create", pool, "8")
        self.ceph("fs", "new", "cephfs", "meta", "data")
        # The suite of the file-system interface writes at 4 TiB.
        self.ceph("fs", "set", "cephfs", "max_file_size", str(1 << 50))
        self.wait_until_ready()


def main(arguments):
    if arguments[:2] != ["run", "--"] or not arguments[2:]:
        sys.exit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with Cluster() as cluster, subprocess.Popen(arguments[2:], env=os.environ | {"CEPH_CONF": cluster.conf}) as command:
            try:
                code = command.wait()
            finally:
                command.kill()
    except Skip as why:
        print(f"SKIPPED: {why}")
        sys.exit(SKIPPED)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(sys.argv[1:])
