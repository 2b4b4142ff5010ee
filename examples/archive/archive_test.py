#!/usr/bin/python3
"""The example archive_server: the client commands read files from a tar archive over TCP and RDMA.

    archive_test.py ARCHIVE_SERVER [CASE...]"""

import contextlib
import io
import os
import signal
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "harness"))
from cases import main  # noqa: E402
from patience import BUSY  # noqa: E402
from penstock import check_refusal, penstock_ok as ok, penstock_refused as refused  # noqa: E402

ARCHIVE_SERVER = sys.argv.pop(1)
CONTENTS = {"notes.txt": b"a line\n", "photos/empty": b"", "photos/large": os.urandom(3_000_001), "photos/2025/grün.txt": b"x" * 4096}
MODIFIED = 981173106


def add(archive, name, content=b"", **fields):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(content), MODIFIED, 0o644
    for field, value in fields.items():
        setattr(entry, field, value)
    archive.addfile(entry, io.BytesIO(content))


def make_archive(path, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        add(archive, "./photos", type=tarfile.DIRTYPE, mode=0o755)
        for name, content in CONTENTS.items():
            add(archive, f"./{name}", content)
        add(archive, "./again", type=tarfile.LNKTYPE, linkname="./notes.txt")
        add(archive, "./link", type=tarfile.SYMTYPE, linkname="photos/large")
        add(archive, "./secret", b"secret", mode=0o600, uid=4711)
    return path


@contextlib.contextmanager
def serving(scratch, archive):
    """The server while it runs: a function that makes URLs, for a path and a transport."""
    with subprocess.Popen([ARCHIVE_SERVER, archive, f"{scratch}/state"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True) as server:
        ports = {}
        try:
            for line in server.stdout:
                print("server|", line, end="", flush=True)
                if line == "ready\n":
                    break
                name, _, address = line.rpartition(": ")
                ports[name] = address.rpartition(":")[2].strip()
            assert len(ports) == 3, f"the server did not get ready: {ports}"

            def url(path, transport, version="4.1"):
                port = ports[f"NFS over {transport.upper()}"]
                return f"nfs://127.0.0.1:{port}{path}?vers={version}&proto={transport}&mountport={ports['MOUNT over TCP']}"
            yield url
            server.send_signal(signal.SIGTERM)
            assert server.wait(60 * BUSY) == 0, server.returncode
        finally:
            server.kill()


def reads(scratch):
    """Names, attributes and contents are those of the archive, over both transports and in versions 3 and 4.1."""
    with serving(scratch, make_archive(f"{scratch}/archive.tar.gz")) as url:
        for transport in ("tcp", "rdma"):
            for version in ("3", "4.1"):
                names = ok("ls", url("/", transport, version)).decode().split()
                assert names == ["again", "link", "notes.txt", "photos", "secret"], names
                for name, content in CONTENTS.items():
                    assert ok("cat", url(f"/{name}", transport, version)) == content, name
                assert ok("cat", url("/again", transport, version)) == CONTENTS["notes.txt"]
                assert ok("cat", url("/link", transport, version)) == CONTENTS["photos/large"]
                ok("cp", "-q", url("/photos/large", transport, version), f"{scratch}/got")
                with open(f"{scratch}/got", "rb") as got:
                    assert got.read() == CONTENTS["photos/large"]
                line = ok("ls", "-l", url("/notes.txt", transport, version)).decode().split()
                assert line[:2] == ["-rw-r--r--", "2"] and "7" in line, line
                refused("cat", url("/absent", transport, version), mentions=["absent"])


def refuses_writes(scratch):
    """Each command that would change something ends with "read-only file system"."""
    with serving(scratch, make_archive(f"{scratch}/archive.tar", "w")) as url:
        with open(f"{scratch}/mine", "wb") as mine:
            mine.write(b"mine")
        for transport in ("tcp", "rdma"):
            for version in ("3", "4.1"):
                for command in (("cp", "-q", f"{scratch}/mine", url("/new", transport, version)),
                                ("cp", "-q", "--in-place", f"{scratch}/mine", url("/notes.txt", transport, version)),
                                ("mkdir", url("/new", transport, version)), ("rm", url("/notes.txt", transport, version)),
                                ("mv", url("/notes.txt", transport, version), "/new"),
                                ("chmod", "600", url("/notes.txt", transport, version))):
                    refused(*command, mentions=["read-only file system"])
                # The file itself says that it is not for writing.
                refused("cp", "-q", f"{scratch}/mine", url("/notes.txt", transport, version), mentions=["permission denied"])
                assert ok("cat", url("/notes.txt", transport, version)) == CONTENTS["notes.txt"]


def tells_what_is_wrong(scratch):
    """A missing file, a file that is no archive, and a truncated archive end the program with one line and exit code 1."""
    with open(f"{scratch}/text", "w") as text:
        text.write("this is no archive\n" * 100)
    with open(make_archive(f"{scratch}/whole.tar", "w"), "rb") as whole, open(f"{scratch}/cut.tar", "wb") as cut:
        cut.write(whole.read()[:2_000_000])
    with tarfile.open(f"{scratch}/out.tar", "w") as archive:
        add(archive, "../outside", b"x")
    for name in ("absent", "text", "cut.tar", "out.tar"):
        done = subprocess.run([ARCHIVE_SERVER, f"{scratch}/{name}", f"{scratch}/state"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60 * BUSY)
        check_refusal(done.returncode, done.stderr, mentions=["archive_server: ", f"{scratch}/{name}"])


main({"reads": reads, "refuses_writes": refuses_writes, "tells_what_is_wrong": tells_what_is_wrong})
