"""Files on NFS servers for asyncio. No threads: the event loop waits for the library's descriptor.

    import asyncio
    import penstock.aio

    async def main():
        async with penstock.aio.connect("nfs://server/data") as mount:
            print(await mount.read_bytes("notes.txt"))
            texts = await asyncio.gather(*(mount.read_bytes(name) for name in await mount.listdir()))

    asyncio.run(main())

A mount and its files belong to the loop that has made them. A task that is cancelled cancels its operation.
"""

import asyncio
import collections
import contextlib
import errno
import os
import posixpath
import threading
import time
import weakref

from penstock._native import ffi, lib
from penstock._operations import (DEFAULT, Call, FileHandle, MountHandle, check_open, failure, milliseconds, new_operation,
                                  tell_progress, text)
from penstock.calls import (Operations, check_mode, fstat_call, fsync_call, ftruncate_call, local_source, local_target, mode_flags,
                            open_call, pread_bytes_call, pread_call, pwrite_call)
from penstock.mount import open_mount_call
from penstock.runtime import make_handle

_runtimes = weakref.WeakKeyDictionary()  # of running loops: weak references, since a runtime refers to its loop


class Runtime:
    """A runtime of the library that an event loop drives. connect() makes one for each loop that needs it, which ends with
    its last mount."""

    def __init__(self, log=None, *, blocking_threads=0, rdma=None, rdma_device=None):
        """The parameters are those of penstock.Runtime. Only where an event loop runs."""
        self._loop = asyncio.get_running_loop()
        self._handle = make_handle(0, log or None, blocking_threads, rdma, rdma_device)
        self._queue = ffi.new("penstock_py_queue *")
        self._waiting = {}  # operations that have not ended: (operation, call, future)
        self._progress = {}  # functions of some of them
        self._spare, self._next_id, self._is_shared = [], 1, False
        self._late, self._busy, self._closer, self._driving = collections.deque(), [], None, threading.Lock()
        self._descriptor = lib.penstock_py_runtime_fd(self._handle.native)
        if self._descriptor < 0:
            raise failure(self._descriptor, "")
        self._loop.add_reader(self._descriptor, self.dispatch)

    def dispatch(self, timeout_ms=0):
        """Does what is to be done now. The loop calls it."""
        result = lib.penstock_py_runtime_dispatch(self._handle.native, timeout_ms)
        if result < 0:
            raise failure(result, "")
        for number in list(self._progress):
            self._tell_progress(number)
        while True:
            operation = lib.penstock_py_queue_take(self._queue)
            if operation == ffi.NULL:
                break
            _, _, future = self._waiting.pop(operation.id)
            self._progress.pop(operation.id, None)
            if not future.done():
                future.set_result(None)
        if self._handle.log is not None:
            self._handle.log.hand_on()

    def _tell_progress(self, number):
        operation, _, future = self._waiting[number]
        if not future.done():
            try:
                tell_progress(operation, self._progress[number])
            except Exception as why:
                future.set_exception(why)

    def _start(self, call, limit, future, operation):
        """Starts an operation. It is in self._waiting until it has ended, together with the memory that it uses."""
        operation.id = self._next_id
        self._next_id += 1
        self._waiting[operation.id] = operation, call, future
        try:
            ended = call.start(limit, operation) == lib.PENSTOCK_PY_ENDED
        except BaseException:
            del self._waiting[operation.id]
            raise
        if ended:  # it could not be started
            del self._waiting[operation.id]
            future.set_result(None)

    async def run(self, call, timeout=None, progress=None):
        """Runs an operation to its end and returns its value, or raises its error."""
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("the mount belongs to another event loop")
        future = self._loop.create_future()
        operation = self._spare.pop() if self._spare else new_operation(self._queue)
        self._start(call, milliseconds(timeout), future, operation)
        if progress is not None and operation.id in self._waiting:
            self._progress[operation.id] = progress
        try:
            await future
        except BaseException:
            self._end(operation)
            call.abandon(operation.result)
            raise
        result = operation.result
        why = text(operation.error) if result < 0 else ""
        if len(self._spare) < 64:
            self._spare.append(operation)
        return call.value(result, why)

    def _end(self, operation):
        """Cancels an operation. It ends in a dispatch, here, so that nothing uses its memory any more."""
        if operation.id in self._waiting:
            lib.penstock_py_cancel(operation)
        while operation.id in self._waiting:
            self.dispatch(-1)

    def close(self):
        """Ends the runtime. Raises OSError with errno EBUSY if a mount is open."""
        if not self._handle.is_open:
            return
        # Without this the loop would wait for a descriptor that may be another one's by then.
        self._loop.remove_reader(self._descriptor)
        try:
            self._handle.close()
        except OSError:
            self._loop.add_reader(self._descriptor, self.dispatch)
            raise

    def release(self):
        """Ends the runtime if nobody has made it and no mount needs it."""
        if self._is_shared and not self._waiting:
            with contextlib.suppress(OSError):
                self.close()

    def close_late(self, call):
        """Closes an object that the garbage collector has found, on any thread, with the last mount the runtime as well."""
        self._late.append(call)
        try:
            self._loop.call_soon_threadsafe(self._close_found)
        except RuntimeError:  # the loop is closed, so that no other thread uses the runtime
            with self._driving:
                for call in self._taken_late():
                    self._drive(call, 10)
            if self._handle.forgotten:
                self._handle.forget()

    def _taken_late(self):
        """Yields the objects to close, and again those that were busy, because another one belonged to them."""
        while self._late:
            for _ in range(len(self._late)):
                call = self._late.popleft()
                yield call
                if lib.penstock_py_handle_is_open(call.handle):
                    self._busy.append(call)
                else:
                    self._late.extend(self._busy)
                    self._busy.clear()

    def _close_found(self):
        if self._closer is None or self._closer.done():
            self._closer = self._loop.create_task(self._close_one_by_one())

    async def _close_one_by_one(self):
        for call in self._taken_late():
            with contextlib.suppress(OSError):
                await self.run(call, 10)
        self.release()

    def _drive(self, call, seconds):
        """Runs an operation without the loop. Nobody is told of a failure."""
        future, end = _Nobody(), time.monotonic() + seconds + 1
        operation = new_operation(self._queue)  # the collector may have freed the spare ones already
        self._start(call, milliseconds(seconds), future, operation)
        while operation.id in self._waiting and time.monotonic() < end:
            self.dispatch(100)


class _Nobody:
    """In place of the future of an operation for which no task waits."""

    def done(self):
        return True

    def set_result(self, _):
        pass


def shared_runtime():
    """Returns the runtime of the loop that runs."""
    loop = asyncio.get_running_loop()
    reference = _runtimes.get(loop)
    runtime = reference() if reference is not None else None
    if runtime is None or not runtime._handle.is_open:  # closed, or of the parent process
        runtime = Runtime()
        runtime._is_shared = True
        _runtimes[loop] = weakref.ref(runtime)
    return runtime


class AsyncMountHandle(MountHandle):
    """A mount that its loop closes, if the garbage collector finds it. It keeps the Runtime of this module."""

    __slots__ = ()

    def forget(self):
        self.owner.close_late(Call(lib.penstock_py_mount_close, self.native))


class AsyncFileHandle(FileHandle):
    """A file that its loop closes, if the garbage collector finds it."""

    __slots__ = ()

    def forget(self):
        self.owner.owner.close_late(Call(lib.penstock_py_close, self.native))


class _Connection:
    """What connect() returns: await it for a mount, or use it in `async with`, which closes the mount."""

    def __init__(self, make):
        self._make, self._mount = make, None

    def __await__(self):
        return self._make().__await__()

    async def __aenter__(self):
        self._mount = await self._make()
        return self._mount

    async def __aexit__(self, *_):
        await self._mount.close()


def connect(url, *, runtime=None, timeout=None, krb5_keytab=None, krb5_principal=None, tls_ca=None, tls_cert=None, tls_key=None,
            delegations=None):
    """Connects to a server and makes an AsyncMount: `await connect(...)`, or `async with connect(...) as mount`.

    The parameters are those of penstock.connect(), but `runtime` is a Runtime of this module; otherwise one that all mounts
    of the loop share."""
    options = {"krb5_keytab": krb5_keytab, "krb5_principal": krb5_principal, "tls_ca": tls_ca, "tls_cert": tls_cert,
               "tls_key": tls_key, "delegations": delegations}

    async def make():
        used = runtime or shared_runtime()
        check_open(used._handle)
        try:
            handle = await used.run(open_mount_call(used._handle, url, options, AsyncMountHandle, used), timeout)
        except BaseException:
            used.release()
            raise
        return AsyncMount(used, handle, url, timeout)
    return _Connection(make)


class AsyncEntry:
    """An entry of a directory: its name, its path and its attributes, those of a symbolic link itself."""

    __slots__ = ("name", "path", "attributes")

    def __init__(self, name, path, attributes):
        self.name, self.path, self.attributes = name, path, attributes

    def is_dir(self):
        return self.attributes.is_dir()

    def is_file(self):
        return self.attributes.is_file()

    def is_symlink(self):
        return self.attributes.is_symlink()

    def __fspath__(self):
        return self.path

    def __repr__(self):
        return f"<AsyncEntry {self.name!r}>"


class AsyncMount(Operations):
    """A tree of files on a server, for asyncio. connect() makes it. The methods of Operations return awaitables."""

    def __init__(self, runtime, handle, url, timeout):
        self.runtime, self.url, self.timeout = runtime, url, timeout
        self._handle, self._files = handle, weakref.WeakSet()

    async def _run(self, call, timeout=DEFAULT, progress=None):
        check_open(self._handle)
        return await self.runtime.run(call, self.timeout if timeout is DEFAULT else timeout, progress)

    @property
    def closed(self):
        return not self._handle.is_open

    async def close(self, *, timeout=DEFAULT):
        """Closes the files that are open, then gives back what the server keeps for the mount, and ends its connections. A
        task that is cancelled meanwhile leaves that to the loop."""
        if not self.closed:
            await asyncio.shield(self._close(self.timeout if timeout is DEFAULT else timeout))

    async def _close(self, timeout):
        failed = None
        for file in list(self._files):
            try:
                await file.close(timeout=timeout)
            except OSError as why:
                failed = failed or why
        try:
            await self.runtime.run(Call(lib.penstock_py_mount_close, self._handle.native, names=(self.url,)), timeout)
        finally:
            self.runtime.release()
        if failed is not None:
            raise failed

    async def __aenter__(self):
        check_open(self._handle)
        return self

    async def __aexit__(self, *_):
        await self.close()

    def __reduce__(self):
        raise TypeError("cannot pickle a mount: connect again by its URL")

    def __repr__(self):
        return f"<penstock.aio.AsyncMount {self.url}{' closed' if self.closed else ''}>"

    async def exists(self, path, *, follow_symlinks=True, timeout=DEFAULT):
        """Tells whether the path leads to a file."""
        try:
            await self.stat(path, follow_symlinks=follow_symlinks, timeout=timeout)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    async def is_dir(self, path, *, timeout=DEFAULT):
        try:
            return (await self.stat(path, timeout=timeout)).is_dir()
        except (FileNotFoundError, NotADirectoryError):
            return False

    async def is_file(self, path, *, timeout=DEFAULT):
        try:
            return (await self.stat(path, timeout=timeout)).is_file()
        except (FileNotFoundError, NotADirectoryError):
            return False

    async def scandir(self, path="", *, timeout=DEFAULT):
        """Returns a list of AsyncEntry."""
        found = []
        for entry in await self._entries(path, None, timeout):
            attributes = entry._attributes or await self.lstat(entry.path, timeout=timeout)
            found.append(AsyncEntry(entry.name, entry.path, attributes))
        return found

    async def walk(self, top="", *, timeout=DEFAULT):
        """Yields (path, names of directories, names of other files) of a directory and those below it, from the top down,
        without following symbolic links. The caller may remove names of directories that are not to be visited."""
        top = os.fspath(top)
        entries = await self.scandir(top, timeout=timeout)
        folders = [entry.name for entry in entries if entry.is_dir()]
        yield top, folders, [entry.name for entry in entries if not entry.is_dir()]
        for name in folders:
            async for step in self.walk(posixpath.join(top, name), timeout=timeout):
                yield step

    async def makedirs(self, path, mode=0o755, *, exist_ok=False, timeout=DEFAULT):
        """Makes a directory and those that lead to it."""
        path = os.fspath(path)
        if exist_ok and await self.is_dir(path, timeout=timeout):
            return
        try:
            await self.mkdir(path, mode, timeout=timeout)
        except FileNotFoundError:
            parent = posixpath.dirname(path.rstrip(b"/" if isinstance(path, bytes) else "/"))
            if not parent or parent == path:
                raise
            await self.makedirs(parent, exist_ok=True, timeout=timeout)
            await self.makedirs(path, mode, exist_ok=exist_ok, timeout=timeout)
        except FileExistsError:  # another client may have made it meanwhile
            if not exist_ok or not await self.is_dir(path, timeout=timeout):
                raise

    async def rmtree(self, path, *, timeout=DEFAULT):
        """Removes a directory and everything in it. Does not follow symbolic links."""
        for entry in await self.scandir(path, timeout=timeout):
            if entry.is_dir():
                await self.rmtree(entry.path, timeout=timeout)
            else:
                await self.unlink(entry.path, timeout=timeout)
        await self.rmdir(path, timeout=timeout)

    async def open(self, path, mode="r", *, permissions=0o644, sync=False, timeout=DEFAULT):
        """Opens a file, for octets, without a buffer, and returns an AsyncFile. `mode` is that of open() of Python."""
        mode, _ = check_mode(mode)
        flags, _, _, appends = mode_flags(mode)
        timeout = self.timeout if timeout is DEFAULT else timeout
        call = open_call(self._handle, path, flags | (os.O_SYNC if sync else 0), permissions & 0o7777, AsyncFileHandle)
        file = AsyncFile(self, await self._run(call, timeout), mode, timeout)
        self._files.add(file)
        if appends:
            try:
                await file.seek(0, os.SEEK_END)
            except BaseException:
                await file.close()
                raise
        return file

    async def read(self, path, count=-1, offset=0, *, timeout=DEFAULT):
        """Returns a part of a file: `count` octets, or all if that is negative, from `offset` on."""
        if count < 0 and offset == 0:
            return await self.read_bytes(path, timeout=timeout)
        async with await self.open(path, timeout=timeout) as file:
            await file.seek(offset)
            return await file.read(count)

    async def download(self, path, local, *, progress=None, timeout=DEFAULT):
        """Copies a file of the server into a local one, as penstock.Mount.download()."""
        with local_target(local) as descriptor:
            return await self._download(path, descriptor, timeout, progress)

    async def upload(self, local, path, *, mode=0o644, progress=None, timeout=DEFAULT):
        """Copies a local regular file to the server, as penstock.Mount.upload()."""
        with local_source(local) as descriptor:
            return await self._upload(descriptor, path, mode, timeout, progress)


class AsyncFile:
    """An open regular file. AsyncMount.open() makes it. Operations with an offset may run at the same time."""

    def __init__(self, mount, handle, mode, timeout):
        self.mount, self.name, self.mode, self.timeout = mount, handle.name, mode + "b", timeout
        self._handle, self._position = handle, 0
        _, self._reads, self._writes, self._appends = mode_flags(mode)

    async def _run(self, call, timeout):
        check_open(self._handle)
        return await self.mount.runtime.run(call, self.timeout if timeout is DEFAULT else timeout)

    @property
    def closed(self):
        return not self._handle.is_open

    async def pread(self, count, offset, *, timeout=DEFAULT):
        """Reads at an offset. Returns fewer octets than `count` only at the end of the file."""
        return await self._run(pread_bytes_call(self._handle, count, offset), timeout)

    async def preadinto(self, buffer, offset, *, timeout=DEFAULT):
        """Reads at an offset into a writable buffer, without a copy. Returns the number of octets."""
        view = ffi.from_buffer(buffer, require_writable=True)
        return await self._run(pread_call(self._handle, view, len(view), offset), timeout)

    async def pwrite(self, data, offset, *, timeout=DEFAULT):
        """Writes all octets at an offset. Returns their number."""
        return await self._run(pwrite_call(self._handle, data, offset), timeout)

    async def read(self, count=-1, *, timeout=DEFAULT):
        """Reads `count` octets, or all if that is negative, from the position on."""
        if count >= 0:
            data = await self.pread(count, self._position, timeout=timeout)
            self._position += len(data)
            return data
        parts = []
        while True:
            left = max((await self.stat(timeout=timeout)).st_size - self._position, 0)
            part = await self.pread(left + 1, self._position, timeout=timeout)
            self._position += len(part)
            parts.append(part)
            if len(part) <= left:
                return b"".join(parts)

    async def write(self, data, *, timeout=DEFAULT):
        """Writes all octets at the position, or at the end of a file that is open for appending."""
        position = (await self.stat(timeout=timeout)).st_size if self._appends else self._position
        written = await self.pwrite(data, position, timeout=timeout)
        self._position = position + written
        return written

    async def seek(self, offset, whence=os.SEEK_SET, *, timeout=DEFAULT):
        """Moves the position."""
        start = 0 if whence == os.SEEK_SET else self._position
        if whence == os.SEEK_END:
            start = (await self.stat(timeout=timeout)).st_size
        if start + offset < 0:
            raise OSError(errno.EINVAL, "Invalid argument", self.name)
        self._position = start + offset
        return self._position

    def tell(self):
        return self._position

    async def truncate(self, size=None, *, timeout=DEFAULT):
        size = self._position if size is None else size
        await self._run(ftruncate_call(self._handle, size), timeout)
        return size

    async def fsync(self, *, timeout=DEFAULT):
        """Waits until everything that was written is on the server's stable storage."""
        await self._run(fsync_call(self._handle), timeout)

    async def stat(self, *, timeout=DEFAULT):
        """Returns the Attributes."""
        return await self._run(fstat_call(self._handle), timeout)

    async def close(self, *, timeout=DEFAULT):
        """Makes what was written stable, and closes the file, also if that fails."""
        if not self.closed:
            await self._run(Call(lib.penstock_py_close, self._handle.native, names=(self.name,)), timeout)

    async def __aenter__(self):
        check_open(self._handle)
        return self

    async def __aexit__(self, *_):
        await self.close()

    def __reduce__(self):
        raise TypeError("cannot pickle a file: it is open on a server")

    def __repr__(self):
        return f"<penstock.aio.AsyncFile name={self.name!r} mode={self.mode!r}{' closed' if self.closed else ''}>"
