"""The guest's mounts of an export on the host, one or several clients at a time."""

import os

from linux import require
from penstock import INSIDE, Server

SHELL = """
drop_caches() { sync; echo 3 >/proc/sys/vm/drop_caches; }
"""
MOUNT = """
mkdir -p %(at)s
mount -t nfs -o %(options)s %(host)s:%(path)s %(at)s || exit 1
grep ' %(at)s nfs' /proc/mounts
grep -q ' %(at)s nfs4* .*vers=%(version)s,.*proto=%(transport)s[, ]' /proc/mounts || exit 1
"""
# Linux is one client to each address of a server. Over another network, under another name, it is another client with
# its own client ID, lease, sessions, delegations and locks. This needs Guest(networks=2).
SECOND_NETWORK = """
ip addr add 10.0.3.15/24 dev eth1 && ip link set eth1 up && rdma link add siw1 type siw netdev eth1 || exit 1
"""
NAME = "echo %s >/sys/fs/nfs/net/nfs_client/identifier || exit 1\n"
HOST, HOST_OF_SECOND = INSIDE or "10.0.2.2", "10.0.3.2"


class Mount:
    """A transport, a version of NFS, more options, and the protection of calls."""

    def __init__(self, transport, version, more="", security="sys"):
        self.transport, self.version, self.more, self.security = transport, version, more, security

    @property
    def name(self):
        return self.transport if self.version == "3" else f"{self.transport}_v{self.version.replace('.', '')}"

    def name_of(self, case):
        return f"{self.name}_{case}"

    def options(self, server):
        """Returns all options except the protection of calls."""
        options = f"vers={self.version},proto={self.transport},port={getattr(server, self.transport)},hard"
        if self.version == "3":
            options += f",nolock,mountproto=tcp,mountport={server.mount}"
        return options + self.more

    def command(self, server, at="/mnt", host=HOST, path="/export"):
        """Returns the shell commands that mount the export and check the mount's options."""
        return MOUNT % {"options": f"{self.options(server)},sec={self.security}", "transport": self.transport,
                        "version": self.version, "at": at, "host": host, "path": path}

    def script(self, server, body):
        """Returns `body` with the export mounted at /mnt."""
        return SHELL + self.command(server) + body + "\ncd /; umount /mnt || exit 1\n"


class EveryMount:
    """Every version over both transports, each mounted by a separate client at /mnt/NAME. With one identifier Linux
    would treat the mounts of a version as one client, and could use one connection for both."""

    def __init__(self):
        self.mounts = [Mount(transport, version) for version in ("3", "4.0", "4.1", "4.2") for transport in ("rdma", "tcp")]
        self.names = [mount.name for mount in self.mounts]

    def mount(self, server):
        """Returns the shell commands that mount all of them, and set $mounts to their names."""
        return f"mounts='{' '.join(self.names)}'\n" + "".join(
            NAME % mount.name + mount.command(server, f"/mnt/{mount.name}") for mount in self.mounts)

    @staticmethod
    def unmount():
        return "cd /; for m in $mounts; do umount /mnt/$m || exit 1; done\n"


def one_client(server, mount):
    return NAME % "first" + mount.command(server)


def two_clients(server, first, second, body):
    """Returns `body` with the export mounted at /mnt by one client, and at /other by another."""
    return (SHELL + one_client(server, first) + SECOND_NETWORK + NAME % "second" +
            second.command(server, "/other", HOST_OF_SECOND) + body + "\ncd /; umount /mnt && umount /other || exit 1\n")


def exported(scratch):
    folder = f"{scratch}/export"
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    return folder


def serve(folder, lease=15, exports=None, more=()):
    """Clients of version 4.0 wait for the whole grace period after a restart, which is as long as the lease."""
    require()
    return Server({"/export": f"{folder}:no_root_squash"} | (exports or {}), [f"--lease={lease}", f"--grace={lease}", *more])
