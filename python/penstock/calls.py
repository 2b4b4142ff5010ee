"""The operations of mounts, in one place for programs that block and for asyncio."""

import contextlib
import os

from penstock._native import ffi, lib
from penstock._operations import DEFAULT, Call, FileHandle, octets, opening, shown
from penstock.attributes import Attributes, Info, Space, take_entries, take_names

LINK_ROOM = 1 << 16


def made(kind):
    """Returns a structure of the library, initialized."""
    value = ffi.new(f"{kind} *")
    getattr(lib, f"penstock_py_initialize_{kind}")(value)
    return value


def timestamp(nanoseconds):
    """Returns a point in time as the members of a penstock_time."""
    return {"seconds": nanoseconds // 10**9, "nanoseconds": nanoseconds % 10**9}


def follow_flags(follow_symlinks):
    return 0 if follow_symlinks else lib.PENSTOCK_NOFOLLOW


def taken(pointer):
    """Takes the object out of the place where an operation has put it. It is owned by the caller alone then."""
    object_ = pointer[0]
    pointer[0] = ffi.NULL
    return object_


def open_call(mount, path, flags, permissions, kind=FileHandle):
    """Opens a file. Its value is a FileHandle, or another handle of a file."""
    name = shown(path)
    return opening(lib.penstock_py_open, mount.native, octets(path), flags, permissions, place=ffi.new("penstock_file **"),
                   made=kind(mount, name), names=(name,))


def fstat_call(file):
    attributes = made("penstock_attributes")
    return Call(lib.penstock_py_fstat, file.native, attributes, names=(file.name,), finish=lambda _: Attributes(attributes))


def pread_call(file, buffer, count, offset):
    """Reads into a cdata of the caller. Its value is the number of octets."""
    return Call(lib.penstock_py_pread, file.native, buffer, count, offset, names=(file.name,))


_allocate = ffi.new_allocator(should_clear_after_alloc=False)


def room_of(count):
    """Returns octets that have no values yet."""
    if count < 0:
        raise ValueError(f"read length must be non-negative, not {count}")
    return _allocate("char[]", max(count, 1))


def pread_bytes_call(file, count, offset):
    """Reads. Its value is bytes."""
    buffer = room_of(count)
    return Call(lib.penstock_py_pread, file.native, buffer, count, offset, names=(file.name,),
                finish=lambda result: ffi.buffer(buffer, result)[:])


def pwrite_call(file, data, offset):
    view = ffi.from_buffer(data)
    return Call(lib.penstock_py_pwrite, file.native, view, len(view), offset, names=(file.name,))


def fsync_call(file):
    return Call(lib.penstock_py_fsync, file.native, names=(file.name,), finish=nothing)


def ftruncate_call(file, length):
    return Call(lib.penstock_py_ftruncate, file.native, length, names=(file.name,), finish=nothing)


def nothing(_):
    """Turns zero, the result of an operation without one, into None."""


class Operations:
    """Operations of a mount, each a single one of the library. Subclasses run them: _run(call, timeout, progress) returns
    the value of a Call, or an awaitable for it. A subclass has `_handle`.

    Paths are str, bytes or os.PathLike, relative to the path of the mount's URL, with or without a "/" at the beginning.
    `timeout` is a number of seconds, or None for no limit; by default it is the mount's."""

    def _run(self, call, timeout, progress=None):
        raise NotImplementedError

    def _on_path(self, function, path, *arguments, **how):
        how.setdefault("finish", nothing)
        return Call(function, self._handle.native, octets(path), *arguments, names=(shown(path),), **how)

    def _on_two(self, function, first, second, *arguments):
        return Call(function, self._handle.native, octets(first), octets(second), *arguments, names=(shown(first), shown(second)),
                    finish=nothing)

    def ping(self, *, timeout=DEFAULT):
        """Asks the server for an answer, without any work."""
        return self._run(Call(lib.penstock_py_ping, self._handle.native, names=(self.url,), finish=nothing), timeout)

    def info(self, *, timeout=DEFAULT):
        """Returns what the mount has agreed on with its server: an Info. Asks the server nothing."""
        info = made("penstock_mount_info")

        def finish(_):
            return Info(ffi.string(info.version).decode(), ffi.string(info.transport).decode(), info.read_size, info.write_size,
                        info.reconnections)
        return self._run(Call(lib.penstock_py_mount_get_info, self._handle.native, info, finish=finish), timeout)

    def stat(self, path, *, follow_symlinks=True, timeout=DEFAULT):
        """Returns the Attributes of a file."""
        attributes = made("penstock_attributes")
        return self._run(self._on_path(lib.penstock_py_stat, path, follow_flags(follow_symlinks), attributes,
                                       finish=lambda _: Attributes(attributes)), timeout)

    def lstat(self, path, *, timeout=DEFAULT):
        """Returns the Attributes of a file, of a symbolic link itself."""
        return self.stat(path, follow_symlinks=False, timeout=timeout)

    def listdir(self, path="", *, timeout=DEFAULT):
        """Returns the names in a directory, without "." and "..", in the server's order."""
        path, listing = os.fspath(path), ffi.new("penstock_listing **")
        return self._run(self._on_path(lib.penstock_py_list, path, listing, finish=lambda _: take_names(taken(listing), path),
                                       release=lambda: lib.penstock_listing_free(taken(listing))), timeout)

    def _entries(self, path, mount, timeout):
        path, listing = os.fspath(path), ffi.new("penstock_listing **")
        return self._run(self._on_path(lib.penstock_py_list, path, listing,
                                       finish=lambda _: take_entries(taken(listing), mount, path),
                                       release=lambda: lib.penstock_listing_free(taken(listing))), timeout)

    def mkdir(self, path, mode=0o755, *, timeout=DEFAULT):
        """Makes a directory. The process's umask does not count."""
        return self._run(self._on_path(lib.penstock_py_mkdir, path, mode & 0o7777), timeout)

    def rmdir(self, path, *, timeout=DEFAULT):
        """Removes an empty directory."""
        return self._run(self._on_path(lib.penstock_py_rmdir, path), timeout)

    def unlink(self, path, *, timeout=DEFAULT):
        """Removes a name of anything but a directory."""
        return self._run(self._on_path(lib.penstock_py_unlink, path), timeout)

    def rename(self, source, target, *, timeout=DEFAULT):
        """Gives a file another name, in place of a file that has it, as rename() of POSIX does."""
        return self._run(self._on_two(lib.penstock_py_rename, source, target), timeout)

    def link(self, source, name, *, timeout=DEFAULT):
        """Gives a file one more name. Does not follow a symbolic link."""
        return self._run(self._on_two(lib.penstock_py_link, source, name), timeout)

    def symlink(self, target, path, *, timeout=DEFAULT):
        """Makes a symbolic link `path` with the text `target`."""
        return self._run(self._on_two(lib.penstock_py_symlink, target, path), timeout)

    def readlink(self, path, *, timeout=DEFAULT):
        """Returns the text of a symbolic link."""
        path, room = os.fspath(path), ffi.new("char[]", LINK_ROOM)

        def finish(length):
            target = ffi.buffer(room, length)[:]
            return target if isinstance(path, bytes) else target.decode("utf-8", "surrogateescape")
        return self._run(self._on_path(lib.penstock_py_readlink, path, room, LINK_ROOM, finish=finish), timeout)

    def _set(self, path, follow_symlinks, timeout, what, values):
        new = made("penstock_new_attributes")
        new.set = what
        for name, value in values.items():
            setattr(new, name, value)
        return self._run(self._on_path(lib.penstock_py_set_attributes, path, follow_flags(follow_symlinks), new), timeout)

    def chmod(self, path, mode, *, follow_symlinks=True, timeout=DEFAULT):
        """Sets the twelve mode bits."""
        return self._set(path, follow_symlinks, timeout, lib.PENSTOCK_SET_MODE, {"mode": mode & 0o7777})

    def chown(self, path, uid=-1, gid=-1, *, follow_symlinks=True, timeout=DEFAULT):
        """Sets the owner and the group. -1 leaves one as it is."""
        what, values = 0, {}
        for name, value, bit in (("uid", uid, lib.PENSTOCK_SET_UID), ("gid", gid, lib.PENSTOCK_SET_GID)):
            if value != -1:
                what, values[name] = what | bit, value
        return self._set(path, follow_symlinks, timeout, what, values)

    def truncate(self, path, length, *, timeout=DEFAULT):
        """Sets the size of a regular file: cuts it, or extends it by zeros."""
        return self._set(path, True, timeout, lib.PENSTOCK_SET_LENGTH, {"length": length})

    def utime(self, path, times=None, *, ns=None, follow_symlinks=True, timeout=DEFAULT):
        """Sets the times of the last access and modification: `times` in seconds, or `ns` in nanoseconds, or the server's
        time."""
        if times is not None and ns is not None:
            raise ValueError("utime: you may specify either 'times' or 'ns' but not both")
        if times is not None:
            ns = [int(seconds) * 10**9 + round(seconds % 1 * 10**9) if seconds >= 0 else round(seconds * 10**9) for seconds in times]
        if ns is None:
            return self._set(path, follow_symlinks, timeout, lib.PENSTOCK_SET_ACCESSED_NOW | lib.PENSTOCK_SET_MODIFIED_NOW, {})
        accessed, modified = map(timestamp, ns)
        return self._set(path, follow_symlinks, timeout, lib.PENSTOCK_SET_ACCESSED | lib.PENSTOCK_SET_MODIFIED,
                         {"accessed": accessed, "modified": modified})

    def statvfs(self, path="", *, timeout=DEFAULT):
        """Returns the Space of the file system that holds a file."""
        space = made("penstock_space")

        def finish(_):
            return Space(space.total_octets, space.free_octets, space.available_octets, space.total_files, space.free_files,
                         space.available_files)
        return self._run(self._on_path(lib.penstock_py_statfs, path, space, finish=finish), timeout)

    def read_bytes(self, path, *, timeout=DEFAULT):
        """Returns the contents of a file."""
        data, size = ffi.new("void **"), ffi.new("size_t *")

        def finish(_):
            try:
                return ffi.buffer(data[0], size[0])[:]
            finally:
                lib.penstock_free(taken(data))
        return self._run(self._on_path(lib.penstock_py_read_file, path, data, size, finish=finish,
                                       release=lambda: lib.penstock_free(taken(data))), timeout)

    def write_bytes(self, path, data, *, mode=0o644, timeout=DEFAULT):
        """Makes a file with these contents, or replaces the contents of one. They are on stable storage then. `mode` is for a
        new file."""
        view = ffi.from_buffer(data)
        return self._run(self._on_path(lib.penstock_py_write_file, path, view, len(view), mode & 0o7777), timeout)

    def _download(self, path, descriptor, timeout, progress):
        return self._run(self._on_path(lib.penstock_py_download, path, descriptor, finish=None, tells_progress=True), timeout, progress)

    def _upload(self, descriptor, path, mode, timeout, progress):
        call = Call(lib.penstock_py_upload, self._handle.native, descriptor, octets(path), mode & 0o7777, names=(shown(path),),
                    tells_progress=True)
        return self._run(call, timeout, progress)


@contextlib.contextmanager
def local_target(local):
    """The descriptor of a local file that is downloaded: of a path, a descriptor, or an object with fileno(). A file that
    is made for it is removed if that fails."""
    if isinstance(local, int):
        yield local
    elif hasattr(local, "fileno"):
        local.flush()
        yield local.fileno()
    else:
        is_new = not os.path.lexists(local)
        descriptor = os.open(local, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            yield descriptor
        except BaseException:
            if is_new:
                with contextlib.suppress(OSError):
                    os.unlink(local)
            raise
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def local_source(local):
    """The descriptor of a local file that is uploaded."""
    if isinstance(local, int):
        yield local
    elif hasattr(local, "fileno"):
        yield local.fileno()
    else:
        descriptor = os.open(local, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def mount_options(krb5_keytab, krb5_principal, tls_ca, tls_cert, tls_key, delegations):
    """Returns a penstock_mount_options, and the texts that it points to."""
    options, kept = made("penstock_mount_options"), []
    for name, value in (("krb5_keytab", krb5_keytab), ("krb5_principal", krb5_principal), ("tls_ca", tls_ca), ("tls_cert", tls_cert),
                        ("tls_key", tls_key)):
        if value is not None:
            kept.append(ffi.new("char[]", octets(value)))
            setattr(options, name, kept[-1])
    if delegations is not None:
        options.delegations = delegations
    return options, kept


def mode_flags(mode):
    """Returns (flags of open(), whether it reads, writes, appends) for the mode of open(), without "b" and "t"."""
    kind, updating = mode.replace("+", ""), "+" in mode
    flags = {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "x": os.O_CREAT | os.O_EXCL, "a": os.O_CREAT}[kind]
    flags |= os.O_RDWR if updating else os.O_RDONLY if kind == "r" else os.O_WRONLY
    return flags | os.O_CLOEXEC, kind == "r" or updating, kind != "r" or updating, kind == "a"


def check_mode(mode):
    """Returns the mode of open() without "b" and "t", and whether it is binary. Raises ValueError as open() does."""
    letters = set(mode)
    if letters - set("rwxabt+") or len(mode) > len(letters):
        raise ValueError(f"invalid mode: {mode!r}")
    if "t" in letters and "b" in letters:
        raise ValueError("can't have text and binary mode at once")
    if len(letters & set("rwxa")) != 1:
        raise ValueError("must have exactly one of create/read/write/append mode")
    return "".join(letter for letter in mode if letter not in "bt"), "b" in letters
