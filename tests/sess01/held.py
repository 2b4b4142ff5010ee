"""The opens, byte-range locks and delegations of the Python server (RFC 7530 §9, §10)."""

import itertools

from tree import Failed
from wire import u32, u64

ANONYMOUS = (bytes(16), b"\xff" * 16)
DELAY, DENIED, LOCKED, SHARE_DENIED, OLD_STATEID, BAD_STATEID, LOCKS_HELD, OPENMODE = 10008, 10010, 10012, 10015, 10024, 10025, 10037, 10038
READ, WRITE = 1, 2
END_OF_FILE = (1 << 64) - 1


class State:
    """What a stateid names: an open, the locks of an owner in a file, or a delegation."""

    def __init__(self, kind, number, client, owner, node):
        self.kind, self.client, self.owner, self.node = kind, client, owner, node
        self.other, self.seqid = u32(0x51) + u64(number), 0
        self.access = self.deny = 0
        self.ranges, self.open = [], None  # of locks: (first, behind, kind), and the open below
        self.recalled = None  # of delegations: when

    def stateid(self):
        """Returns the stateid for a result that changes the state."""
        self.seqid += 1
        return u32(self.seqid) + self.other


class Held:
    """All states, by the part of the stateid that stays."""

    def __init__(self):
        self.numbers, self.states = itertools.count(1), {}

    def of(self, kind, node=None, client=None, owner=None):
        return [state for state in self.states.values() if state.kind == kind and node in (None, state.node) and
                client in (None, state.client) and owner in (None, state.owner)]

    def make(self, kind, client, owner, node):
        state = State(kind, next(self.numbers), client, owner, node)
        self.states[state.other] = state
        return state

    def drop(self, state):
        del self.states[state.other]

    def drop_client(self, client):
        for state in [each for each in self.states.values() if each.client is client]:
            self.drop(state)

    def find(self, stateid, client, *kinds):
        """Returns the state that a client's stateid names."""
        state = self.states.get(stateid[4:])
        seqid = int.from_bytes(stateid[:4], "big")
        if state is None or state.client is not client or state.kind not in kinds or seqid > state.seqid:
            raise Failed(BAD_STATEID)
        if seqid and seqid < state.seqid and state.kind != "delegation":
            raise Failed(OLD_STATEID)
        return state

    # ---- opens ----

    def open(self, client, owner, node, access, deny):
        for other in self.of("open", node):
            if (other.client, other.owner) != (client, owner) and (other.access & deny or other.deny & access):
                raise Failed(SHARE_DENIED)
        mine = self.of("open", node, client, owner)
        state = mine[0] if mine else self.make("open", client, owner, node)
        state.access |= access
        state.deny |= deny
        return state

    def close(self, state):
        locks = [each for each in self.of("locks") if each.open is state]
        if any(each.ranges for each in locks):
            raise Failed(LOCKS_HELD)
        for each in [state, *locks]:
            self.drop(each)

    def check_access(self, stateid, client, node, access):
        """Checks that a READ or WRITE with the stateid is permitted."""
        if stateid in ANONYMOUS:
            if any(other.deny & access for other in self.of("open", node)):
                raise Failed(LOCKED)
            return
        state = self.find(stateid, client, "open", "locks", "delegation")
        if state.node is not node:
            raise Failed(BAD_STATEID)
        granted = state.open.access if state.kind == "locks" else state.access
        if not granted & access and access == WRITE:
            raise Failed(OPENMODE)

    # ---- locks ----

    def conflict(self, client, owner, node, first, behind, kind):
        """Returns (state, range) of a lock that stands in the way of another owner's lock."""
        for state in self.of("locks", node):
            if (state.client, state.owner) == (client, owner):
                continue
            for span in state.ranges:
                if span[0] < behind and first < span[1] and WRITE in (kind, span[2]):
                    return state, span
        return None

    @staticmethod
    def cut(state, first, behind):
        """Removes a range from the locks of a state."""
        kept = []
        for start, end, kind in state.ranges:
            if start < min(end, first):
                kept.append((start, min(end, first), kind))
            if max(start, behind) < end:
                kept.append((max(start, behind), end, kind))
        state.ranges = kept

    # ---- delegations ----

    def conflicting_delegations(self, client, node, access):
        """Returns the delegations of other clients that an OPEN with this access recalls. We grant read delegations only."""
        return [state for state in self.of("delegation", node) if state.client is not client] if access & WRITE else []

    def may_delegate(self, client, node):
        return not any(other.access & WRITE for other in self.of("open", node)) and not self.of("delegation", node, client)


def span(offset, length):
    """Returns the range of a lock: (first octet, octet behind)."""
    if length == 0 or (length != END_OF_FILE and offset + length > END_OF_FILE):
        raise Failed(22)  # NFS4ERR_INVAL
    return offset, END_OF_FILE + 1 if length == END_OF_FILE else offset + length
