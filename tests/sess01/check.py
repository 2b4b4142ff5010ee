"""What the checks of a server share: the place where they work, and how they say what is wrong."""

import contextlib

import nfs4_messages as nfs4
from client import ROOT, Client, Refused, Results, Where, lookup
from iwarp_peer import Ended
from wire import BACK, BADBIND, OK, opaque


class Failed(AssertionError):
    """The server did something else than the check demands."""


class NotHere(Exception):
    """The check does not apply to this connection model or server; the text says why."""


class Place:
    """A server, and a directory on it: `path` are the names from the root to an export in which everybody may write. `folder` is the
    directory on this machine, if it is here. `recalls`: the server recalls credits of every session that keeps a reply, and this is the
    time in seconds that clients have to return them."""

    def __init__(self, host, tcp, rdma, model, uid=0, path=(), tap=None, folder=None, recalls=None):
        self.where, self.model, self.uid, self.path, self.folder = Where(host, tcp, rdma, model, tap), model, uid, path, folder
        self.recalls = recalls
        self.clients = []

    @property
    def root(self):
        return [ROOT, *(lookup(name) for name in self.path)]

    def client(self, **how):
        """Makes a client, which is closed after the check."""
        client = Client(self.where, **{"uid": self.uid, **how})
        self.clients.append(client)
        return client

    def mkdir(self, name):
        return [*self.root, nfs4.create_op(nfs4.NF4DIR, name)]

    def look_up(self, name):
        return [*self.root, lookup(name)]

    def remove(self, name):
        return [*self.root, nfs4.op(nfs4.REMOVE, opaque(name))]

    def tidy(self):
        for client in self.clients:
            client.close()
        self.clients.clear()


def expect(results, status, what):
    """Checks the status of a COMPOUND: one, or one of several."""
    allowed = status if isinstance(status, tuple) else (status,)
    if results.status not in allowed:
        raise Failed(f"{what}: status {results.status} instead of {status} (operations {results.operations}, {results.statuses})")
    return results


def demand(condition, what):
    if not condition:
        raise Failed(what)


@contextlib.contextmanager
def refused(status, what):
    """Demands that a SESSION_CREATE or SESSION_BIND is refused with this status, or one of several."""
    try:
        yield
    except Refused as why:
        demand(why.status in (status if isinstance(status, tuple) else (status,)), f"{what}: status {why.status} instead of {status}")
        return
    raise Failed(f"{what}: accepted, instead of status {status}")


def expect_end(caller, what):
    """Demands that the server ends a connection."""
    try:
        caller.wait_for_end()
    except AssertionError:
        raise Failed(f"{what}: the connection does not end") from None


def bind_both(client):
    """Binds both channels to one connection: (back channel, operations channel). Over RDMA the server may refuse that (§2.6)."""
    caller = client.open()
    client.create(caller)
    back = client.bind(caller, BACK, maxrequests=2)
    try:
        return back, client.bind(caller)
    except Refused as why:
        if not caller.link.is_rdma or why.status != BADBIND:
            raise
        raise NotHere("the server takes no second channel on a connection over RDMA") from None


def exists(place, channel, name):
    return channel.run(place.look_up(name)).status == OK


def run_or_end(channel, message):
    """Sends a call. Returns its Results, or None if the connection ends instead."""
    try:
        return Results(channel.caller.call(message))
    except (Ended, OSError):
        return None
