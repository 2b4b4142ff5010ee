"""The operations that must not be executed twice, for each version: the request, the visible effect on the server's
disk, and the change by another client that a second execution would destroy."""

import os
import stat
from typing import Callable, NamedTuple, Optional

import nfs4_messages as nfs4
import rpc_messages as rpc
from nfs4_messages import at, between, op
from rpc_messages import hyper, opaque, words

KEPT = b"what somebody else has written"
NO_ATTRIBUTES = words(0, 0, 0, 0, 0, 0)


class Operation(NamedTuple):
    name: str
    prepare: Callable  # takes a Place
    request: Callable  # takes a Place; returns the call, and the place of its payload if it has one
    done: Optional[Callable]  # takes a Place; returns whether the effect is visible; None if only the requester knows
    meddle: Callable  # takes a Place
    spoiled: Callable  # takes a Place; returns whether the other client's change is destroyed


class Place:
    """A directory for one operation. `speaker` is the requester, `other` another client, of version 4."""

    def __init__(self, path, directory, client, speaker=None, other=None):
        self.path, self.directory, self.client, self.speaker, self.other = path, directory, client, speaker, other
        self.owner = nfs4.Owner(speaker, os.path.basename(path).encode()) if speaker else None

    def __truediv__(self, name):
        return f"{self.path}/{name}"

    def write(self, name, contents=KEPT):
        with open(self / name, "wb") as file:
            file.write(contents)

    def read(self, name):
        with open(self / name, "rb") as file:
            return file.read()

    def exists(self, name):
        return os.path.lexists(self / name)

    def remove(self, name):
        os.rmdir(self / name) if os.path.isdir(self / name) else os.unlink(self / name)

    def handle(self, name):
        return self.client.lookup(self.directory, name.encode()) if self.speaker is None else \
            nfs4.run(self.client, at(self.directory, op(nfs4.LOOKUP, opaque(name.encode())), op(nfs4.GETFH))).value(nfs4.GETFH)


# ---- kinds of operations ----

def makes(name, request, prepare=lambda place: None):
    """Makes "new". Another client removes it: it must not be made again."""
    return Operation(name, prepare, request, lambda place: place.exists("new"), lambda place: place.remove("new"),
                     lambda place: place.exists("new"))


def removes(name, request, make):
    """Removes "old". Another client makes it again: the new file must stay."""
    return Operation(name, make, request, lambda place: not place.exists("old"), make, lambda place: not place.exists("old"))


def renames(name, request):
    """Renames "old" to "new". Another client makes another "old": it must not replace "new"."""
    return Operation(name, lambda place: place.write("old", b"the first"), request, lambda place: place.exists("new"),
                     lambda place: place.write("old"),
                     lambda place: place.read("new") != b"the first" or place.read("old") != KEPT)


def changes(name, request, before, done, prepare=lambda place: None, meddle=lambda place: place.write("file"),
            spoiled=lambda place: place.read("file") != KEPT):
    """Changes "file". Another client changes it differently: that must stay."""
    def make(place):
        place.write("file", before)
        prepare(place)
    return Operation(name, make, request, done, meddle, spoiled)


def make_file(name):
    return lambda place: place.write(name)


def make_directory(name):
    return lambda place: os.mkdir(place / name)


# ---- version 3 ----

def version3():
    def call(procedure, arguments):
        return lambda place: (rpc.call(procedure, arguments(place)), None)

    def name_in(name):
        return lambda place: opaque(place.directory) + opaque(name)

    new, old = name_in(b"new"), name_in(b"old")

    def symlink(place):
        head = new(place) + NO_ATTRIBUTES
        message = rpc.call(rpc.SYMLINK, head + opaque(b"where it leads to"))
        return message, (len(message) - 20, 17)

    def guarded_size(place):
        changed = os.stat(place / "file").st_ctime_ns
        return rpc.call(rpc.SETATTR, opaque(place.handle("file")) + words(0, 0, 0, 1) + hyper(3) + words(0, 0) +
                        words(1, changed // 10**9, changed % 10**9)), None

    def is_fifo(place):
        return place.exists("new") and stat.S_ISFIFO(os.lstat(place / "new").st_mode)

    yield makes("CREATE unchecked", call(rpc.CREATE, lambda place: new(place) + words(0) + NO_ATTRIBUTES))
    yield makes("CREATE guarded", call(rpc.CREATE, lambda place: new(place) + words(1) + NO_ATTRIBUTES))
    yield makes("CREATE exclusive", call(rpc.CREATE, lambda place: new(place) + words(2) + b"verifier"))
    yield makes("MKDIR", call(rpc.MKDIR, lambda place: new(place) + NO_ATTRIBUTES))
    yield makes("SYMLINK", symlink)
    yield makes("MKNOD", call(rpc.MKNOD, lambda place: new(place) + words(7) + NO_ATTRIBUTES))._replace(done=is_fifo)
    yield makes("LINK", call(rpc.LINK, lambda place: opaque(place.handle("old")) + new(place)), make_file("old"))
    yield removes("REMOVE", call(rpc.REMOVE, old), make_file("old"))
    yield removes("RMDIR", call(rpc.RMDIR, old), make_directory("old"))
    yield renames("RENAME", call(rpc.RENAME, lambda place: old(place) + new(place)))
    yield _write()
    yield changes("SETATTR with a guard", guarded_size, b"long", lambda place: place.read("file") == b"lon")


# ---- version 4 ----

def version4(minor):
    yield from _names()
    yield from _opens(minor)
    yield from _locks()
    yield _write()
    if minor > 1:
        yield from _extended_attributes()
        yield from _space()


def _asks(operations, payload_from_end=None):
    def request(place):
        message = place.speaker.request(operations(place))
        return message, payload_from_end and (len(message) - payload_from_end[0], payload_from_end[1])
    return request


def _names():
    def create(kind, more=b""):
        return _asks(lambda place: at(place.directory, nfs4.create_op(kind, b"new", more)))

    remove = _asks(lambda place: at(place.directory, op(nfs4.REMOVE, opaque(b"old"))))
    yield makes("CREATE of a directory", create(nfs4.NF4DIR))
    yield makes("CREATE of a fifo", create(nfs4.NF4FIFO))
    link_text, behind = opaque(b"where it leads to"), len(opaque(b"new") + nfs4.fattr(mode=0o755))
    yield makes("CREATE of a symbolic link",
                _asks(lambda place: at(place.directory, nfs4.create_op(nfs4.NF4LNK, b"new", link_text)), (behind + 20, 17)))
    yield makes("LINK", _asks(lambda place: between(place.handle("old"), place.directory, op(nfs4.LINK, opaque(b"new")))),
                make_file("old"))
    yield removes("REMOVE of a file", remove, make_file("old"))
    yield removes("REMOVE of a directory", remove, make_directory("old"))
    yield renames("RENAME", _asks(lambda place: between(place.directory, place.directory,
                                                        op(nfs4.RENAME, opaque(b"old"), opaque(b"new")))))
    yield changes("SETATTR", _asks(lambda place: at(place.handle("file"), op(nfs4.SETATTR, nfs4.ANONYMOUS, nfs4.fattr(size=3)))),
                  b"long", lambda place: place.read("file") == b"lon")


def _open_file(place):
    place.file, place.stateid = place.owner.open(place.client, place.directory, b"file")


def _nothing(place):
    return None


def _on_open_file(name, operations, done=None, before=b"long", meddle=_nothing, spoiled=_nothing):
    """Operations by a stateid. If no other client can change anything, the reply shows it: a second execution has
    another reply."""
    return changes(name, _asks(lambda place: at(place.file, *operations(place))), before, done, _open_file, meddle, spoiled)


def _opens(minor):
    def create(how):
        return _asks(lambda place: at(place.directory, place.owner.open_op(b"new", how)))

    attributes = nfs4.fattr(mode=0o644)
    yield makes("OPEN that creates, guarded", create(words(nfs4.GUARDED) + attributes))
    yield makes("OPEN that creates, unchecked", create(words(nfs4.UNCHECKED) + attributes))
    yield makes("OPEN that creates, exclusive", create(words(nfs4.EXCLUSIVE) + b"verifier" if minor == 0 else
                                                       words(nfs4.EXCLUSIVE_1) + b"verifier" + attributes))

    def open_twice(place):
        """An open can be downgraded to a share that was opened separately (RFC 7530 §16.19.4)."""
        _open_file(place)
        again = place.speaker.run(place.client, at(place.directory, place.owner.open_op(b"file", access=nfs4.READ_ACCESS)))
        place.stateid = again.value(nfs4.OPEN)["stateid"]

    downgrade = _on_open_file("OPEN_DOWNGRADE", lambda place: [
        nfs4.downgrade_op(place.stateid, nfs4.READ_ACCESS, place.owner.next_seqid())])
    yield downgrade._replace(prepare=lambda place: (place.write("file"), open_twice(place)))
    yield _on_open_file("CLOSE", lambda place: [nfs4.close_op(place.stateid, place.owner.next_seqid())])


def _locks():
    def free(place, speaker):
        test = nfs4.lockt_op(speaker.client, b"somebody", 0, 10)
        return speaker.run(place.client, at(place.file, test)).status == nfs4.OK

    def lock_by_other(place):
        owner = nfs4.Owner(place.other, b"other of " + place.owner.name)
        _, stateid = owner.open(place.client, place.directory, b"file")
        place.other.run(place.client, at(place.file, owner.lock_op(stateid, 0, 10))).value(nfs4.LOCK)

    def lock(place):
        _open_file(place)
        results = place.speaker.run(place.client, at(place.file, place.owner.lock_op(place.stateid, 0, 10)))
        place.lock = results.value(nfs4.LOCK)

    yield _on_open_file("LOCK", lambda place: [place.owner.lock_op(place.stateid, 0, 10)], lambda place: not free(place, place.other))
    unlock = _on_open_file("LOCKU", lambda place: [nfs4.locku_op(place.lock, 0, 10, 1)], lambda place: free(place, place.other),
                           meddle=lock_by_other, spoiled=lambda place: free(place, place.speaker))
    yield unlock._replace(prepare=lambda place: (place.write("file"), lock(place)))


def write_request(place, data):
    """Writes `data`, a multiple of four octets, to the beginning of "file" in the requester's version."""
    payload = (len(data), len(data))
    if place.speaker:
        return _asks(lambda _: at(place.handle("file"), nfs4.write_op(nfs4.ANONYMOUS, 0, data)), payload)(place)
    file_sync = 2
    arguments = opaque(place.handle("file")) + hyper(0) + words(len(data), file_sync) + opaque(data)
    message = rpc.call(rpc.WRITE, arguments)
    return message, (len(message) - len(data), len(data))


def _write():
    data = b"written by WRITE"
    return changes("WRITE", lambda place: write_request(place, data), b"", lambda place: place.read("file") == data)


def _extended_attributes():
    def attribute(place):
        return b"user.x" in map(str.encode, os.listxattr(place / "file"))

    def set_one(place):
        os.setxattr(place / "file", "user.x", b"value")

    def on_file(*operations):
        return _asks(lambda place: at(place.handle("file"), *operations))

    yield changes("SETXATTR", on_file(op(nfs4.SETXATTR, words(1), opaque(b"x"), opaque(b"value"))), b"", attribute,
                  meddle=lambda place: os.removexattr(place / "file", "user.x"), spoiled=attribute)
    yield changes("REMOVEXATTR", on_file(op(nfs4.REMOVEXATTR, opaque(b"x"))), b"", lambda place: not attribute(place),
                  prepare=set_one, meddle=set_one, spoiled=lambda place: not attribute(place))


def _space():
    def copies(number):
        return _asks(lambda place: between(place.source, place.file, nfs4.copy_op(nfs4.ANONYMOUS, place.stateid, 9, number)))

    def with_source(place):
        place.write("source", b"copied to")
        place.source = place.handle("source")
        _open_file(place)

    for name, number in (("COPY", nfs4.COPY), ("CLONE", nfs4.CLONE)):
        yield changes(name, copies(number), b"", lambda place: place.read("file") == b"copied to", with_source)
    yield _on_open_file("ALLOCATE", lambda place: [op(nfs4.ALLOCATE, place.stateid, hyper(0), hyper(4096))],
                        lambda place: len(place.read("file")) == 4096, meddle=lambda place: place.write("file"),
                        spoiled=lambda place: place.read("file") != KEPT)
    yield _on_open_file("DEALLOCATE", lambda place: [op(nfs4.DEALLOCATE, place.stateid, hyper(0), hyper(4))],
                        lambda place: place.read("file") == bytes(4), meddle=lambda place: place.write("file"),
                        spoiled=lambda place: place.read("file") != KEPT)
