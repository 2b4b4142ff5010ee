"""What a server tells about files and file systems."""

import os
import stat
from typing import NamedTuple

from penstock._native import ffi, lib
from penstock._operations import shown, text

NO_ID = lib.PENSTOCK_NO_ID

# The type of a file as the upper bits of st_mode.
_FORMATS = {
    lib.PENSTOCK_REGULAR: stat.S_IFREG,
    lib.PENSTOCK_DIRECTORY: stat.S_IFDIR,
    lib.PENSTOCK_BLOCK_DEVICE: stat.S_IFBLK,
    lib.PENSTOCK_CHARACTER_DEVICE: stat.S_IFCHR,
    lib.PENSTOCK_SYMLINK: stat.S_IFLNK,
    lib.PENSTOCK_SOCKET: stat.S_IFSOCK,
    lib.PENSTOCK_FIFO: stat.S_IFIFO,
}


def seconds(nanoseconds):
    """Returns a time as a float, rounded as os.stat() does."""
    whole, rest = divmod(nanoseconds, 10**9)
    return whole + 1e-9 * rest


class Attributes:
    """The attributes of a file, with the names of os.stat_result, and what only NFS has: `change`, another value after
    every change of the file or its attributes; `owner` and `group` as the server names them. st_uid and st_gid are
    NO_ID if a name is not a number."""

    __slots__ = ("st_mode", "st_ino", "st_dev", "st_nlink", "st_uid", "st_gid", "st_size", "st_rdev", "st_blocks", "st_atime_ns",
                 "st_mtime_ns", "st_ctime_ns", "change", "owner", "group")
    st_blksize = 1 << 20

    def __init__(self, native):
        """Copies a penstock_attributes."""
        self.st_mode = _FORMATS.get(native.type, 0) | native.mode
        self.st_ino, self.st_dev, self.st_nlink = native.file_id, native.file_system, native.links
        self.st_uid, self.st_gid, self.st_size = native.uid, native.gid, native.length
        self.st_rdev = os.makedev(native.device_major, native.device_minor)
        self.st_blocks = (native.used + 511) // 512
        self.st_atime_ns, self.st_mtime_ns, self.st_ctime_ns = (
            time.seconds * 10**9 + time.nanoseconds for time in (native.accessed, native.modified, native.changed))
        self.change, self.owner, self.group = native.change, text(native.owner), text(native.group)

    @property
    def st_atime(self):
        return seconds(self.st_atime_ns)

    @property
    def st_mtime(self):
        return seconds(self.st_mtime_ns)

    @property
    def st_ctime(self):
        return seconds(self.st_ctime_ns)

    def is_dir(self):
        return stat.S_ISDIR(self.st_mode)

    def is_file(self):
        return stat.S_ISREG(self.st_mode)

    def is_symlink(self):
        return stat.S_ISLNK(self.st_mode)

    def __eq__(self, other):
        if not isinstance(other, Attributes):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None

    def __repr__(self):
        return f"Attributes({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


class Space(NamedTuple):
    """The space of a file system: octets and files."""

    total: int
    free: int
    available: int
    total_files: int
    free_files: int
    available_files: int


class Info(NamedTuple):
    """What a mount has agreed on with its server."""

    version: str
    transport: str
    read_size: int
    write_size: int
    reconnections: int


class Lock(NamedTuple):
    """A range of a file that another owner has locked. A length of zero means: to the end of the file."""

    offset: int
    length: int
    exclusive: bool


class Entry:
    """An entry of a directory, like os.DirEntry: what the server told with the directory needs no question."""

    __slots__ = ("name", "path", "_mount", "_attributes")

    def __init__(self, mount, directory, name, attributes):
        """`attributes` are those of a symbolic link itself, or None if the server did not tell them."""
        self.name, self._mount, self._attributes = name, mount, attributes
        self.path = joined(directory, name)

    def stat(self, *, follow_symlinks=True):
        """Returns the attributes. Asks the server about a symbolic link that it is to follow."""
        if self._attributes is None:
            self._attributes = self._mount.lstat(self.path)
        if follow_symlinks and self._attributes.is_symlink():
            return self._mount.stat(self.path)
        return self._attributes

    def _is(self, kind, follow_symlinks):
        try:
            return kind(self.stat(follow_symlinks=follow_symlinks))
        except FileNotFoundError:  # a link that leads to nothing
            return False

    def is_dir(self, *, follow_symlinks=True):
        return self._is(Attributes.is_dir, follow_symlinks)

    def is_file(self, *, follow_symlinks=True):
        return self._is(Attributes.is_file, follow_symlinks)

    def is_symlink(self):
        return self._is(Attributes.is_symlink, False)

    def inode(self):
        return self.stat(follow_symlinks=False).st_ino

    def __fspath__(self):
        return self.path

    def __repr__(self):
        return f"<Entry {shown(self.name)!r}>"


def joined(directory, name):
    """Returns the path of a name in a directory. Both are str, or both are bytes."""
    separator = b"/" if isinstance(directory, bytes) else "/"
    return directory + name if not directory or directory.endswith(separator) else directory + separator + name


def take_entries(listing, mount, directory):
    """Returns the entries of a listing, and frees it. The names are bytes if `directory` is."""
    entry = ffi.new("penstock_entry *")
    lib.penstock_py_initialize_penstock_entry(entry)
    found = []
    try:
        while lib.penstock_listing_next(listing, entry) == 1:
            name = ffi.string(entry.name)
            if not isinstance(directory, bytes):
                name = name.decode("utf-8", "surrogateescape")
            attributes = entry.attributes
            found.append(Entry(mount, directory, name, Attributes(attributes) if attributes != ffi.NULL else None))
    finally:
        lib.penstock_listing_free(listing)
    return found


def take_names(listing, directory):
    """Returns the names of a listing, and frees it."""
    entry = ffi.new("penstock_entry *")
    lib.penstock_py_initialize_penstock_entry(entry)
    found = []
    try:
        while lib.penstock_listing_next(listing, entry) == 1:
            found.append(ffi.string(entry.name))
    finally:
        lib.penstock_listing_free(listing)
    return found if isinstance(directory, bytes) else [name.decode("utf-8", "surrogateescape") for name in found]
