#!/usr/bin/python3
"""The real server on a failing disk (src/base/failing_disk.h): an error reaches the client as an error, never as data."""

import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import main  # noqa: E402
from disk import FailingDisk  # noqa: E402
from files import digest, make  # noqa: E402
from penstock import TRANSPORTS, Server, under_way  # noqa: E402
from penstock import penstock_ok as ok, penstock_refused as refused  # noqa: E402

VERSIONS = ("3", "4.0", "4.1", "4.2")
SIZE = (3 << 20) + 5


def served(scratch, *options):
    """A server with one file on a failing disk."""
    os.makedirs(f"{scratch}/export")
    os.chmod(f"{scratch}/export", 0o777)
    make(f"{scratch}/export/file", SIZE)
    disk = FailingDisk(scratch)
    return disk, Server({"/": f"{scratch}/export:no_root_squash"}, options, environment=disk.environment)


def urls(server, name):
    for transport in TRANSPORTS:
        for version in VERSIONS:
            yield server.url(f"/{name}", transport).replace("vers=3", f"vers={version}")


def read_error(scratch):
    """A bad block in the middle of a file: the copy fails and gives the reason, in every version over both transports."""
    disk, server = served(scratch)
    bad = f"{scratch}/export/file"
    with server:
        for url in urls(server, "file"):
            disk.fail(*(f"{call} EIO {bad} - {SIZE // 2}" for call in ("pread", "preadv", "sendfile")))
            refused("cp", url, f"{scratch}/got", mentions=["input/output error"])
            assert not os.path.exists(f"{scratch}/got"), url
            disk.mend()
            ok("cp", url, f"{scratch}/got")
            assert digest(f"{scratch}/got") == digest(bad), url
            os.remove(f"{scratch}/got")


def read_error_while_sending(scratch):
    """The disk fails once, after the status of success was sent: the connection ends, and the client retries."""
    disk, server = served(scratch, "--crc=off")
    bad = f"{scratch}/export/file"
    with server:
        for url in urls(server, "file"):
            url += "&crc=off"  # over RDMA without check values, so that the server does not copy the file
            disk.fail(f"sendfile EIO {bad} 1 {SIZE // 2}", f"pread EIO {bad} 1 {SIZE // 2}")
            ok("cp", url, f"{scratch}/got")
            assert digest(f"{scratch}/got") == digest(bad), url


def write_error(scratch):
    """A disk that is full, or that fails to sync: the copy to the server fails and gives the reason."""
    disk, server = served(scratch)
    make(f"{scratch}/mine", SIZE)
    target = f"{scratch}/export/put"
    with server:
        for url in urls(server, "put"):
            for rule, words in ((f"pwrite ENOSPC {target} - {SIZE // 2}", "no space left"),
                                (f"pwrite EDQUOT {target} - {SIZE // 2}", "quota"),
                                (f"pwrite EIO {target} - {SIZE // 2}", "input/output error"),
                                (f"fsync EIO {target}", "input/output error")):
                make(target, 0)
                os.chmod(target, 0o666)
                disk.fail(rule)
                refused("cp", "--in-place", f"{scratch}/mine", url, mentions=[words])
                disk.mend()
                ok("cp", f"{scratch}/mine", url)
                assert digest(target) == digest(f"{scratch}/mine"), url
                os.remove(target)


def hanging_disk(scratch):
    """A disk that hangs for the files of four clients, on writes and syncs: the server serves others meanwhile, and
    those four when the disk works again."""
    for call in ("pwrite", "fsync"):
        where = f"{scratch}/{call}"
        os.makedirs(where)
        disk, server = served(where)
        names = [f"stuck{number}" for number in range(4)]
        make(f"{where}/mine", SIZE)
        make(f"{where}/small", 1000)
        for name in names:
            make(f"{where}/export/{name}", 0)
            os.chmod(f"{where}/export/{name}", 0o666)
        with server, contextlib.ExitStack() as stack:
            disk.fail(*(f"{call} hang {where}/export/{name}" for name in names))
            stuck = []
            for name in names:
                stuck.append(stack.enter_context(under_way("cp", "--in-place", f"{where}/mine", server.url(f"/{name}", "tcp"))))
                disk.await_hanging(f"{where}/export/{name}")
            for transport in TRANSPORTS:
                for version in VERSIONS:
                    new = f"by-{transport}-{version}"
                    url = server.url(f"/{new}", transport).replace("vers=3", f"vers={version}")
                    ok("mkdir", url)
                    into = server.url(f"/{new}/small", transport).replace("vers=3", f"vers={version}")
                    ok("cp", "--in-place", f"{where}/small", into)
                    assert digest(f"{where}/export/{new}/small") == digest(f"{where}/small"), url
            assert all(process.poll() is None for process in stuck), "the disk has answered"
            disk.mend()
            for name, process in zip(names, stuck):
                assert process.wait(120) == 0, name
                assert digest(f"{where}/export/{name}") == digest(f"{where}/mine"), name


main({case.__name__: case for case in (read_error, read_error_while_sending, write_error, hanging_disk)})
