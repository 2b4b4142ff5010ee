"""RPC calls (RFC 5531), NFS version 3 arguments (RFC 1813) and RPC-over-RDMA headers (RFC 8166), valid and invalid."""

import itertools
import struct

from iwarp_peer import connect
from patience import SECONDS
from rdma_messages import RDMA_ERROR, RDMA_MSG, RDMA_NOMSG, Header, Words

NFS, MOUNT = (100003, 3), (100005, 3)
(NULL, GETATTR, SETATTR, LOOKUP, ACCESS, READLINK, READ, WRITE, CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME, LINK,
 READDIR, READDIRPLUS, FSSTAT, FSINFO, PATHCONF, COMMIT) = range(22)
PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL, GARBAGE_ARGS, SYSTEM_ERR = 1, 2, 3, 4, 5
OK, NOENT, NOTDIR, ISDIR, INVAL, FBIG, NAMETOOLONG = 0, 2, 20, 21, 22, 27, 63
EXIST, STALE, BADHANDLE, BAD_COOKIE, NOTSUPP, TOOSMALL = 17, 70, 10001, 10003, 10004, 10005

xids = itertools.count(0x5AFE0000)


def words(*values):
    return b"".join(struct.pack(">I", value) for value in values)


def opaque(data, length=None):
    return words(len(data) if length is None else length) + data + bytes(-len(data) % 4)


def hyper(value):
    return struct.pack(">Q", value)


AUTH_SYS = words(1) + opaque(words(0) + opaque(b"adversary") + words(0, 0, 0))
AUTH_NONE = words(0, 0)


def call(procedure=NULL, arguments=b"", program=NFS, xid=None, rpc_version=2, credential=AUTH_SYS, verifier=AUTH_NONE,
         message_type=0):
    """Makes an RPC call; its XID is its first word."""
    return words(next(xids) if xid is None else xid, message_type, rpc_version, *program, procedure) + \
        credential + verifier + arguments


def xid_of(message):
    return struct.unpack_from(">I", message)[0]


def segment(handle, length, offset=0):
    return words(handle, length) + hyper(offset)


def read_list(*chunks):
    """Makes a Read list of (position, handle, length[, offset])."""
    return b"".join(words(1, position) + segment(*rest) for position, *rest in chunks) + words(0)


def write_list(*chunks):
    """Makes a Write list of chunks, which are lists of (handle, length[, offset])."""
    return b"".join(words(1, len(chunk)) + b"".join(segment(*each) for each in chunk) for chunk in chunks) + words(0)


def reply_chunk(*segments):
    return words(1, len(segments)) + b"".join(segment(*each) for each in segments)


NO_CHUNKS = words(0, 0, 0)


def header(xid, kind=RDMA_MSG, reads=words(0), writes=words(0), reply=words(0), version=1, credits=32, chunks=None):
    return words(xid, version, credits, kind) + (reads + writes + reply if chunks is None else chunks)


def rdma_call(message, **fields):
    """Makes RDMA_MSG with a call; `fields` change the header."""
    return header(fields.pop("xid", xid_of(message)), **fields) + message


class RpcReply:
    """(status, words of detail): ("success",), ("accepted", PROG_MISMATCH, low, high), ("denied", 1, why)..."""

    def __init__(self, message):
        reader = Words(message)
        self.xid, kind, denied = reader.word(), reader.word(), reader.word()
        assert kind == 1, "not a reply"
        if denied:
            self.status = ("denied", reader.word(), reader.word())
        else:
            reader.word(), reader.word()
            code = reader.word()
            self.status = ("success",) if code == 0 else ("accepted", code)
            if code == PROG_MISMATCH:
                self.status += (reader.word(), reader.word())
        self.results = reader.rest()


class Client:
    """A requester on an Endpoint that can also behave correctly: calls one at a time."""

    def __init__(self, port, **how):
        self.port, self.endpoint, self.handles = port, connect(port, **how), itertools.count(0x1000)

    def offer(self, contents):
        """Registers memory that the server may access; returns its handle."""
        handle = next(self.handles)
        self.endpoint.memory[handle] = bytearray(contents)
        return handle

    def exchange(self, message, seconds=SECONDS):
        """Sends a message and returns the header of the reply for its XID."""
        self.endpoint.send(message)
        return self.reply_to(xid_of(message), seconds)

    def reply_to(self, xid, seconds=SECONDS):
        answer = Header(self.endpoint.receive(seconds))
        assert answer.xid == xid, f"an answer to {answer.xid:#x}, not to {xid:#x}"
        assert answer.version == 1 or answer.kind == RDMA_ERROR
        assert answer.credits > 0, "a grant of no credits"
        return answer

    def call(self, procedure=NULL, arguments=b"", program=NFS, reply=None):
        """Makes a correct call; returns its results. `reply` is the size of a Reply chunk to offer."""
        message, fields = call(procedure, arguments, program), {}
        if reply:
            handle = self.offer(bytes(reply))
            fields = {"reply": reply_chunk((handle, reply))}
        answer = self.exchange(rdma_call(message, **fields))
        body = answer.body
        if answer.kind == RDMA_NOMSG:
            body = bytes(self.endpoint.memory[handle][:answer.reply[0][1]])
        got = RpcReply(body)
        assert got.xid == xid_of(message) and got.status == ("success",), f"call {procedure} ended with {got.status}"
        return got.results

    def send_call(self, message, payload=None, room=0):
        """Makes a correct call. `payload`, (position, size) in the message, goes by a Read chunk; `room` is the size of
        a Reply chunk for a reply that may be longer than a Send."""
        fields = {}
        if payload:
            at, size = payload
            fields["reads"] = read_list((at, self.offer(message[at:at + size]), size))
            message = message[:at] + message[at + size + -size % 4:]
        if room:
            fields["reply"] = reply_chunk((self.offer(bytes(room)), room))
        self.endpoint.send(rdma_call(message, **fields))

    def take_reply(self, seconds=SECONDS):
        """Returns the RPC message of the next reply, in any form."""
        answer = Header(self.endpoint.receive(seconds))
        assert answer.kind in (RDMA_MSG, RDMA_NOMSG), f"procedure {answer.kind} instead of a reply"
        if answer.kind == RDMA_MSG:
            return answer.body
        return b"".join(bytes(self.endpoint.memory[handle][offset:offset + length]) for handle, length, offset in answer.reply)

    def root(self, path=b"/"):
        results = Words(self.call(1, opaque(path), MOUNT))
        assert results.word() == 0, f"cannot mount {path}"
        return take_opaque(results)

    def lookup(self, directory, name):
        results = Words(self.call(LOOKUP, opaque(directory) + opaque(name)))
        assert results.word() == OK, f"no {name}"
        return take_opaque(results)

    def close(self):
        self.endpoint.close()


def take_opaque(reader):
    size = reader.word()
    data = reader.data[reader.at:reader.at + size]
    reader.at += size + -size % 4
    return data
