"""The operations of the sessions of 2004 on the wire (draft-talpey-nfsv4-rdma-sess-01 §6), encoded and decoded by hand.

Decoders accept exactly the octets of a value: enumerations are closed, Booleans are 0 or 1, and padding is zero.
"""

import struct

MINOR_VERSION = 1
CALLBACK_PROGRAM = (0x40000000, 1)
OPERATION_CONTROL, SESSION_CREATE, SESSION_BIND, SESSION_DESTROY, CB_CREDITRECALL = range(200401, 200406)
OURS = (OPERATION_CONTROL, SESSION_CREATE, SESSION_BIND, SESSION_DESTROY)

OK, INVAL, NOTSUPP, TOOSMALL, BADXDR = 0, 22, 10004, 10005, 10036
(BADSESSION, BADSTREAM, CHAIN_INVALID, CHAIN_BROKEN, NOT_BOUND, CONTROL_POS, BADBIND, BADCHANNEL, STREAM_INUSE,
 UNKNOWN_FATE) = range(200410, 200420)

OPERATION, BACK = 0, 1  # ChannelType
STREAM, RDMA = 0, 1  # ConnectionMode
NOCHAIN, CHAINBEGIN, CHAINCONTINUE, CHAINEND = range(4)  # ChainFlags

MODE_GRANTED, SERVER_INSTANCE = 1, 2  # types of transport attributes
LONGEST_ATTRIBUTES = 1024


class BadXdr(Exception):
    """The octets encode no value of the type."""


class Reader:
    """Reads XDR items (RFC 4506) in order."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def fixed(self, size):
        if size < 0 or self.at + size > len(self.data):
            raise BadXdr(f"{size} octets at {self.at} of {len(self.data)}")
        self.at += size
        return bytes(self.data[self.at - size:self.at])

    def u32(self):
        return struct.unpack(">I", self.fixed(4))[0]

    def u64(self):
        return struct.unpack(">Q", self.fixed(8))[0]

    def boolean(self):
        return bool(self.enum(2))

    def enum(self, count):
        """Reads an enumeration of the values from 0 to `count` - 1."""
        value = self.u32()
        if value >= count:
            raise BadXdr(f"value {value} of {count}")
        return value

    def opaque(self, limit=None):
        size = self.u32()
        if limit is not None and size > limit:
            raise BadXdr(f"{size} octets where {limit} are allowed")
        data = self.fixed(size)
        if any(self.fixed(-size % 4)):
            raise BadXdr("padding that is not zero")
        return data

    def payload(self):
        """Reads an opaque value that a transport may have moved or padded."""
        return self.opaque()

    def end(self):
        if self.at != len(self.data):
            raise BadXdr(f"{len(self.data) - self.at} octets behind the end")


def u32(value):
    return struct.pack(">I", value)


def u64(value):
    return struct.pack(">Q", value)


def opaque(data):
    return u32(len(data)) + data + bytes(-len(data) % 4)


# How a field is encoded and read: {kind: (encode, read)}.
KINDS = {
    "u32": (u32, Reader.u32),
    "u64": (u64, Reader.u64),
    "bool": (lambda value: u32(int(value)), Reader.boolean),
    "channel": (u32, lambda reader: reader.enum(2)),
    "mode": (u32, lambda reader: reader.enum(2)),
    "chain": (u32, lambda reader: reader.enum(4)),
    "verifier": (lambda value: value, lambda reader: reader.fixed(8)),
    "id": (opaque, lambda reader: reader.opaque(1024)),  # NFS4_OPAQUE_LIMIT
    "opaque": (opaque, Reader.opaque),
}

LIMITS = (("maxrequestsize", "u32"), ("maxresponsesize", "u32"), ("headerpadsize", "u32"), ("maxrequests", "u32"),
          ("maxrdmareads", "u32"), ("transportattrs", "opaque"))

# The fields of the arguments, and those of the results if the status is NFS4_OK: {operation: (arguments, results)}.
LAYOUTS = {
    OPERATION_CONTROL: ((("channelid", "u32"), ("streamid", "u32"), ("chainflags", "chain")), (("streamid", "u32"),)),
    SESSION_CREATE: ((("verifier", "verifier"), ("id", "id"), ("persist", "bool"), ("totalrequests", "u32")),
                     (("sessionid", "u64"), ("persist", "bool"), ("totalrequests", "u32"))),
    SESSION_BIND: ((("sessionid", "u64"), ("channel", "channel"), ("mode", "mode"), *LIMITS), (("channelid", "u32"), *LIMITS)),
    SESSION_DESTROY: ((), ()),
    CB_CREDITRECALL: ((("target", "u32"),), ()),
}


def encode(layout, values):
    return b"".join(KINDS[kind][0](values[name]) for name, kind in layout)


def read(layout, reader):
    return {name: KINDS[kind][1](reader) for name, kind in layout}


def arguments(operation, **values):
    """Makes an operation of a COMPOUND or CB_COMPOUND: its number and its arguments."""
    return u32(operation) + encode(LAYOUTS[operation][0], values)


def results(operation, status=OK, **values):
    """Makes the result of an operation: its number, its status and, if that is NFS4_OK, its fields."""
    return u32(operation) + u32(status) + (encode(LAYOUTS[operation][1], values) if status == OK else b"")


def read_arguments(operation, reader):
    """Reads the arguments behind the number of an operation: {field: value}."""
    return read(LAYOUTS[operation][0], reader)


def read_results(operation, reader):
    """Reads the result behind the number of an operation: (status, {field: value})."""
    status = reader.u32()
    return status, read(LAYOUTS[operation][1], reader) if status == OK else {}


def attributes(*items):
    """Makes transport attributes from (type, octets)."""
    return u32(len(items)) + b"".join(u32(kind) + opaque(value) for kind, value in items)


def read_attributes(octets):
    """Reads transport attributes: {type: octets}. Octets of length zero are an empty list."""
    if not octets:
        return {}
    reader = Reader(octets)
    found = {}
    for _ in range(reader.u32()):
        kind = reader.u32()
        found[kind] = reader.opaque()
    reader.end()
    return found


def granted_mode(octets):
    """Returns the ConnectionMode that the attributes of a bind's result grant."""
    value = read_attributes(octets).get(MODE_GRANTED)
    if value is None:
        return STREAM
    reader = Reader(value)
    mode = reader.enum(2)
    reader.end()
    return mode


# ---- COMPOUND and CB_COMPOUND (RFC 7530 §16.2, §17.2) ----

def compound(operations, tag=b"", minor=MINOR_VERSION, count=None):
    """Makes the arguments of a COMPOUND from operations as octets."""
    return opaque(tag) + u32(minor) + u32(len(operations) if count is None else count) + b"".join(operations)


def callback_compound(operations, tag=b"", minor=MINOR_VERSION):
    """Makes the arguments of a CB_COMPOUND. Nobody uses callback_ident, so it is zero."""
    return opaque(tag) + u32(minor) + u32(0) + u32(len(operations)) + b"".join(operations)


def reply(status, results_of_operations, tag=b""):
    """Makes the results of a COMPOUND or CB_COMPOUND."""
    return u32(status) + opaque(tag) + u32(len(results_of_operations)) + b"".join(results_of_operations)
