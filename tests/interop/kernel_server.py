#!/usr/bin/python3
"""The client commands of `penstock` against the Linux kernel's server in a guest: NFS versions 3, 4.0, 4.1 and 4.2,
over RDMA and over TCP.

Each case except `restart` leaves a capture of its traffic for check_capture.py.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from capture import Capture  # noqa: E402
from cases import main  # noqa: E402
from files import CORE_SIZES, MIB, SIZES, assert_same, digest, digests, make, make_sizes  # noqa: E402
from linux import Linux, require  # noqa: E402
from penstock import ADDRESS, INSIDE, penstock_ok as run, penstock_refused as refused, under_way  # noqa: E402
from ports import free_ports  # noqa: E402
from script import hashes  # noqa: E402

# Version 3 needs rpcbind and mountd; every version needs mountd to answer the kernel's questions about exports. All of
# it runs in the guest. After a restart, clients may reclaim for ten seconds.
SERVE = """
mount -t nfsd nfsd /proc/fs/nfsd; mount -t tmpfs lib /var/lib/nfs
mkdir -p /var/lib/nfs/v4recovery /var/lib/nfs/sm /srv/x /srv/ro; : >/var/lib/nfs/etab; : >/var/lib/nfs/rmtab
mount -t tmpfs -o size=70% srv /srv/x; chmod 777 /srv/x; mkdir /srv/x/made /srv/x/put; chmod 777 /srv/x/put
mount -t tmpfs ro /srv/ro; echo stays >/srv/ro/file
echo '/srv/x *(rw,insecure,no_root_squash,no_subtree_check,fsid=1)' >/etc/exports
echo '/srv/ro *(ro,insecure,no_root_squash,no_subtree_check,fsid=2)' >>/etc/exports
start() { rpc.nfsd -V 3 -V 4 --grace-time 10 --lease-time 10 --rdma=20049 4; }
rpcbind && exportfs -ra && start && rpc.mountd -V 3 -p 20048 || exit 1
echo Y >/proc/fs/nfsd/v4_end_grace
"""
MAKE = "for size in %s; do octets ${size#*=} >/srv/x/made/${size%%=*}; done\n"
TELL = """
for f in /srv/x/made/*; do echo "made $(b2sum $f)"; done
echo "==== nfsd up"
while [ ! -e /srv/x/finished ]; do sleep 1; done
for put in /srv/x/put*; do for f in $put/*; do echo "${put##*/} $(b2sum $f)"; done; done
"""


PORTS = (2049, 20049, 20048)


class KernelServer:
    """The URL of the guest's server for a transport and a version of NFS. `put` is the folder to write to."""

    def __init__(self, transport, version, put="put", ports=None):
        self.transport, self.version, self.put = transport, version, f"/srv/x/{put}"
        self.tcp, self.rdma, self.mount = ports or (PORTS if INSIDE else free_ports(3))

    @property
    def name(self):
        return f"kernel_server_{self.transport}" + ("" if self.version == "3" else f"_v{self.version.replace('.', '')}")

    def url(self, path):
        port = getattr(self, self.transport)
        return f"nfs://{ADDRESS}:{port}{path}?vers={self.version}&proto={self.transport}&mountport={self.mount}&noresvport"  # see e2e/trace.py

    def run(self, script):
        return Linux(script, forwards=dict(zip((self.tcp, self.rdma, self.mount), PORTS)))


def look_around(scratch, server):
    """Names, listings, and errors of the server."""
    put = server.put
    said = run("ping", "-c", 2, "-i", 10, server.url("/srv/x")).decode()
    assert f"NFS version {server.version} over {server.transport.upper()}" in said, said
    sizes = {name: os.path.getsize(f"{scratch}/mine/{name}") for name in os.listdir(f"{scratch}/mine")}
    listed = run("ls", server.url("/srv/x/made")).decode().split()
    assert listed == sorted(sizes), listed
    _, *rows = [row.split() for row in run("ls", "-l", server.url("/srv/x/made")).decode().splitlines()]
    assert {row[-1]: int(row[4]) for row in rows} == sizes, rows
    with open(f"{scratch}/got/4097", "rb") as got:
        assert run("cat", server.url("/srv/x/made/4097")) == got.read()
    assert run("cat", server.url("/srv/ro/file")) == b"stays\n"
    refused("cat", server.url("/srv/x/absent"), mentions=["absent: no such file"])
    refused("cp", f"{scratch}/mine/3", server.url("/srv/ro/new"), mentions=["read-only"])

    run("mkdir", server.url(f"{put}/one"), server.url(f"{put}/two"))
    run("cp", f"{scratch}/mine/4097", server.url(f"{put}/one/file"))
    run("chmod", "640", server.url(f"{put}/one/file"))
    run("ln", server.url(f"{put}/one/file"), f"{put}/two")
    run("ln", "-s", "two/file", server.url(f"{put}/soft"))
    run("mv", server.url(f"{put}/one/file"), f"{put}/two/moved")
    with open(f"{scratch}/mine/4097", "rb") as mine:
        assert run("cat", server.url(f"{put}/soft")) == mine.read()
    row = run("ls", "-l", server.url(f"{put}/two/moved")).split()
    assert row[:2] == [b"-rw-r-----", b"2"], row
    refused("rmdir", server.url(f"{put}/two"), mentions=["not empty"])
    refused("rm", server.url(f"{put}/two"), mentions=["is a directory"])
    run("rm", *(server.url(f"{put}/{name}") for name in ("two/file", "two/moved", "soft")))
    run("rmdir", server.url(f"{put}/one"), server.url(f"{put}/two"))


def folders_of(scratch, sizes):
    """Makes the folder "mine" with files to upload and the folder "got" for downloads. Returns the script."""
    for folder in ("mine", "got"):
        os.mkdir(f"{scratch}/{folder}")
    make_sizes(f"{scratch}/mine", sizes)
    return SERVE + MAKE % " ".join(f"{name}={size}" for name, size in sizes.items()) + TELL


def move(scratch, server, names):
    for name in names:
        run("cp", server.url(f"/srv/x/made/{name}"), f"{scratch}/got/{name}")
        run("cp", f"{scratch}/mine/{name}", server.url(f"{server.put}/{name}"))


def finish(scratch, server, guest):
    run("cp", f"{scratch}/mine/0", server.url("/srv/x/finished"))
    return guest.finish(120)


def files(scratch, server):
    """Every file size from and to the kernel's server, and look_around."""
    body = folders_of(scratch, SIZES)
    with server.run(body) as guest:
        guest.wait_for("==== nfsd up", 120)
        with Capture(server.name, server):
            move(scratch, server, SIZES)
            look_around(scratch, server)
        lines = finish(scratch, server, guest)
    assert_same(digests(f"{scratch}/got"), hashes(lines, "made"), "what penstock read from the kernel's server")
    assert_same(hashes(lines, "put"), digests(f"{scratch}/mine"), "what penstock wrote to the kernel's server")


def core(scratch):
    """Every version over both transports against one guest: files of several sizes in both directions, and look_around."""
    require()
    ports = free_ports(3)
    servers = [KernelServer(transport, version, f"put-{transport}-{version}", ports)
               for version in ("3", "4.0", "4.1", "4.2") for transport in ("rdma", "tcp")]
    got = {}
    with servers[0].run(folders_of(scratch, CORE_SIZES)) as guest:
        guest.wait_for("==== nfsd up", 120)
        with Capture("core_server", servers[0]):
            for server in servers:
                run("mkdir", server.url(server.put))
                for name in os.listdir(f"{scratch}/got"):
                    os.unlink(f"{scratch}/got/{name}")
                move(scratch, server, CORE_SIZES)
                look_around(scratch, server)
                got[server.name] = digests(f"{scratch}/got")
        lines = finish(scratch, servers[0], guest)
    for server in servers:
        assert_same(got[server.name], hashes(lines, "made"), f"what penstock read: {server.name}")
        assert_same(hashes(lines, os.path.basename(server.put)), digests(f"{scratch}/mine"), f"what penstock wrote: {server.name}")


RESTART = """
late() {
  echo "no restart yet"; ls -l /srv/x/put
  for task in /proc/[0-9]*; do case $(cat $task/comm) in *nfsd* | rpc.mountd) cat $task/comm $task/stack ;; esac; done
}
echo "==== nfsd up"
(sleep 60; late) & watch=$!
while [ ! -s /srv/x/put/large ]; do sleep 0.1; done
rpc.nfsd 0 && start || exit 1
kill $watch
echo "==== restarted, $(stat -c %s /srv/x/put/large) are there"
while [ ! -e /srv/x/put/finished ]; do sleep 1; done
echo "put $(b2sum /srv/x/put/large)"
"""


def restart(scratch, server):
    """The server is stopped and started again during an upload. (siw sends a Terminate for the RDMA Reads under way,
    which a check of the capture would have to permit.)"""
    make(f"{scratch}/large", 200 * MIB)
    make(f"{scratch}/finished", 0)
    with server.run(SERVE + RESTART) as guest:
        guest.wait_for("==== nfsd up", 120)
        with under_way("-v", "cp", "-q", f"{scratch}/large", server.url("/srv/x/put/large")) as upload:
            guest.wait_for("==== restarted", 200)
            assert upload.poll() is None, "the upload was over before the server was stopped"
            assert upload.wait(120) == 0
        run("cp", f"{scratch}/finished", server.url("/srv/x/put/finished"))
        lines = guest.finish(120)
    assert hashes(lines, "put") == {"large": digest(f"{scratch}/large")}


CASES = {(version, transport): (files,) for version in ("3", "4.0", "4.1", "4.2") for transport in ("rdma", "tcp")}
CASES["4.0", "tcp"] += (restart,)
CASES["4.1", "rdma"] += (restart,)


def cases():
    yield "core", core
    for (version, transport), functions in CASES.items():
        for function in functions:
            def case(scratch, do=function, transport=transport, version=version):
                require()
                do(scratch, KernelServer(transport, version))

            name = transport if version == "3" else f"{transport}_v{version.replace('.', '')}"
            yield name if function is files else f"{name}_{function.__name__}", case


if __name__ == "__main__":
    main(dict(cases()))
