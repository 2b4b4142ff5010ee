"""Mounts: trees of files on servers."""

import io
import os
import posixpath
import threading
import weakref

from penstock._native import ffi, lib
from penstock._operations import DEFAULT, MountHandle, check_open, octets, opening, run
from penstock.calls import Operations, check_mode, local_source, local_target, mode_flags, mount_options, open_call
from penstock.file import File
from penstock.runtime import Runtime, close_at_exit, default_runtime

BUFFER = 1 << 20  # one READ or WRITE of most servers


def open_mount_call(runtime, url, options, kind=MountHandle, owner=None):
    """Connects to a server. Its value is a MountHandle, or another handle of a mount; `owner` is what it keeps in place of
    the handle of the runtime."""
    native, kept = mount_options(**options)
    call = opening(lib.penstock_py_mount_open, runtime.native, octets(url), native, place=ffi.new("penstock_mount **"),
                   made=kind(owner or runtime, url), names=(url,))
    call.kept = kept
    return call


def connect(url, *, runtime=None, timeout=None, krb5_keytab=None, krb5_principal=None, tls_ca=None, tls_cert=None, tls_key=None,
            delegations=None):
    """Connects to a server, mounts the export that a URL leads into, and returns a Mount.

    `url`: nfs://host[:port]/path[?option=value&...], percent-encoded, such as nfs://server/data?proto=rdma&vers=4.2.
    `runtime`: the Runtime of the mount; otherwise one that all such mounts share. `timeout`: the limit of this operation
    in seconds, and the default of the mount's. `krb5_keytab`, `krb5_principal`: for sec=krb5, krb5i and krb5p.
    `tls_ca`, `tls_cert`, `tls_key`: PEM files for xprtsec=tls and mtls. `delegations`: the most delegations of files that
    are not open."""
    runtime = runtime or default_runtime()
    check_open(runtime._handle)
    options = {"krb5_keytab": krb5_keytab, "krb5_principal": krb5_principal, "tls_ca": tls_ca, "tls_cert": tls_cert,
               "tls_key": tls_key, "delegations": delegations}
    return Mount(runtime, run(open_mount_call(runtime._handle, url, options), timeout), url, timeout)


class Mount(Operations):
    """A tree of files on a server, for programs that block. connect() makes it. All threads may use it. Ctrl-C, or another
    exception of a signal handler, cancels the operation that blocks.

    Errors are OSError, of the subclass for the errno: FileNotFoundError, PermissionError, TimeoutError, and so on.
    `timeout` is the limit of each operation in seconds, or None; operations that have several steps apply it to each."""

    def __init__(self, runtime, handle, url, timeout):
        self.runtime, self.url, self.timeout = runtime, url, timeout
        self._handle, self._files, self._lock = handle, weakref.WeakSet(), threading.Lock()
        close_at_exit(self)

    def _run(self, call, timeout=DEFAULT, progress=None):
        check_open(self._handle)
        return run(call, self.timeout if timeout is DEFAULT else timeout, progress)

    @property
    def closed(self):
        return not self._handle.is_open

    def close(self, *, timeout=DEFAULT):
        """Closes the files that are open, which writes what their buffers have, then gives back what the server keeps for
        the mount, and ends its connections. In a child of the process that made the mount it does nothing."""
        if self.closed:
            return
        failed = None
        with self._lock:
            files = list(self._files)
        for file in files:
            try:
                file.close()
            except (OSError, ValueError) as why:
                failed = failed or why
        self._handle.close(self.timeout if timeout is DEFAULT else timeout)
        if failed is not None:
            raise failed

    def __enter__(self):
        check_open(self._handle)
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        raise TypeError("cannot pickle a mount: connect again by its URL")

    def __repr__(self):
        return f"<penstock.Mount {self.url}{' closed' if self.closed else ''}>"

    # ---- names ----

    def scandir(self, path="", *, timeout=DEFAULT):
        """Returns an iterator over the entries of a directory, each an Entry, which has the attributes. It may be used in a
        with statement, as that of os.scandir()."""
        return _Entries(self._entries(path, self, timeout))

    def exists(self, path, *, follow_symlinks=True, timeout=DEFAULT):
        """Tells whether the path leads to a file."""
        try:
            self.stat(path, follow_symlinks=follow_symlinks, timeout=timeout)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def _is(self, what, path, timeout, follow_symlinks=True):
        try:
            return getattr(self.stat(path, follow_symlinks=follow_symlinks, timeout=timeout), what)()
        except (FileNotFoundError, NotADirectoryError):
            return False

    def is_dir(self, path, *, timeout=DEFAULT):
        return self._is("is_dir", path, timeout)

    def is_file(self, path, *, timeout=DEFAULT):
        return self._is("is_file", path, timeout)

    def is_symlink(self, path, *, timeout=DEFAULT):
        return self._is("is_symlink", path, timeout, follow_symlinks=False)

    def makedirs(self, path, mode=0o755, *, exist_ok=False, timeout=DEFAULT):
        """Makes a directory and those that lead to it."""
        path = os.fspath(path)
        if exist_ok and self.is_dir(path, timeout=timeout):
            return
        try:
            self.mkdir(path, mode, timeout=timeout)
        except FileNotFoundError:
            parent = posixpath.dirname(path.rstrip(b"/" if isinstance(path, bytes) else "/"))
            if not parent or parent == path:
                raise
            self.makedirs(parent, exist_ok=True, timeout=timeout)
            self.makedirs(path, mode, exist_ok=exist_ok, timeout=timeout)
        except FileExistsError:  # another client may have made it meanwhile
            if not exist_ok or not self.is_dir(path, timeout=timeout):
                raise

    def unlink(self, path, *, missing_ok=False, timeout=DEFAULT):
        """Removes a name of anything but a directory."""
        try:
            super().unlink(path, timeout=timeout)
        except FileNotFoundError:
            if not missing_ok:
                raise

    remove = unlink

    def replace(self, source, target, *, timeout=DEFAULT):
        """The same as rename(), under the name of os.replace()."""
        self.rename(source, target, timeout=timeout)

    def rmtree(self, path, *, timeout=DEFAULT):
        """Removes a directory and everything in it. Does not follow symbolic links."""
        for entry in self.scandir(path, timeout=timeout):
            if entry.is_dir(follow_symlinks=False):
                self.rmtree(entry.path, timeout=timeout)
            else:
                self.unlink(entry.path, timeout=timeout)
        self.rmdir(path, timeout=timeout)

    def walk(self, top="", *, topdown=True, onerror=None, followlinks=False, timeout=DEFAULT):
        """Yields (path, names of directories, names of files) of a directory and those below it, as os.walk()."""
        top = os.fspath(top)
        try:
            entries = list(self.scandir(top, timeout=timeout))
        except OSError as why:
            if onerror is not None:
                onerror(why)
            return
        folders = [entry.name for entry in entries if entry.is_dir()]
        links = {entry.name for entry in entries if entry.is_symlink()}
        others = [entry.name for entry in entries if not entry.is_dir()]
        paths = {entry.name: entry.path for entry in entries}
        if topdown:
            yield top, folders, others
        for name in folders:
            if followlinks or name not in links:
                yield from self.walk(paths.get(name) or posixpath.join(top, name), topdown=topdown, onerror=onerror,
                                     followlinks=followlinks, timeout=timeout)
        if not topdown:
            yield top, folders, others

    # ---- contents ----

    def open_raw(self, path, mode="r", *, permissions=0o644, sync=False, timeout=DEFAULT):
        """Opens a file without a buffer and returns a File; open() says what the parameters mean."""
        mode, _ = check_mode(mode)
        flags, _, _, appends = mode_flags(mode)
        timeout = self.timeout if timeout is DEFAULT else timeout
        handle = self._run(open_call(self._handle, path, flags | (os.O_SYNC if sync else 0), permissions & 0o7777), timeout)
        file = File(self, handle, mode, timeout)
        self._note(file)
        if appends:
            try:
                file.seek(0, os.SEEK_END)
            except BaseException:
                file.close()
                raise
        return file

    def _note(self, file):
        with self._lock:
            self._files.add(file)

    def open(self, path, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *, permissions=0o644, sync=False,
             timeout=DEFAULT):
        """Opens a file as open() of Python does.

        `buffering`: 0 for none, 1 for lines, otherwise the size of the buffer in octets; by default 1 MiB.
        `permissions`: the mode bits of a new file; the umask does not count. `sync`: what is written is on stable storage
        when write() returns. `timeout`: the limit of each operation of the file. Other programs that append at the same
        time can overwrite: NFS has no atomic append."""
        plain, binary = check_mode(mode)
        if binary and (encoding, errors, newline) != (None, None, None):
            raise ValueError("binary mode takes no encoding, errors or newline argument")
        if buffering == 0 and not binary:
            raise ValueError("can't have unbuffered text I/O")
        raw = file = self.open_raw(path, plain, permissions=permissions, sync=sync, timeout=timeout)
        try:
            if buffering != 0:
                kind = io.BufferedRandom if "+" in plain else io.BufferedReader if plain == "r" else io.BufferedWriter
                file = kind(raw, BUFFER if buffering in (-1, 1) else buffering)
            if not binary:
                file = io.TextIOWrapper(file, encoding or "utf-8", errors, newline, line_buffering=buffering == 1)
                file.mode = mode
            if file is not raw:
                self._note(file)
                with self._lock:
                    self._files.discard(raw)
            return file
        except BaseException:
            file.close()
            raise

    def read_text(self, path, encoding="utf-8", errors="strict", *, timeout=DEFAULT):
        """Returns the contents of a file as a str."""
        return self.read_bytes(path, timeout=timeout).decode(encoding, errors)

    def write_text(self, path, text, encoding="utf-8", errors="strict", *, mode=0o644, timeout=DEFAULT):
        """Makes a file with this text, or replaces the contents of one."""
        self.write_bytes(path, text.encode(encoding, errors), mode=mode, timeout=timeout)

    def download(self, path, local, *, progress=None, timeout=DEFAULT):
        """Copies a file of the server into a local one: a path, a descriptor, or an object with fileno(). Calls
        progress(octets so far, all octets) now and then. Returns the number of octets."""
        with local_target(local) as descriptor:
            return self._download(path, descriptor, timeout, progress)

    def upload(self, local, path, *, mode=0o644, progress=None, timeout=DEFAULT):
        """Copies a local regular file, named as for download(), to the server, where it is on stable storage then. `mode` is
        for a new file. Returns the number of octets."""
        with local_source(local) as descriptor:
            return self._upload(descriptor, path, mode, timeout, progress)

    def copy(self, source, target, *, to=None, mode=0o644, progress=None, timeout=DEFAULT):
        """Copies a file into another one, of this mount or of the Mount `to`, through this client. `mode` is for a new file.
        Returns the number of octets."""
        room, done = bytearray(4 * BUFFER), 0
        with self.open_raw(source, "r", timeout=timeout) as reader, \
                (to or self).open_raw(target, "w", permissions=mode, timeout=timeout) as writer:
            total = reader.stat().st_size
            while True:
                count = reader.readinto(room)
                if count == 0:
                    return done
                writer.write(memoryview(room)[:count])
                done += count
                if progress is not None:
                    progress(done, max(done, total))


class _Entries:
    """What scandir() returns."""

    def __init__(self, entries):
        self._entries = iter(entries)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._entries)

    def close(self):
        self._entries = iter(())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


