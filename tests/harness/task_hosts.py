"""Hosts with which the tasks of docs/tasks.md happen: clients that mount, open, lock and make files on the server of a Scene."""

import os

from lock_host import LOCK, Caller, Lock
import nfs4_messages as v4
import rpc_messages as rpc
from rdma_messages import Words
from rpc_messages import MKDIR, MOUNT, NFS, RpcReply, opaque, take_opaque, words
from task_scene import CLIENT
from tcp_peer import TcpClient

MNT, MNT_OK, MNT_ACCES, ACCES = 1, 0, 13, 13
NO_ATTRIBUTES = words(0, 0, 0, 0, 0, 0)


class Client(TcpClient):
    """A host at an address of its own. Root calls from a port above 1023."""

    def __init__(self, port, address):
        super().__init__(port, source=address)

    def call(self, procedure, arguments=b"", program=NFS):
        self.send_call(rpc.call(procedure, arguments, program))
        reply = RpcReply(self.take_reply())
        assert reply.status == ("success",), reply.status
        return Words(reply.results)


def mount(scene, path, address):
    """Mounts by version 3; returns the status, and the handle if there is one."""
    client = Client(scene.mount, address)
    results = client.call(MNT, opaque(path), MOUNT)
    client.close()
    status = results.word()
    return status, take_opaque(results) if status == MNT_OK else None


def look_up(scene, folder, name):
    """Returns the handle of a file by version 3."""
    client = Client(scene.tcp, CLIENT)
    results = client.call(rpc.LOOKUP, opaque(folder) + opaque(name))
    client.close()
    assert results.word() == rpc.OK, f"no {name}"
    return take_opaque(results)


class Holder:
    """A client of version 4.1 at an address, which opens a file and locks its first octets."""

    def __init__(self, scene, address, name, *path):
        self.client = Client(scene.tcp, address)
        self.session = v4.Session(self.client, name)
        self.owner = v4.Owner(self.session, name)
        folder = v4.look_up(self.client, *path[:-1])
        self.file, self.opened = self.owner.open(self.client, folder, path[-1])

    def lock(self):
        """Returns the status."""
        results = self.session.run(self.client, [v4.putfh(self.file), self.owner.lock_op(self.opened, 0, 10)])
        return results.status

    def close(self):
        self.client.close()


class LockHolder:
    """A host that locks other octets of /data/mailbox by version 3."""

    def __init__(self, scene, address, name):
        self.host = Caller(scene.mount, address, port=0)
        _, folder = mount(scene, b"/data", address)
        self.locked = Lock(name, look_up(scene, folder, b"mailbox"), offset=100)

    def lock(self):
        """Returns the status."""
        return self.host.lock_call(LOCK, self.locked)

    def close(self):
        self.host.close()


def make_mailbox(scene):
    """Makes the file /data/mailbox."""
    with open(f"{scene.scratch}/srv/data/mailbox", "w") as out:
        out.write("a message\n")
    os.chmod(f"{scene.scratch}/srv/data/mailbox", 0o666)


def make_folder(scene, path, address):
    """MKDIR by root; returns the status."""
    _, handle = mount(scene, path, address)
    client = Client(scene.tcp, address)
    status = client.call(MKDIR, opaque(handle) + opaque(b"new") + NO_ATTRIBUTES).word()
    client.close()
    return status
