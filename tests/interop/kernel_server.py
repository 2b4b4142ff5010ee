#!/usr/bin/python3
"""`penstock ping|ls|cat|cp` against the Linux kernel's own NFSv3 server in a guest, over RDMA and over TCP."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import Skip, main  # noqa: E402
from files import SIZES, assert_same, digests, make_sizes  # noqa: E402
from guest import Guest, GuestUnavailable, hashes  # noqa: E402
from penstock import free_ports, penstock_ok as run  # noqa: E402

# Version 3 needs rpcbind and mountd, as on any Linux server; all of it runs in the guest.
SERVE = """
mount -t nfsd nfsd /proc/fs/nfsd; mount -t tmpfs lib /var/lib/nfs
mkdir -p /var/lib/nfs/v4recovery /var/lib/nfs/sm /srv/x; : >/var/lib/nfs/etab; : >/var/lib/nfs/rmtab
mount -t tmpfs -o size=70% srv /srv/x; chmod 777 /srv/x; mkdir /srv/x/made /srv/x/put; chmod 777 /srv/x/put
echo '/srv/x *(rw,insecure,no_root_squash,no_subtree_check,fsid=1)' >/etc/exports
rpcbind && exportfs -ra && rpc.nfsd -V 3 --rdma=20049 4 && rpc.mountd -V 3 -p 20048 || exit 1
"""
MAKE = "for size in %s; do head -c ${size#*=} /dev/urandom >/srv/x/made/${size%%=*}; done\n"
TELL = """
for f in /srv/x/made/*; do echo "made $(sha256sum $f)"; done
echo "==== nfsd up"
while [ ! -e /srv/x/put/finished ]; do sleep 1; done
for f in /srv/x/put/*; do echo "put $(sha256sum $f)"; done
"""


def exchange(scratch, transport):
    """Every file size from and to the kernel's server."""
    tcp, rdma, mount = free_ports(3)
    os.mkdir(f"{scratch}/mine")
    os.mkdir(f"{scratch}/got")
    make_sizes(f"{scratch}/mine")

    def url(path):
        return f"nfs://127.0.0.1:{rdma if transport == 'rdma' else tcp}{path}?vers=3&proto={transport}&mountport={mount}"

    body = SERVE + MAKE % " ".join(f"{name}={size}" for name, size in SIZES.items()) + TELL
    try:
        guest = Guest(body, forwards={tcp: 2049, rdma: 20049, mount: 20048})
    except GuestUnavailable as why:
        raise Skip(str(why)) from None
    with guest:
        guest.wait_for("==== nfsd up", 120)
        run("ping", url("/srv/x"))
        listed = run("ls", url("/srv/x/made")).decode().split()
        assert all(name in listed for name in SIZES), listed
        for name in SIZES:
            run("cp", url(f"/srv/x/made/{name}"), f"{scratch}/got/{name}")
            run("cp", f"{scratch}/mine/{name}", url(f"/srv/x/put/{name}"))
        with open(f"{scratch}/got/4097", "rb") as got:
            assert run("cat", url("/srv/x/made/4097")) == got.read()
        run("cp", f"{scratch}/mine/0", url("/srv/x/put/finished"))
        lines = guest.finish(60)
    put = hashes(lines, "put")
    put.pop("finished", None)
    assert_same(digests(f"{scratch}/got"), hashes(lines, "made"), "what penstock read from the kernel's server")
    assert_same(put, digests(f"{scratch}/mine"), "what penstock wrote to the kernel's server")


if __name__ == "__main__":
    main({"rdma": lambda scratch: exchange(scratch, "rdma"), "tcp": lambda scratch: exchange(scratch, "tcp")})
