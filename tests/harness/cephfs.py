"""A native client of CephFS, by libcephfs, for tests that change a file system beside a gateway of it."""

import ctypes
import os

from cases import Skip

SONAME = "libcephfs.so.2"


class NativeClient:
    """A context manager: it mounts the file system with root's rights. Paths are absolute."""

    def __init__(self, cluster, file_system="cephfs"):
        try:
            self.library = ctypes.CDLL(SONAME)
        except OSError:
            raise Skip(f"{SONAME} is not installed (package libcephfs2)") from None
        for name in ("ceph_read", "ceph_write"):
            getattr(self.library, name).argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64]
        self.library.ceph_get_instance_id.restype = ctypes.c_uint64
        self.library.ceph_setxattr.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
        self.conf, self.file_system, self.mount = cluster.conf, file_system, ctypes.c_void_p()

    def __enter__(self):
        self._check("ceph_create", self.library.ceph_create(ctypes.byref(self.mount), None))
        try:
            self._call("ceph_conf_read_file", self.conf.encode())
            self._call("ceph_select_filesystem", self.file_system.encode())
            self._call("ceph_mount", b"/")
        except BaseException:
            self.library.ceph_release(self.mount)
            raise
        return self

    def __exit__(self, *_):
        self.library.ceph_unmount(self.mount)
        self.library.ceph_release(self.mount)

    @property
    def number(self):
        """Returns the client's number in the cluster."""
        return self.library.ceph_get_instance_id(self.mount)

    def makedirs(self, path, mode=0o777):
        """Makes a directory with this mode, and the missing directories above it."""
        self._call("ceph_mkdirs", path.encode(), 0o755)
        self._call("ceph_chmod", path.encode(), mode)

    def mkdir(self, path, mode=0o755):
        """Makes one directory. In a directory .snap this makes a snapshot."""
        self._call("ceph_mkdir", path.encode(), mode)

    def setxattr(self, path, name, value):
        self._call("ceph_setxattr", path.encode(), name.encode(), value, len(value), 0)

    def write(self, path, octets):
        """Makes a file of these octets, or replaces the contents of one. Returns when they are on stable storage."""
        file = self._call("ceph_open", path.encode(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            assert self._call("ceph_write", file, octets, len(octets), 0) == len(octets), path
            self._call("ceph_fsync", file, 0)
        finally:
            self._call("ceph_close", file)

    def read(self, path):
        """Returns the octets of a file of at most 16 MiB."""
        room = ctypes.create_string_buffer(16 << 20)
        file = self._call("ceph_open", path.encode(), os.O_RDONLY, 0)
        try:
            count = self._call("ceph_read", file, room, len(room), 0)
            return room.raw[:count]
        finally:
            self._call("ceph_close", file)

    def _call(self, name, *arguments):
        return self._check(f"{name}{arguments[:2]}", getattr(self.library, name)(self.mount, *arguments))

    @staticmethod
    def _check(what, result):
        if result < 0:
            raise OSError(-result, f"{what}: {os.strerror(-result)}")
        return result
