"""A file system for fsspec: everything that opens files by fsspec can use nfs:// URLs.

    import fsspec, pandas

    with fsspec.open("nfs://server/data/table.csv?proto=rdma&vers=4.2") as file:
        table = pandas.read_csv(file)

Options of the URL, as in penstock-url(5), are storage options as well: fsspec.filesystem("nfs", host="server", vers="4.2").
pandas itself opens nfs:// URLs by urllib, which cannot; give it files, as above.
"""

import contextlib
import datetime
import errno
import os
import posixpath
import re
import stat
import threading
import urllib.parse
import uuid

from fsspec import AbstractFileSystem
from fsspec.callbacks import NoOpCallback
from fsspec.spec import AbstractBufferedFile
from fsspec.utils import isfilelike, stringify_path, tokenize

from penstock.mount import connect

# What a URL can say behind the "?"; penstock-url(5). Words without a value are True.
URL_OPTIONS = ("proto", "vers", "version", "sec", "xprtsec", "port", "nfsport", "mountport", "uid", "gid", "timeout", "inline", "crc",
               "resvport", "noresvport", "persist", "channels", "back", "pad", "chain", "nfsvers", "minorversion", "mountproto", "mounthost",
               "mountvers", "hard", "soft", "softerr", "timeo", "retrans", "rsize", "wsize", "ro", "rw")
# What penstock.connect() gets. `timeout` is the library's own; this one is of whole operations.
CONNECT_OPTIONS = ("krb5_keytab", "krb5_principal", "tls_ca", "tls_cert", "tls_key", "delegations")
_WORD = rf"(?:{'|'.join(URL_OPTIONS)})(?:=[^&]*)?"
# A "?" that begins no options belongs to the path: it may be a pattern of glob().
_QUERY = re.compile(rf"\?(?P<options>{_WORD}(?:&{_WORD})*)?$")


def split_url(url):
    """Returns (host and port, path, options) of a URL, or of a path, which has neither the first nor the last."""
    if not url.startswith("nfs://"):
        return "", url, ""
    place, slash, path = url[len("nfs://"):].partition("/")
    if not slash:
        place, mark, query = place.partition("?")
        path = mark + query
    found = _QUERY.search(path)
    if found is None:
        return place, slash + path, ""
    return place, slash + path[:found.start()], found.group("options") or ""


class NfsFileSystem(AbstractFileSystem):
    """The files of an NFS server. Paths are those of the server: "/export/notes.txt".

    It connects when it is first used. It may be pickled, and used after a fork(): each process connects by itself."""

    protocol = "nfs"
    root_marker = "/"

    def __init__(self, host, port=None, *, export=None, operation_timeout=None, auto_mkdir=False, **storage_options):
        """`host`, `port`: the server. `export`: the only export to use; otherwise all exports are below "/". `auto_mkdir`:
        make missing directories of files that are written. `operation_timeout`: the limit of each operation in seconds.
        Other options: those of a URL (penstock-url(5)), and of penstock.connect()."""
        super().__init__(host=host, port=port, export=export, operation_timeout=operation_timeout, auto_mkdir=auto_mkdir,
                         **storage_options)
        self.host, self.port, self.export, self.auto_mkdir = host, port, export, auto_mkdir
        self._timeout = operation_timeout
        self._url_options = {name: storage_options[name] for name in URL_OPTIONS if storage_options.get(name) is not None}
        self._connect_options = {name: storage_options[name] for name in CONNECT_OPTIONS if name in storage_options}
        self._forget()

    # ---- names ----

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        _, path, _ = split_url(stringify_path(path))
        return "/" + path.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(path):
        place, _, query = split_url(path)
        if not place:
            return {}
        host, port = re.fullmatch(r"(.*?)(?::(\d+))?", place).groups()
        options = {"host": host.strip("[]")}
        if port:
            options["port"] = int(port)
        for name, _, value in (word.partition("=") for word in query.split("&") if word):
            options[name] = urllib.parse.unquote(value) if value else True
            if name == "port":
                options[name] = int(value)
        return options

    @property
    def _place(self):
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def _query(self):
        words = []
        for name, value in self._url_options.items():
            if value is True and name not in ("crc", "persist", "chain"):
                words.append(name)
            elif value is not False or name in ("crc", "persist", "chain"):
                value = {True: "on", False: "off"}[value] if isinstance(value, bool) else value
                words.append(f"{name}={urllib.parse.quote(str(value), safe='')}")
        return "?" + "&".join(words) if words else ""

    def unstrip_protocol(self, name):
        """Returns the URL of a path."""
        return f"nfs://{self._place}{self._strip_protocol(name)}{self._query}"

    @property
    def fsid(self):
        """Names the server and the user, for caches."""
        return f"nfs-{tokenize(self._place, self.export, sorted(self._url_options.items()))}"

    # ---- mounts ----

    def _forget(self):
        self._mounts, self._has_root, self._process, self._lock = {}, True, os.getpid(), threading.RLock()

    def _at(self, path):
        """Returns (mount, path within it) for a path of the server, and connects if that is necessary.

        Version 4 has all exports in one tree. Version 3 has no such tree, unless the server exports "/": then each export has
        a mount of its own. The first of the directories that lead to the path which can be mounted is its export."""
        path = self._strip_protocol(path)
        if self._process != os.getpid():
            self._forget()  # the mounts of the parent process
        with self._lock:
            for root, mount in self._mounts.items():
                if is_below(path, root) and not mount.closed:
                    return mount, path[len(root.rstrip("/")):]
            failed = FileNotFoundError(errno.ENOENT, "it is not below the export of this file system", path)
            for root in self._roots(path):
                try:
                    self._mounts[root] = self._connect(root)
                except (FileNotFoundError, PermissionError, NotADirectoryError) as why:
                    self._has_root = self._has_root and root != "/"
                    failed = why
                    continue
                return self._mounts[root], path[len(root.rstrip("/")):]
            raise failed

    def _roots(self, path):
        """Returns the directories to mount for a path, in the order in which they are tried."""
        if self.export is not None:
            export = self._strip_protocol(self.export)
            return [export] if is_below(path, export) else []
        steps = path.strip("/").split("/") if path != "/" else []
        return (["/"] if self._has_root else []) + ["/" + "/".join(steps[:count]) for count in range(1, len(steps) + 1)]

    def _connect(self, root):
        return connect(f"nfs://{self._place}{urllib.parse.quote(root)}{self._query}", timeout=self._timeout, **self._connect_options)

    def close(self):
        """Closes the mounts. The file system connects again if it is used again."""
        with self._lock:
            mounts, self._mounts = self._mounts, {}
        for mount in mounts.values():
            mount.close()

    # ---- what is there ----

    def _described(self, mount, inner, path, attributes):
        """Returns the information of fsspec for the attributes of a file, of a symbolic link itself. It follows the link."""
        is_link, destination = attributes.is_symlink(), None
        if is_link:
            destination = mount.readlink(inner)
            attributes = mount.stat(inner)
        kind = "directory" if attributes.is_dir() else "file" if attributes.is_file() else "other"
        described = {"name": path, "size": attributes.st_size, "type": kind, "created": attributes.st_ctime,
                     "mtime": attributes.st_mtime, "mode": attributes.st_mode, "uid": attributes.st_uid, "gid": attributes.st_gid,
                     "ino": attributes.st_ino, "nlink": attributes.st_nlink, "islink": is_link, "change": attributes.change,
                     "mtime_ns": attributes.st_mtime_ns, "ctime_ns": attributes.st_ctime_ns}
        if is_link:
            described["destination"] = destination
        return described

    def info(self, path, **kwargs):
        """Returns what is known of a file. It follows a symbolic link."""
        path = self._strip_protocol(path)
        mount, inner = self._at(path)
        return self._described(mount, inner, path, mount.lstat(inner))

    def ls(self, path, detail=True, **kwargs):
        """Lists a directory, or a file. A symbolic link to a directory has the type "link", so that nobody walks in circles; one
        that leads to nothing has that type as well."""
        path = self._strip_protocol(path)
        mount, inner = self._at(path)
        try:
            entries = list(mount.scandir(inner))
        except NotADirectoryError:
            return [self.info(path)] if detail else [path]
        names = [posixpath.join(path, entry.name) for entry in entries]
        if not detail:
            return names
        return [self._listed(mount, entry, name) for entry, name in zip(entries, names)]

    def _listed(self, mount, entry, path):
        attributes = entry.stat(follow_symlinks=False)
        try:
            described = self._described(mount, entry.path, path, attributes)
        except FileNotFoundError:
            described = {"name": path, "size": 0, "type": "link", "islink": True, "mode": attributes.st_mode}
        if described["islink"] and described["type"] == "directory":
            described["type"] = "link"
        return described

    def exists(self, path, **kwargs):
        """Tells whether a path leads to a file. Other failures than its absence raise."""
        return self._attributes(path) is not None

    def lexists(self, path, **kwargs):
        """Tells whether a name exists, even if it is a symbolic link that leads to nothing."""
        return self._attributes(path, follow_symlinks=False) is not None

    def isdir(self, path):
        attributes = self._attributes(path)
        return attributes is not None and attributes.is_dir()

    def isfile(self, path):
        attributes = self._attributes(path)
        return attributes is not None and attributes.is_file()

    def _attributes(self, path, follow_symlinks=True):
        """Returns the Attributes, or None if there is no such file."""
        try:
            mount, inner = self._at(path)
            return mount.stat(inner, follow_symlinks=follow_symlinks)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def created(self, path):
        """Returns when the attributes or data changed last: version 3 of NFS knows no time of birth."""
        return datetime.datetime.fromtimestamp(self.info(path)["created"], tz=datetime.timezone.utc)

    def modified(self, path):
        """Returns when the data changed last."""
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.timezone.utc)

    def ukey(self, path):
        """Returns a text that is another one after every change of the file, by its change attribute."""
        described = self.info(path)
        return tokenize(self.fsid, *(described[name] for name in ("name", "ino", "size", "change", "mtime_ns", "ctime_ns")))

    def checksum(self, path):
        """Returns ukey() as a number. The contents are not read."""
        return int(self.ukey(path), 16)

    # ---- changes of names ----

    def mkdir(self, path, create_parents=True, **kwargs):
        path = self._strip_protocol(path)
        mount, inner = self._at(path)
        if create_parents and path != "/" and not mount.exists(inner):
            self.makedirs(self._parent(path), exist_ok=True)
        mount.mkdir(inner)

    def makedirs(self, path, exist_ok=False):
        mount, inner = self._at(path)
        mount.makedirs(inner, exist_ok=exist_ok)

    def rmdir(self, path):
        mount, inner = self._at(path)
        mount.rmdir(inner)

    def rm_file(self, path):
        mount, inner = self._at(path)
        mount.unlink(inner)

    _rm = rm_file

    def rm(self, path, recursive=False, maxdepth=None):
        """Removes files, with `recursive` also directories, at most `maxdepth` levels below each of them. Does not follow
        symbolic links. Paths may be patterns of glob()."""
        for each in path if isinstance(path, (list, tuple)) else [path]:
            each = self._strip_protocol(each)
            for found in self.expand_path(each) if any(letter in each for letter in "*?[") else [each]:
                self._remove(found, recursive, maxdepth)

    def _remove(self, path, recursive, depth):
        mount, inner = self._at(path)
        if not mount.lstat(inner).is_dir():
            mount.unlink(inner)
        elif recursive:
            remove_tree(mount, inner, depth)
        else:
            raise IsADirectoryError(errno.EISDIR, "it is a directory; recursive=True removes it", path)

    def mv(self, path1, path2, recursive=False, maxdepth=None, **kwargs):
        """Moves a file or a directory, on the server. One that is moved to a directory is then in it."""
        if maxdepth is not None or not isinstance(path1, str) or not isinstance(path2, str) or any(letter in path1 for letter in "*?["):
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)
            return
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if source == target:
            return
        if path2.endswith("/") or self.isdir(target):
            target = posixpath.join(target, posixpath.basename(source))
        self._make_parent(target)
        (mount, inner), (other, place) = self._at(source), self._at(target)
        if mount is other:
            try:
                mount.rename(inner, place)
                return
            except OSError as why:
                if why.errno != errno.EXDEV:
                    raise
        # Between file systems, files are copied.
        is_folder = self.isdir(source)
        self.copy(source, target, recursive=is_folder)
        self.rm(source, recursive=is_folder)

    mv_file = mv

    def _make_parent(self, path):
        if self.auto_mkdir:
            self.makedirs(self._parent(path), exist_ok=True)

    def touch(self, path, truncate=True, **kwargs):
        """Makes an empty file, or sets the times of one. Without `truncate` its contents stay."""
        self._make_parent(self._strip_protocol(path))
        mount, inner = self._at(path)
        mount.open_raw(inner, "w" if truncate else "a").close()
        mount.utime(inner)

    # ---- contents ----

    def cp_file(self, path1, path2, **kwargs):
        """Copies a file through this client, or makes a directory like another one."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        self._make_parent(target)
        (mount, inner), (other, place) = self._at(source), self._at(target)
        if mount.stat(inner).is_dir():
            self.makedirs(target, exist_ok=True)
        else:
            mount.copy(inner, place, to=other)

    def cat_file(self, path, start=None, end=None, **kwargs):
        """Returns the contents of a file, or a part. Negative places count from the end."""
        mount, inner = self._at(path)
        if start is None and end is None:
            return mount.read_bytes(inner)
        with mount.open_raw(inner) as file:
            size = file.stat().st_size
            first, last = (size if value is None and whole else 0 if value is None else max(size + value, 0) if value < 0 else value
                           for value, whole in ((start, False), (end, True)))
            return file.pread(max(min(last, size) - first, 0), first)

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        """Makes a file with these contents. `mode`: "overwrite", or "create", if there must be none."""
        self._make_parent(self._strip_protocol(path))
        mount, inner = self._at(path)
        if mode == "create":
            with mount.open_raw(inner, "x") as file:
                file.write(value)
        else:
            mount.write_bytes(inner, value)

    def get_file(self, rpath, lpath, callback=None, outfile=None, **kwargs):
        """Copies a file to a local one, or to an object that is like a file."""
        callback = callback or NoOpCallback()
        if outfile is None and isfilelike(lpath):
            outfile = lpath
        if outfile is not None:
            with self.open(rpath, "rb") as file:
                callback.set_size(file.size)
                for data in iter(lambda: file.read(file.blocksize), b""):
                    outfile.write(data)
                    callback.relative_update(len(data))
            return
        lpath = os.fspath(lpath)
        if self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
        mount, inner = self._at(rpath)
        size = mount.download(inner, lpath, progress=told(callback))
        told(callback)(size, size)

    def put_file(self, lpath, rpath, callback=None, mode="overwrite", **kwargs):
        """Copies a local file to the server. `mode`: "overwrite", or "create", if there must be none."""
        callback, target = callback or NoOpCallback(), self._strip_protocol(rpath)
        if os.path.isdir(lpath):
            self.makedirs(target, exist_ok=True)
            return
        with open(lpath, "rb") as local:
            self.makedirs(self._parent(target), exist_ok=True)
            mount, inner = self._at(target)
            if mode == "create":
                mount.open_raw(inner, "x").close()
            size = mount.upload(local, inner, progress=told(callback))
        told(callback)(size, size)

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **kwargs):
        if "+" not in mode:
            return NfsFile(self, path, mode, block_size, autocommit=autocommit, cache_options=cache_options, **kwargs)
        if not autocommit:
            raise ValueError(f"mode {mode!r} changes a file in place, which a transaction cannot undo")
        self._make_parent(path)
        mount, inner = self._at(path)
        return mount.open(inner, mode, block_size or -1)


def is_below(path, root):
    """Tells whether a path is `root` or below it."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def told(callback):
    """Returns a function of progress that tells a callback of fsspec."""
    def tell(done, total):
        if getattr(callback, "size", None) != total:
            callback.set_size(total)
        callback.absolute_update(done)
    return tell


def remove_tree(mount, path, depth):
    """Removes a directory and what is at most `depth` levels below it; None means everything."""
    if depth is None:
        mount.rmtree(path)
        return
    for entry in mount.scandir(path) if depth > 0 else ():
        if entry.is_dir(follow_symlinks=False):
            remove_tree(mount, entry.path, depth - 1)
        else:
            mount.unlink(entry.path)
    mount.rmdir(path)


class NfsFile(AbstractBufferedFile):
    """An open file, for reading through a cache of fsspec, or for writing in blocks.

    A file that is written in a transaction, or with autocommit=False, has another name in the same directory until
    commit() gives it its own; discard() removes it."""

    def __init__(self, fs, path, mode="rb", block_size=None, autocommit=True, cache_type="readahead", cache_options=None, size=None,
                 **kwargs):
        self.raw, self.temporary, self.exclusive = None, None, mode == "xb"
        self.mount, self.place = fs._at(path)
        try:
            if mode == "rb":
                self.raw = self.mount.open_raw(self.place)
                size = self.raw.stat().st_size if size is None else size
            # The mode "xb" is new in fsspec. It differs from "wb" only here.
            super().__init__(fs, path, "wb" if self.exclusive else mode, block_size or "default", autocommit, cache_type, cache_options,
                             size, **kwargs)
            if mode != "rb":
                fs._make_parent(path)
                self.start = self._open_for_writing(mode[0])
                self.loc = self.start
        except BaseException:
            self.closed = True
            self._clean_up()
            raise

    def _open_for_writing(self, mode):
        """Opens the file, or a temporary one. Returns where the first octet that is written goes."""
        if self.autocommit:
            self.raw = self.mount.open_raw(self.place, "r+" if mode == "a" and self.mount.exists(self.place) else mode)
            return self.raw.stat().st_size if mode == "a" else 0
        permissions = 0o644
        try:
            permissions = stat.S_IMODE(self.mount.stat(self.place).st_mode)
            if self.exclusive:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path)
        except FileNotFoundError:
            mode = "w"
        temporary = posixpath.join(posixpath.dirname(self.place), f".penstock-{uuid.uuid4().hex}")
        self.raw = self.mount.open_raw(temporary, "x", permissions=permissions)
        self.temporary = temporary
        if mode != "a":
            return 0
        with self.mount.open_raw(self.place) as old:
            copied = 0
            for data in iter(lambda: old.read(4 << 20), b""):
                copied += self.raw.pwrite(data, copied)
        return copied

    def _fetch_range(self, start, end):
        return self.raw.pread(end - start, start)

    def _upload_chunk(self, final=False):
        with self.buffer.getbuffer() as data:
            if data:
                self.raw.pwrite(data, self.start + self.offset)
        if final:
            self.raw.close()

    def close(self):
        """Writes what is in the buffer, and waits until the file is on stable storage."""
        if self.closed:
            return
        try:
            super().close()
        finally:
            self.closed = True
            if self.raw is not None:
                self.raw.close()

    def commit(self):
        """Gives the file its own name, in place of an older one."""
        if self.temporary is None:
            return
        self.close()
        if self.exclusive:
            self.mount.link(self.temporary, self.place)
            self.mount.unlink(self.temporary)
        else:
            self.mount.rename(self.temporary, self.place)
        self.temporary = None

    def discard(self):
        """Removes what was written."""
        self.closed = True
        self._clean_up()

    def _clean_up(self):
        with contextlib.suppress(OSError):
            if self.raw is not None:
                self.raw.close()
        if self.temporary is not None:
            with contextlib.suppress(OSError):
                self.mount.unlink(self.temporary)
            self.temporary = None
