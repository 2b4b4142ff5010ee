"""The operations of minor version 0 (RFC 7530 §16) that the Python server has: how their arguments are read, and their effects."""

import nfs4_messages as nfs4
from held import BAD_STATEID, DELAY, DENIED, READ, WRITE, span
from tree import (DIRECTORY, LARGEST_FILE, LARGEST_TRANSFER, LONGEST_NAME, REGULAR, SYMLINK, Failed, bitmap, check_settable, fattr,
                  read_bitmap, read_fattr, set_attributes)
from wire import Reader, opaque, u32, u64

NOENT, EXIST, NOTDIR, ISDIR, INVAL, FBIG, NAMETOOLONG, NOTEMPTY = 2, 17, 20, 21, 22, 27, 63, 66
SAME, NOFILEHANDLE, NOT_SAME, BADTYPE, BADNAME, NO_GRACE, RESTOREFH, SYMLINK_FILE = 10009, 10020, 10027, 10007, 10041, 10033, 10030, 10029
NOT_READDIR_ROOM = 10005  # NFS4ERR_TOOSMALL
CLAIM_NULL, CLAIM_DELEGATE_CUR = 0, 2
VERIFIER = b"sess01py"


class Cursor:
    """The current and the saved file handle, which a chain keeps between its requests."""

    def __init__(self):
        self.current = self.saved = None


class Operations:
    """Executes the operations of one request. `recall` is a function of a delegation."""

    def __init__(self, tree, held, client, cursor, recall, may_delegate):
        self.tree, self.held, self.client, self.cursor, self.recall, self.may_delegate = tree, held, client, cursor, recall, may_delegate
        self.complete = True  # no short READ or WRITE

    def node(self, kind=None):
        if self.cursor.current is None:
            raise Failed(NOFILEHANDLE)
        node = self.tree.by_handle(self.cursor.current.handle)
        if kind == DIRECTORY and node.kind != DIRECTORY:
            raise Failed(NOTDIR)
        if kind == REGULAR and node.kind != REGULAR:
            raise Failed(ISDIR if node.kind == DIRECTORY else INVAL)
        return node

    @staticmethod
    def name(name):
        if not name:
            raise Failed(INVAL)
        if len(name) > LONGEST_NAME:
            raise Failed(NAMETOOLONG)
        if name in (b".", b"..") or b"/" in name:
            raise Failed(BADNAME)
        return name

    def child(self, directory, name):
        if self.name(name) not in directory.children:
            raise Failed(NOENT)
        return directory.children[name]

    # ---- file handles ----

    def putfh(self, handle):
        self.cursor.current = self.tree.by_handle(handle)

    def putrootfh(self):
        self.cursor.current = self.tree.root

    def getfh(self):
        return opaque(self.node().handle)

    def savefh(self):
        self.cursor.saved = self.node()

    def restorefh(self):
        if self.cursor.saved is None:
            raise Failed(RESTOREFH)
        self.cursor.current = self.cursor.saved

    def lookup(self, name):
        self.cursor.current = self.child(self.node(DIRECTORY), name)

    def lookupp(self):
        parent = self.node(DIRECTORY).parent
        if parent is None:
            raise Failed(NOENT)
        self.cursor.current = parent

    # ---- attributes ----

    def getattr(self, wanted):
        return fattr(self.node(), wanted)

    def setattr(self, stateid, values):
        try:
            node = self.node()
            check_settable(values)
            if 4 in values:
                self.held.check_access(stateid, self.client, self.node(REGULAR), WRITE)
                self.recall_for(node, WRITE)
        except Failed as why:
            raise Failed(why.status, bitmap([])) from None
        set_attributes(node, values)
        return bitmap(values)

    def access(self, wanted):
        self.node()
        return u32(wanted & 63) + u32(wanted & 63)

    def compare(self, wanted):
        numbers, values = wanted
        return fattr(self.node(), numbers) == bitmap(numbers) + opaque(values)

    def verify(self, wanted):
        if not self.compare(wanted):
            raise Failed(NOT_SAME)

    def nverify(self, wanted):
        if self.compare(wanted):
            raise Failed(SAME)

    # ---- directories ----

    @staticmethod
    def change_info(before, directory):
        return u32(1) + u64(before) + u64(directory.change)

    def create(self, kind, name, values):
        directory = self.node(DIRECTORY)
        kind, link = kind
        if kind not in (DIRECTORY, SYMLINK):
            raise Failed(BADTYPE)
        if self.name(name) in directory.children:
            raise Failed(EXIST)
        check_settable(values)
        before, node = directory.change, self.tree.make(kind, 0o755)
        node.data += link
        set_attributes(node, values)
        self.tree.link(directory, name, node)
        self.cursor.current = node
        return self.change_info(before, directory) + bitmap(values)

    def remove(self, name):
        directory = self.node(DIRECTORY)
        node = self.child(directory, name)
        if node.children:
            raise Failed(NOTEMPTY)
        self.recall_for(node, WRITE)
        before = directory.change
        self.tree.unlink(directory, name)
        return self.change_info(before, directory)

    def rename(self, old, new):
        if self.cursor.saved is None:
            raise Failed(NOFILEHANDLE)
        source, target = self.tree.by_handle(self.cursor.saved.handle), self.node(DIRECTORY)
        if source.kind != DIRECTORY:
            raise Failed(NOTDIR)
        node, there = self.child(source, old), target.children.get(self.name(new))
        before = source.change, target.change
        above = target
        while above is not None:
            if above is node:
                raise Failed(INVAL)
            above = above.parent
        if there is not None and there is not node:
            if there.children or (there.kind == DIRECTORY) != (node.kind == DIRECTORY):
                raise Failed(EXIST)
            self.tree.unlink(target, new)
        if there is not node:
            self.tree.take_name(source, old)
            self.tree.link(target, new, node)
        return self.change_info(before[0], source) + self.change_info(before[1], target)

    def link(self, name):
        directory = self.node(DIRECTORY)
        if self.cursor.saved is None:
            raise Failed(NOFILEHANDLE)
        node = self.tree.by_handle(self.cursor.saved.handle)
        if node.kind == DIRECTORY:
            raise Failed(ISDIR)
        if self.name(name) in directory.children:
            raise Failed(EXIST)
        before = directory.change
        node.links += 1
        self.tree.link(directory, name, node)
        return self.change_info(before, directory)

    def readdir(self, cookie, verifier, _, limit, wanted):
        directory = self.node(DIRECTORY)
        entries, size = b"", 8 + 8
        rest = sorted((each, name) for name, each in directory.cookies.items() if each > cookie)
        for i, (each, name) in enumerate(rest):
            entry = u32(1) + u64(each) + opaque(name) + fattr(directory.children[name], wanted)
            if size + len(entry) > limit:
                if i == 0:
                    raise Failed(NOT_READDIR_ROOM)
                return VERIFIER + entries + u32(0) + u32(0)
            entries += entry
            size += len(entry)
        return VERIFIER + entries + u32(0) + u32(1)

    def readlink(self):
        node = self.node()
        if node.kind != SYMLINK:
            raise Failed(INVAL)
        return opaque(bytes(node.data)), 4, len(node.data)

    # ---- data ----

    def read(self, stateid, offset, size):
        node = self.node(REGULAR)
        self.held.check_access(stateid, self.client, node, READ)
        data = bytes(node.data[offset:offset + min(size, self.largest_read)])
        end = offset + len(data) >= len(node.data)
        self.complete = len(data) == size or end
        return u32(end) + opaque(data), 8, len(data)

    def write(self, stateid, offset, _, data):
        node = self.node(REGULAR)
        self.held.check_access(stateid, self.client, node, WRITE)
        if offset + len(data) > LARGEST_FILE:
            raise Failed(FBIG)
        self.recall_for(node, WRITE)
        node.data += bytes(max(0, offset + len(data) - len(node.data)))
        node.data[offset:offset + len(data)] = data
        node.touch()
        return u32(len(data)) + u32(2) + VERIFIER

    def commit(self, offset, size):
        self.node(REGULAR)
        return VERIFIER

    # ---- opens and locks ----

    def recall_for(self, node, access):
        """Asks for the delegations that stand in the way, and has the client try again."""
        if conflicts := self.held.conflicting_delegations(self.client, node, access):
            for delegation in conflicts:
                self.recall(delegation)
            raise Failed(DELAY)

    def made(self, directory, name, how):
        """Returns (the node of an OPEN that may create it, the attributes that were set)."""
        node = directory.children.get(self.name(name))
        kind, details = how
        if node is not None:
            same = kind == nfs4.EXCLUSIVE and node.verifier == details
            if kind == nfs4.GUARDED or kind == nfs4.EXCLUSIVE and not same:
                raise Failed(EXIST)
            if node.kind != REGULAR:
                raise Failed(ISDIR if node.kind == DIRECTORY else SYMLINK_FILE)
            return node, {4: 0} if kind == nfs4.UNCHECKED and details.get(4) == 0 else {}
        values = {} if kind == nfs4.EXCLUSIVE else details
        check_settable(values)
        node = self.tree.make(REGULAR, 0o644)
        node.verifier = details if kind == nfs4.EXCLUSIVE else None
        self.tree.link(directory, name, node)
        return node, values

    def open(self, _, access, deny, owner, how, claim):
        if access & 3 == 0 or access > 3 or deny > 3:
            raise Failed(INVAL)
        kind, name, delegation = claim
        if kind not in (CLAIM_NULL, CLAIM_DELEGATE_CUR) or delegation and how:
            raise Failed(NO_GRACE if kind != CLAIM_DELEGATE_CUR else INVAL)
        directory = self.node(DIRECTORY)
        before = directory.change
        if how is None:
            node, values = self.child(directory, name), {}
            if node.kind != REGULAR:
                raise Failed(ISDIR if node.kind == DIRECTORY else SYMLINK_FILE)
        else:
            node, values = self.made(directory, name, how)
        if delegation and self.held.find(delegation, self.client, "delegation").node is not node:
            raise Failed(BAD_STATEID)
        self.recall_for(node, WRITE if 4 in values else access)
        state = self.held.open(self.client, owner, node, access, deny)
        set_attributes(node, values)
        self.cursor.current = node
        result = state.stateid() + self.change_info(before, directory) + u32(4) + bitmap(values)
        if access != READ or not self.may_delegate() or not self.held.may_delegate(self.client, node):
            return result + u32(0)
        delegation = self.held.make("delegation", self.client, owner, node)
        delegation.access = READ
        return result + u32(1) + delegation.stateid() + u32(0) + u32(0) + u32(0) + u32(0) + opaque(b"")

    def open_downgrade(self, stateid, _, access, deny):
        state = self.held.find(stateid, self.client, "open")
        if access & ~state.access or deny & ~state.deny or not access:
            raise Failed(INVAL)
        state.access, state.deny = access, deny
        return state.stateid()

    def close(self, _, stateid):
        state = self.held.find(stateid, self.client, "open")
        self.held.close(state)
        return state.stateid()

    def delegreturn(self, stateid):
        self.held.drop(self.held.find(stateid, self.client, "delegation"))

    @staticmethod
    def denied(conflict):
        state, (first, behind, kind) = conflict
        length = (1 << 64) - 1 if behind == 1 << 64 else behind - first
        return Failed(DENIED, u64(first) + u64(length) + u32(kind) + u64(0) + opaque(state.owner))

    def lock(self, kind, reclaim, offset, length, locker):
        if reclaim:
            raise Failed(NO_GRACE)
        kind = READ if kind in (1, 3) else WRITE
        first, behind = span(offset, length)
        new, stateid, owner = locker
        if new:
            opened = self.held.find(stateid, self.client, "open")
            mine = self.held.of("locks", opened.node, self.client, owner)
            state = mine[0] if mine else None
        else:
            state = self.held.find(stateid, self.client, "locks")
            opened, owner = state.open, state.owner
        if conflict := self.held.conflict(self.client, owner, opened.node, first, behind, kind):
            raise self.denied(conflict)
        if state is None:
            state = self.held.make("locks", self.client, owner, opened.node)
            state.open = opened
        self.held.cut(state, first, behind)
        state.ranges.append((first, behind, kind))
        return state.stateid()

    def lockt(self, kind, offset, length, owner):
        conflict = self.held.conflict(self.client, owner, self.node(REGULAR), *span(offset, length), READ if kind in (1, 3) else WRITE)
        if conflict:
            raise self.denied(conflict)

    def locku(self, _, __, stateid, offset, length):
        state = self.held.find(stateid, self.client, "locks")
        self.held.cut(state, *span(offset, length))
        return state.stateid()

    def release_lockowner(self, owner):
        for state in self.held.of("locks", None, self.client, owner):
            if state.ranges:
                raise Failed(10037)  # NFS4ERR_LOCKS_HELD
            self.held.drop(state)

    largest_read = LARGEST_TRANSFER


# ---- arguments ----

def _stateid(reader):
    return reader.fixed(16)


def _owner(reader):
    """The client ID has no meaning here: the session names the client."""
    reader.u64()
    return reader.opaque(1024)


def _openhow(reader):
    if reader.enum(2) == 0:
        return None
    kind = reader.enum(3)
    return kind, reader.fixed(8) if kind == nfs4.EXCLUSIVE else read_fattr(reader)


def _claim(reader):
    kind = reader.enum(4)
    if kind == 1:  # CLAIM_PREVIOUS
        reader.enum(3)
        return kind, b"", None
    delegation = _stateid(reader) if kind == CLAIM_DELEGATE_CUR else None
    return kind, reader.opaque(), delegation


def _createtype(reader):
    kind = reader.u32()
    if kind == SYMLINK:
        return kind, reader.opaque()
    if kind in (3, 4):
        reader.u64()
    return kind, b""


def _locker(reader):
    if reader.boolean():
        reader.u32()
        stateid = _stateid(reader)
        reader.u32()
        return True, stateid, _owner(reader)
    stateid = _stateid(reader)
    reader.u32()
    return False, stateid, None


def _verified(reader):
    return read_bitmap(reader), reader.opaque()


def _lock_type(reader):
    value = reader.u32()
    return value if 1 <= value <= 4 else reader.enum(0)


u, h, o, b = Reader.u32, Reader.u64, Reader.opaque, Reader.boolean
# {number: (method, whether it changes something, how its arguments are read)}
TABLE = {
    nfs4.ACCESS: (Operations.access, False, u), nfs4.CLOSE: (Operations.close, True, u, _stateid),
    nfs4.COMMIT: (Operations.commit, False, h, u), nfs4.CREATE: (Operations.create, True, _createtype, o, read_fattr),
    nfs4.DELEGRETURN: (Operations.delegreturn, True, _stateid), nfs4.GETATTR: (Operations.getattr, False, read_bitmap),
    nfs4.GETFH: (Operations.getfh, False), nfs4.LINK: (Operations.link, True, o),
    nfs4.LOCK: (Operations.lock, True, _lock_type, b, h, h, _locker), nfs4.LOCKT: (Operations.lockt, False, _lock_type, h, h, _owner),
    nfs4.LOCKU: (Operations.locku, True, _lock_type, u, _stateid, h, h), nfs4.LOOKUP: (Operations.lookup, False, o),
    nfs4.LOOKUPP: (Operations.lookupp, False), nfs4.NVERIFY: (Operations.nverify, False, _verified),
    nfs4.OPEN: (Operations.open, True, u, u, u, _owner, _openhow, _claim),
    nfs4.OPEN_DOWNGRADE: (Operations.open_downgrade, True, _stateid, u, u, u), nfs4.PUTFH: (Operations.putfh, False, o),
    nfs4.PUTPUBFH: (Operations.putrootfh, False), nfs4.PUTROOTFH: (Operations.putrootfh, False),
    nfs4.READ: (Operations.read, False, _stateid, h, u),
    nfs4.READDIR: (Operations.readdir, False, h, lambda reader: reader.fixed(8), u, u, read_bitmap),
    nfs4.READLINK: (Operations.readlink, False), nfs4.RELEASE_LOCKOWNER: (Operations.release_lockowner, True, _owner),
    nfs4.REMOVE: (Operations.remove, True, o), nfs4.RENAME: (Operations.rename, True, o, o),
    nfs4.RESTOREFH: (Operations.restorefh, False), nfs4.SAVEFH: (Operations.savefh, False),
    nfs4.SETATTR: (Operations.setattr, True, _stateid, read_fattr), nfs4.VERIFY: (Operations.verify, False, _verified),
    nfs4.WRITE: (Operations.write, True, _stateid, h, u, lambda reader: reader.payload()),
}
