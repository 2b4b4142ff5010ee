#!/usr/bin/python3
"""The state that a server keeps between runs: no other server uses it, damage is detected, and a full disk is reported."""

import os
import resource
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import Skip, main  # noqa: E402
from files import make  # noqa: E402
from penstock import Server, penstock_ok as ok, penstock_refused as refused, serving  # noqa: E402
from ports import free_ports  # noqa: E402


def export_of(scratch):
    os.makedirs(f"{scratch}/export")
    os.chmod(f"{scratch}/export", 0o777)
    make(f"{scratch}/export/file", 10)
    return f"{scratch}/export:no_root_squash"


def start_refused(scratch, state, mentions):
    return refused(*serving(free_ports(3), f"{scratch}/export", f"--state-dir={state}"), mentions=mentions)


def two_servers(scratch):
    """A second server on a state directory does not start and says why. The first one continues and keeps its clients."""
    with Server({"/": export_of(scratch)}) as server:
        start_refused(scratch, server.state.name, mentions=["another penstock", server.state.name, str(server.process.pid), "--state-dir"])
        ok("cat", server.url("/file", "tcp").replace("vers=3", "vers=4.2"))
        assert server.stop() == 0  # A killed server might have to wait for a client whose record it had not yet removed.
        server.start()
        ok("cat", server.url("/file", "tcp"))


def files_are_the_owners_alone(scratch):
    with Server({"/": export_of(scratch)}) as server:
        ok("cat", server.url("/file", "tcp").replace("vers=3", "vers=4.2"))
        for folder, folders, files in os.walk(server.state.name):
            for name in folders + files:
                assert os.stat(f"{folder}/{name}").st_mode & 0o077 == 0, f"{folder}/{name}"


def damaged_files(scratch):
    """Each file of the state directory is truncated, garbled, emptied, or replaced by a folder: one line names it and
    gives advice. The server does not change it, and starts with the correct file in its place."""
    with Server({"/": export_of(scratch)}) as server:
        state = server.state.name
        ok("cat", server.url("/file", "tcp").replace("vers=3", "vers=4.2"))
        assert server.stop() == 0
        names = [name for name in os.listdir(state) if name != "lock" and os.path.isfile(f"{state}/{name}")]
        assert {"server-id", "nfs4-clients.sqlite"} < set(names), names
        shutil.copytree(state, f"{scratch}/right")
        for name in names:
            path = f"{state}/{name}"
            with open(path, "rb") as file:
                content = file.read()
            for wrong in (b"", content[:5], content[:len(content) // 2], b"other" * 1000, bytes(len(content))):
                if name == "handle-key" and len(wrong) == len(content):
                    continue  # any key of that length is valid
                with open(path, "wb") as file:
                    file.write(wrong)
                start_refused(scratch, state, mentions=[path, "is damaged", "move it away"])
                with open(path, "rb") as file:
                    assert file.read() == wrong, name
            os.remove(path)
            os.mkdir(path)
            start_refused(scratch, state, mentions=[path, "is damaged", "move it away"])
            os.rmdir(path)
            shutil.copy(f"{scratch}/right/{name}", path)
        shutil.rmtree(f"{state}/nfs4-replies")
        make(f"{state}/nfs4-replies", 10)
        start_refused(scratch, state, mentions=[f"{state}/nfs4-replies", "move it away"])
        os.remove(f"{state}/nfs4-replies")
        server.start()


def unreadable_file(scratch):
    if os.geteuid() == 0:
        raise Skip("root may read everything")
    with Server({"/": export_of(scratch)}) as server:
        assert server.stop() == 0
        path = f"{server.state.name}/server-id"
        os.chmod(path, 0)
        start_refused(scratch, server.state.name, mentions=[path, "right"])
        os.chmod(path, 0o600)
        server.start()


def full_disk(scratch):
    """If the server cannot record a client, the client gets an error and the log has one line. The server continues,
    and works normally when there is room again. A limit of the file size imitates a full disk."""
    with Server({"/": export_of(scratch)}) as server:
        unlimited = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, unlimited[1]))
        for version in ("4.0", "4.1", "4.2", "4.0"):
            refused("cat", server.url("/file", "tcp").replace("vers=3", f"vers={version}"), mentions=["file"])
        ok("cat", server.url("/file", "tcp"))
        said = [line for line in server.lines if "nfs4-clients.sqlite" in line]
        assert len(said) == 1 and "room" in said[0], said
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, unlimited)
        for version in ("4.0", "4.2"):
            ok("cat", server.url("/file", "tcp").replace("vers=3", f"vers={version}"))


main({case.__name__: case for case in (two_servers, files_are_the_owners_alone, damaged_files, unreadable_file, full_disk)})
