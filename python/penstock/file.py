"""Open files: io.RawIOBase over an open file of the library."""

import io
import os
import warnings

from penstock._native import ffi, lib
from penstock._operations import DEFAULT, Call, check_open, octets, run
from penstock.attributes import Lock
from penstock.calls import fstat_call, fsync_call, ftruncate_call, made, mode_flags, nothing, pread_bytes_call, pread_call, pwrite_call


class File(io.RawIOBase):
    """An open regular file, without a buffer. Mount.open() makes it. The methods with an offset (pread(), preadinto(),
    pwrite()) may be used by several threads at once; the others share a position, as always.

    `timeout` is the limit of each operation in seconds, or None."""

    def __init__(self, mount, handle, mode, timeout):
        super().__init__()
        self._handle, self._position = handle, 0
        self.mount, self.name, self.mode, self.timeout = mount, handle.name, mode + "b", timeout
        _, self._reads, self._writes, self._appends = mode_flags(mode)

    def _run(self, call, timeout=DEFAULT):
        check_open(self._handle)
        return run(call, self.timeout if timeout is DEFAULT else timeout)

    def _check(self, allowed, what):
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if not allowed:
            raise io.UnsupportedOperation(f"File not open for {what}")

    # ---- io.RawIOBase ----

    def readable(self):
        self._check(True, "")
        return self._reads

    def writable(self):
        self._check(True, "")
        return self._writes

    def seekable(self):
        self._check(True, "")
        return True

    def readinto(self, buffer):
        self._check(self._reads, "reading")
        count = self.preadinto(buffer, self._position)
        self._position += count
        return count

    def readall(self):
        self._check(self._reads, "reading")
        parts = []
        while True:
            left = max(self.stat().st_size - self._position, 0)
            part = self.pread(left + 1, self._position)  # one more: the end of the file ends the loop
            self._position += len(part)
            parts.append(part)
            if len(part) <= left:
                return b"".join(parts)

    def write(self, data):
        self._check(self._writes, "writing")
        position = self.stat().st_size if self._appends else self._position
        written = self.pwrite(data, position)
        self._position = position + written
        return written

    def seek(self, offset, whence=os.SEEK_SET):
        self._check(True, "")
        start = {os.SEEK_SET: lambda: 0, os.SEEK_CUR: lambda: self._position, os.SEEK_END: lambda: self.stat().st_size}
        if whence not in start:
            raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
        position = start[whence]() + offset
        if position < 0:
            raise OSError(22, "Invalid argument", self.name)
        self._position = position
        return position

    def tell(self):
        self._check(True, "")
        return self._position

    def truncate(self, size=None):
        self._check(self._writes, "writing")
        size = self._position if size is None else size
        if size < 0:
            raise OSError(22, "Invalid argument", self.name)
        self._run(ftruncate_call(self._handle, size))
        return size

    def close(self):
        """Makes what was written stable, and closes the file. The file is closed also if that fails, unless another thread
        uses it."""
        if self.closed:
            return
        if self._handle.is_open:
            try:
                self._handle.close(self.timeout)
            finally:
                if not self._handle.is_open:
                    super().close()
        else:
            super().close()

    def __del__(self):
        if hasattr(self, "_handle") and self._handle.is_open:
            warnings.warn(f"unclosed file {self!r}", ResourceWarning, stacklevel=2)
        super().__del__()

    def __reduce__(self):
        raise TypeError("cannot pickle a file: it is open on a server")

    def __repr__(self):
        return f"<penstock.File name={self.name!r} mode={self.mode!r}{' closed' if self.closed else ''}>"

    # ---- more than io.RawIOBase ----

    def pread(self, count, offset, *, timeout=DEFAULT):
        """Reads at an offset. Returns fewer octets than `count` only at the end of the file."""
        self._check(self._reads, "reading")
        return self._run(pread_bytes_call(self._handle, count, offset), timeout)

    def preadinto(self, buffer, offset, *, timeout=DEFAULT):
        """Reads at an offset into a writable buffer, without a copy. Returns the number of octets."""
        self._check(self._reads, "reading")
        view = ffi.from_buffer(buffer, require_writable=True)
        return self._run(pread_call(self._handle, view, len(view), offset), timeout)

    def pwrite(self, data, offset, *, timeout=DEFAULT):
        """Writes all octets at an offset. Returns their number."""
        self._check(self._writes, "writing")
        return self._run(pwrite_call(self._handle, data, offset), timeout)

    def fsync(self, *, timeout=DEFAULT):
        """Waits until everything that was written is on the server's stable storage. OSError with errno EIO: the server
        has lost data in a restart; write them again."""
        self._check(True, "")
        self._run(fsync_call(self._handle), timeout)

    def stat(self, *, timeout=DEFAULT):
        """Returns the Attributes."""
        self._check(True, "")
        return self._run(fstat_call(self._handle), timeout)

    def lock(self, offset=0, length=0, *, exclusive=True, owner="", wait=0, timeout=DEFAULT):
        """Locks a range of the file. A length of zero means: to the end of the file. `owner` names who has the lock within
        this open file. `wait` is the number of seconds to wait for other owners; None: without a limit. Raises
        BlockingIOError if others have the range locked."""
        self._lock(lib.penstock_py_lock, lock_request(offset, length, exclusive, owner, wait), timeout)

    def unlock(self, offset=0, length=0, *, owner="", timeout=DEFAULT):
        """Releases the locks of an owner in a range."""
        self._lock(lib.penstock_py_unlock, lock_request(offset, length, True, owner, 0), timeout)

    def _lock(self, function, request, timeout):
        self._check(True, "")
        request, kept = request
        self._run(Call(function, self._handle.native, request, names=(self.name,), finish=lambda _, kept=kept: None), timeout)

    def test_lock(self, offset=0, length=0, *, exclusive=True, owner="", timeout=DEFAULT):
        """Returns a Lock of another owner that would conflict, or None."""
        self._check(True, "")
        request, kept = lock_request(offset, length, exclusive, owner, 0)
        conflict = made("penstock_lock_request")

        def finish(result, kept=kept):
            return Lock(conflict.offset, conflict.length, bool(conflict.exclusive)) if result == 1 else None
        call = Call(lib.penstock_py_test_lock, self._handle.native, request, conflict, names=(self.name,), finish=finish)
        return self._run(call, timeout)


def lock_request(offset, length, exclusive, owner, wait):
    """Returns a penstock_lock_request, and the text that it points to."""
    request, kept = made("penstock_lock_request"), ffi.new("char[]", octets(owner))
    request.offset, request.length, request.exclusive, request.owner = offset, length, bool(exclusive), kept
    request.wait_ms = -1 if wait is None else int(wait * 1000)
    return request, kept
