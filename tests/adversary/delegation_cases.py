"""Clients that open files without an end, to get delegations, and return none. The server takes their surplus back, and a
client that holds few keeps its own, gets more, and is served all the time."""

import struct
import time

import nfs4_messages as nfs4
from attack import MAX_WAIT, Attacked
from nfs4_callbacks import CalledClient
from nfs4_messages import op
from patience import SECONDS, wait_until
from rpc_messages import opaque, words
from tcp_peer import TcpClient

LEASE = 4  # seconds
LIMIT = 64
HIGH, LOW = LIMIT - LIMIT // 8, LIMIT - LIMIT // 4
FEW = 3  # the delegations of the witness
NAMES = [b"%060d" % i for i in range(120)]
OWN, HOARD = NAMES[:5], NAMES[5:]
BACK_CHANNEL = 2  # CREATE_SESSION4_FLAG_CONN_BACK_CHAN
OPTIONS = ["--grace=0", f"--lease={LEASE}", f"--max-delegations={LIMIT}"]


class Deaf(TcpClient):
    """Reads callbacks, and answers none."""

    def take_reply(self, seconds=SECONDS):
        deadline = time.monotonic() + seconds
        while True:
            message = self.record(deadline - time.monotonic())
            if struct.unpack_from(">I", message, 4) == (1,):
                return message


class Holder:
    """A client of version 4.1 with a backchannel over the connection, and the delegations that it has got."""

    def __init__(self, connection, owner, folder):
        self.connection, self.folder = connection, folder
        self.session = nfs4.Session(connection, owner, flags=BACK_CHANNEL)
        self.held = []  # (name, stateid), the oldest first

    def open(self, names):
        """Opens the files. Every OPEN must succeed, with a delegation or without one."""
        client = self.session.client
        for at in range(0, len(names), 14):
            some = names[at:at + 14]
            results = self.session.run(self.connection, [each for name in some for each in (nfs4.putfh(self.folder), nfs4.open_op(
                client, b"owner", name, nfs4.READ_ACCESS | nfs4.READ_DELEGATION))])
            assert results.status == nfs4.OK, f"OPEN: {results.status}"
            given = [value["delegation"] for number, value in zip(results.operations, results.values) if number == nfs4.OPEN]
            self.held += [(name, stateid) for name, stateid in zip(some, given) if stateid]

    def give_back(self, count):
        """Returns the newest delegations."""
        for name, stateid in self.held[-count:]:
            returned = self.session.run(self.connection, [nfs4.putfh(self.folder), op(nfs4.LOOKUP, opaque(name)), op(nfs4.DELEGRETURN, stateid)])
            assert returned.status == nfs4.OK, f"DELEGRETURN: {returned.status}"
        del self.held[-count:]

    def states(self):
        """The status of each delegation, by TEST_STATEID. This also renews the lease."""
        stateids = [stateid for _, stateid in self.held]
        results = self.session.run(self.connection, [op(nfs4.TEST_STATEID, words(len(stateids)), *stateids)])
        return results.value(nfs4.TEST_STATEID)


class Witness(Holder):
    """The client with few delegations. It answers callbacks."""

    def __init__(self, server, folder):
        super().__init__(CalledClient(server.tcp), b"witness", folder)
        self.open(OWN[:FEW])
        assert len(self.held) == FEW
        self.longest = 0

    def check(self):
        began = time.monotonic()
        assert self.states() == [nfs4.OK] * len(self.held), "a delegation of the witness is gone"
        self.longest = max(self.longest, time.monotonic() - began)
        assert self.longest < MAX_WAIT, f"the witness waited {self.longest:.1f} s"
        assert not self.connection.recalls and not self.connection.recalls_of_any, "the witness was asked for delegations"


def hoard(server, folder, connection):
    """Gets delegations up to the high mark, goes on without, and loses the surplus."""
    witness, hoarder = Witness(server, folder), Holder(connection, b"hoarder", folder)
    began = time.monotonic()
    for _ in range(3):
        hoarder.open(HOARD)
        witness.check()
    most, left = HIGH - FEW, LOW - FEW
    assert len(hoarder.held) == most, f"the hoarder got {len(hoarder.held)} delegations, and not {most}"
    # The witness gets delegations while the hoarder has too many.
    witness.open(OWN[FEW:])
    assert len(witness.held) == len(OWN), f"the witness got {len(witness.held)} delegations"
    witness.check()
    witness.give_back(len(OWN) - FEW)

    def has_come_down():
        if time.monotonic() - began < LEASE:
            hoarder.open(HOARD[-14:])
        witness.check()
        states = hoarder.states()
        assert set(states) <= {nfs4.OK, nfs4.DELEG_REVOKED}, f"states {states}"
        return states.count(nfs4.OK) <= left
    wait_until(has_come_down, "the hoarder keeps its delegations")
    took = time.monotonic() - began
    # RFC 8881 §20.6.4, §10.4.5: a lease time for CB_RECALL_ANY, and one for the recalls.
    assert took >= 2 * LEASE, f"the delegations were revoked after {took:.1f} s"
    states = hoarder.states()
    assert states == [nfs4.DELEG_REVOKED] * (most - left) + [nfs4.OK] * left, f"not the oldest were revoked: {states}"
    print(f"{most - left} of {most} delegations were revoked after {took:.1f} s; the witness waited {witness.longest * 1000:.0f} ms at most",
          flush=True)
    witness.connection.close()


def delegations(scratch):
    for kind in (Deaf, CalledClient):
        with Attacked(f"{scratch}/{kind.__name__}", options=OPTIONS) as server:
            other = TcpClient(server.tcp)
            folder = nfs4.look_up(other, b"dir")
            other.close()
            connection = kind(server.tcp)
            hoard(server, folder, connection)
            connection.close()
    # The second hoarder answered each callback, and promised what it did not do.
    assert [mask for _, mask in connection.recalls_of_any] == [[0b11]], f"CB_RECALL_ANY {connection.recalls_of_any}"
    recalled = [stateid for stateid, _ in connection.recalls]
    assert len(recalled) == HIGH - LOW and len(set(recalled)) == len(recalled), f"{len(recalled)} recalls"
