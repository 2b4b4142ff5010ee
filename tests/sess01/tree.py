"""A small tree of files in memory, and its attributes (RFC 7530 §5)."""

import itertools
import time

from wire import Reader, opaque, u32, u64

REGULAR, DIRECTORY, SYMLINK = 1, 2, 5
ATTRNOTSUPP, STALE, BADHANDLE, INVAL = 10032, 70, 10001, 22
LONGEST_NAME, LARGEST_FILE, LARGEST_TRANSFER, LEASE_SECONDS = 255, 64 << 20, 1 << 20, 90


class Failed(Exception):
    """An operation ends with this status, and with a body behind it if the protocol defines one."""

    def __init__(self, status, body=b""):
        super().__init__(f"status {status}")
        self.status, self.body = status, body


class Node:
    """A file, a directory or a symbolic link."""

    def __init__(self, number, kind, mode):
        self.number, self.kind, self.mode = number, kind, mode
        self.data, self.parent = bytearray(), None
        self.children, self.cookies = {}, {}  # of a directory, by name; a cookie is never used again
        self.owner = self.group = b"0"
        self.links, self.change, self.verifier = 2 if kind == DIRECTORY else 1, 1, None
        self.accessed = self.modified = self.changed = time.time_ns()

    @property
    def handle(self):
        return u64(self.number)

    def touch(self):
        """Records a change of the contents."""
        self.modified = self.changed = time.time_ns()
        self.change += 1


class Tree:
    """The nodes by their numbers, which are the file handles, and the root."""

    def __init__(self):
        self.numbers, self.cookies, self.nodes = itertools.count(2), itertools.count(3), {}
        self.root = self.make(DIRECTORY, 0o777)

    def make(self, kind, mode):
        node = Node(next(self.numbers), kind, mode)
        self.nodes[node.number] = node
        return node

    def by_handle(self, handle):
        if len(handle) != 8:
            raise Failed(BADHANDLE)
        node = self.nodes.get(int.from_bytes(handle, "big"))
        if node is None:
            raise Failed(STALE)
        return node

    def link(self, directory, name, node):
        directory.children[name], directory.cookies[name] = node, next(self.cookies)
        if node.kind == DIRECTORY:
            node.parent = directory
        directory.touch()

    @staticmethod
    def take_name(directory, name):
        """Removes a name, and leaves its node."""
        directory.touch()
        del directory.cookies[name]
        return directory.children.pop(name)

    def unlink(self, directory, name):
        """Removes a name, and its node with the last name. Returns the node."""
        node = self.take_name(directory, name)
        node.links -= 2 if node.kind == DIRECTORY else 1
        if node.links <= 0:
            del self.nodes[node.number]
        return node


def bitmap(numbers):
    array = [0] * (max(numbers, default=-1) // 32 + 1)
    for number in numbers:
        array[number // 32] |= 1 << number % 32
    return u32(len(array)) + b"".join(map(u32, array))


def read_bitmap(reader):
    found = []
    for i in range(min(reader.u32(), 64)):
        bits = reader.u32()
        found += [32 * i + bit for bit in range(32) if bits >> bit & 1]
    return found


def moment(nanoseconds):
    return u64(nanoseconds // 10**9) + u32(nanoseconds % 10**9)


def boolean(value):
    return lambda node: u32(value)


def count(value):
    return lambda node: u64(value)


# How an attribute of a node is encoded, by its number.
ATTRIBUTES = {
    0: lambda node: bitmap([*ATTRIBUTES, 48, 54]),
    1: lambda node: u32(node.kind),
    2: boolean(0),  # file handles persist as long as the server
    3: lambda node: u64(node.change),
    4: lambda node: u64(len(node.data)),
    5: boolean(1), 6: boolean(1), 7: boolean(0),  # links, symbolic links, named attributes
    8: lambda node: u64(1) + u64(0),
    9: boolean(1),
    10: boolean(LEASE_SECONDS),
    11: boolean(0),
    13: boolean(0),
    15: boolean(1), 16: boolean(0), 17: boolean(1), 18: boolean(1),
    19: lambda node: opaque(node.handle),
    20: lambda node: u64(node.number),
    21: count(10**6), 22: count(10**6), 23: count(10**6),
    26: boolean(1),
    27: count(LARGEST_FILE),
    28: boolean(1000),
    29: boolean(LONGEST_NAME),
    30: count(LARGEST_TRANSFER), 31: count(LARGEST_TRANSFER),
    33: lambda node: u32(node.mode),
    34: boolean(1),
    35: lambda node: u32(node.links),
    36: lambda node: opaque(node.owner),
    37: lambda node: opaque(node.group),
    41: lambda node: u32(0) + u32(0),
    42: count(1 << 30), 43: count(1 << 30), 44: count(1 << 30),
    45: lambda node: u64(len(node.data)),
    47: lambda node: moment(node.accessed),
    51: lambda node: moment(1),
    52: lambda node: moment(node.changed),
    53: lambda node: moment(node.modified),
    55: lambda node: u64(node.number),
}


def fattr(node, wanted):
    """Makes an fattr4 of the wanted attributes that the tree has."""
    there = sorted(set(wanted) & ATTRIBUTES.keys())
    return bitmap(there) + opaque(b"".join(ATTRIBUTES[number](node) for number in there))


def _read_time(reader):
    if reader.enum(2) == 0:
        return time.time_ns()
    return reader.u64() * 10**9 + reader.u32()


_SETTABLE = {4: Reader.u64, 33: Reader.u32, 36: Reader.opaque, 37: Reader.opaque, 48: _read_time, 54: _read_time}


def read_fattr(reader):
    """Reads an fattr4 of settable attributes: {number: value}. Of other attributes the value is unknown, so it is None."""
    numbers, values = read_bitmap(reader), Reader(reader.opaque())
    found = {}
    for number in numbers:
        if number not in _SETTABLE:
            return dict.fromkeys(numbers)
        found[number] = _SETTABLE[number](values)
    values.end()
    return found


def check_settable(values):
    if any(value is None for value in values.values()):
        raise Failed(ATTRNOTSUPP)
    if values.get(4, 0) > LARGEST_FILE:
        raise Failed(27)  # NFS4ERR_FBIG
    if values.get(33, 0) > 0o7777:
        raise Failed(INVAL)


def set_attributes(node, values):
    for number, value in values.items():
        if number == 4:
            del node.data[value:]
            node.data += bytes(value - len(node.data))
            node.modified = time.time_ns()
        elif number == 33:
            node.mode = value
        elif number in (36, 37):
            setattr(node, "owner" if number == 36 else "group", value)
        else:
            setattr(node, "accessed" if number == 48 else "modified", value)
    if values:
        node.changed = time.time_ns()
        node.change += 1
