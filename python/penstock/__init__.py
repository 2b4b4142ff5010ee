"""NFS over RDMA and TCP in user space: files on NFS servers, without a mount of the kernel and without root.

    import penstock

    with penstock.connect("nfs://server/data?proto=rdma") as mount:
        mount.write_text("notes.txt", "a line\\n")
        with mount.open("notes.txt") as file:
            print(file.read())

penstock.aio has the same for asyncio. penstock.NfsFileSystem is a file system for fsspec, which finds it by itself for
URLs that begin with nfs://.
"""

import importlib

from penstock._operations import text as _text
from penstock._native import lib as _lib
from penstock.attributes import NO_ID, Attributes, Entry, Info, Lock, Space
from penstock.file import File
from penstock.mount import Mount, connect
from penstock.runtime import Runtime

__all__ = ["NO_ID", "Attributes", "Entry", "File", "Info", "Lock", "Mount", "Runtime", "Space", "connect", "version"]


def version():
    """Returns the version of libpenstock, such as "1.0.0"."""
    return _text(_lib.penstock_version())


def __getattr__(name):
    """Imports what not every program needs, and fsspec may be absent."""
    if name == "aio":
        return importlib.import_module("penstock.aio")
    if name == "NfsFileSystem":
        return importlib.import_module("penstock.filesystem").NfsFileSystem
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")
