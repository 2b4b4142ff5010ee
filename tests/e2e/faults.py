#!/usr/bin/python3
"""The real server with files that fail on demand (`serve --faults`, see src/fs/faulty/fault.h): a copy that cannot be made ends
with an error, and a copy that ends with success is complete."""

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import main  # noqa: E402
from files import digest, make  # noqa: E402
from patience import SECONDS  # noqa: E402
from penstock import TRANSPORTS, Server, serve_refused, under_way  # noqa: E402
from penstock import penstock_ok as ok, penstock_refused as refused  # noqa: E402

VERSIONS = ("3", "4.2")
SIZE = (5 << 20) + 5


def prepare(scratch):
    """An export with one file, and one more file to send there."""
    os.makedirs(f"{scratch}/export")
    os.chmod(f"{scratch}/export", 0o777)
    make(f"{scratch}/export/file", SIZE)
    make(f"{scratch}/mine", SIZE)


def serve(scratch, faults, *options):
    return Server({"/": f"{scratch}/export:no_root_squash"}, [f"--faults={faults}", *options])


def url_of(server, name, transport, version):
    return server.url(f"/{name}", transport).replace("vers=3", f"vers={version}")


def write_fails(scratch):
    """Each version, over both transports, reports the error of a WRITE or COMMIT."""
    prepare(scratch)
    for faults, words in (("write:enospc", "no space left"), ("write:eio/2", "input/output error"),
                          ("write:edquot-after", "quota"), ("commit:eio", "input/output error")):
        with serve(scratch, faults) as server:
            for transport in TRANSPORTS:
                for version in VERSIONS:
                    refused("cp", "-q", f"{scratch}/mine", url_of(server, "put", transport, version), mentions=[words])


def read_fails(scratch):
    """A copy from the server that fails leaves no file behind."""
    prepare(scratch)
    with serve(scratch, "read:eio/3") as server:
        for transport in TRANSPORTS:
            for version in VERSIONS:
                refused("cp", "-q", url_of(server, "file", transport, version), f"{scratch}/got",
                        mentions=["input/output error"])
                assert not os.path.exists(f"{scratch}/got"), (transport, version)


def transient(scratch):
    """Short and slow operations do not end a copy, and no octet is missing afterwards."""
    prepare(scratch)
    for faults in ("read:short=1000/3", "write:short=1000/3", "any:slow=..20ms%0.3,any:slow=..20ms-after%0.3"):
        with serve(scratch, faults) as server:
            for transport in TRANSPORTS:
                for version in VERSIONS:
                    ok("cp", "-q", url_of(server, "file", transport, version), f"{scratch}/got")
                    assert digest(f"{scratch}/got") == digest(f"{scratch}/export/file"), (faults, transport, version)
                    ok("cp", "-q", f"{scratch}/mine", url_of(server, "put", transport, version))
                    assert digest(f"{scratch}/export/put") == digest(f"{scratch}/mine"), (faults, transport, version)
                    os.remove(f"{scratch}/got")
                    os.remove(f"{scratch}/export/put")


def out_of_descriptors(scratch):
    """The server has no descriptor for each third request: the client sends the request again later."""
    prepare(scratch)
    with serve(scratch, "read:emfile/3,write:emfile/3") as server:
        for transport in TRANSPORTS:
            for version in VERSIONS:
                ok("cp", "-q", url_of(server, "file", transport, version), f"{scratch}/got")
                assert digest(f"{scratch}/got") == digest(f"{scratch}/export/file"), (transport, version)
                ok("cp", "-q", f"{scratch}/mine", url_of(server, "put", transport, version))
                assert digest(f"{scratch}/export/put") == digest(f"{scratch}/mine"), (transport, version)
                os.remove(f"{scratch}/got")
                os.remove(f"{scratch}/export/put")


def killed(scratch):
    """A server that is killed between an operation and its reply, and starts again: the client completes its copy."""
    prepare(scratch)
    for faults in ("write:kill@3", "commit:kill@1", "create:kill@1"):
        for transport in TRANSPORTS:
            for version in VERSIONS:
                with serve(scratch, faults) as server:
                    with under_way("cp", "-q", f"{scratch}/mine", url_of(server, "put", transport, version)) as client:
                        assert server.process.wait(SECONDS) == -signal.SIGKILL, (faults, transport, version)
                        server.arguments.remove(f"--faults={faults}")
                        server.start()
                        assert client.wait(SECONDS) == 0, (faults, transport, version)
                    assert digest(f"{scratch}/export/put") == digest(f"{scratch}/mine"), (faults, transport, version)
                os.remove(f"{scratch}/export/put")


def wrong_faults(scratch):
    """An invalid fault ends the start. The message names the fault and the valid effects."""
    prepare(scratch)
    serve_refused(scratch, f"{scratch}/export", "--faults=write:eoi", mentions=["write:eoi", "eio"])


main({case.__name__: case for case in (write_fails, read_fails, transient, out_of_descriptors, killed, wrong_faults)})
