#!/usr/bin/python3
"""A Linux client of version 4 follows referrals from one server to another, and so does ours at the default ports.

Linux mounts a referral by itself when a program enters its directory. It asks the other server at the default ports: first for RDMA,
then over TCP, whatever the first mount uses, and whatever port the location has. So both servers need addresses of their own. The
client that has no RDMA device on their network uses TCP. Each case leaves a capture of its traffic for check_capture.py.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import namespaces  # noqa: E402
import tap  # noqa: E402
from capture import Capture  # noqa: E402
from cases import main  # noqa: E402
from guest import Guest  # noqa: E402
from linux import require  # noqa: E402
from penstock import Server, penstock_ok  # noqa: E402

OURS, OTHERS = "10.9.0.1", "10.9.0.3"
NOBODY = "10.9.0.4"  # no server has this address
PORTS = (2049, 20049, 20048)
VERSIONS = ("4.0", "4.1", "4.2")

WORK = """
check() { grep " $1 nfs4 .*vers=$2,.*proto=%(transport)s,.*addr=$3[ ,]" /proc/mounts || exit 1; }
for version in %(versions)s; do
  mkdir -p /mnt
  mount -t nfs -o vers=$version,proto=%(transport)s %(ours)s:/ /mnt || exit 1
  ls -l /mnt || exit 1
  grep -c ' nfs4 ' /proc/mounts | grep -qx 1 || exit 1
  echo "far $version $(cat /mnt/far/host)"
  check /mnt/far $version %(others)s
  echo $version >/mnt/far/from-$version || exit 1
  mkdir /mnt/far/made && mv /mnt/far/from-$version /mnt/far/made && cp /mnt/far/made/* /mnt/far/ && rm -r /mnt/far/made || exit 1
  mv /mnt/here/file-$version /mnt/far/ || exit 1
  echo "up $version $(ls /mnt/far/.. | tr '\\n' ' ')"
  echo "chain $version $(cat /mnt/chain/host)"
  check /mnt/chain $version %(ours)s
  echo "two $version $(cat /mnt/two/host)"
  check /mnt/two $version %(others)s
  cat /mnt/nowhere/host && exit 1
  echo "here $version $(cat /mnt/here/host)"
  for path in $(grep -o ' /mnt/[^ ]* nfs4 ' /proc/mounts | cut -d ' ' -f 2 | sort -r); do umount $path || exit 1; done
  umount /mnt || exit 1
done
"""


def folder(scratch, name):
    path = f"{scratch}/{name}"
    os.mkdir(path)
    os.chmod(path, 0o777)
    with open(f"{path}/host", "w") as file:
        file.write(name)
    return path


def referrals(transport):
    def run(scratch, name):
        require()
        tap.make(OURS, OTHERS, NOBODY)
        here, far, end = (folder(scratch, each) for each in ("here", "far", "end"))
        for version in VERSIONS:
            with open(f"{here}/file-{version}", "w") as file:
                file.write(version)
            os.chmod(f"{here}/file-{version}", 0o666)
        ours = {"/here": f"{here}:no_root_squash", "/end": f"{end}:no_root_squash", "/far": f"none:refer=/data@{OTHERS}",
                "/chain": f"none:refer=/next@{OTHERS}", "/two": f"none:refer=/data@{NOBODY}+{OTHERS}.8.2:/absent@{OURS}",
                "/nowhere": f"none:refer=/absent@{OTHERS}"}
        others = {"/data": f"{far}:no_root_squash", "/next": f"none:refer=/end@{OURS}"}
        body = tap.UP + (tap.RDMA if transport == "rdma" else "") + WORK % {
            "transport": transport, "versions": " ".join(VERSIONS), "ours": OURS, "others": OTHERS}
        with Server(ours, ports=PORTS, address=OURS) as server, Server(others, ports=PORTS, address=OTHERS), \
                Capture(name, server, interface=tap.TAP), Guest(body, taps=[tap.TAP]) as guest:
            lines = guest.finish(300)
            for version in VERSIONS:  # our own client, at the same default ports
                url = f"nfs://{OURS}/chain/host?vers={version}&proto={transport}"
                assert penstock_ok("cat", url) == b"end", url
        for version in VERSIONS:
            for said in (f"far {version} far", f"chain {version} end", f"two {version} far", f"here {version} here",
                         f"up {version} chain end far here nowhere two "):
                assert said.strip() in (line.strip() for line in lines), f"the guest did not say {said!r}"
        names = {f"{kind}-{version}" for kind in ("from", "file") for version in VERSIONS}
        assert set(os.listdir(far)) == names | {"host"}, os.listdir(far)
        for each in names:
            with open(f"{far}/{each}") as file:
                assert file.read().strip() == each[5:], each
        assert os.listdir(here) == ["host"], os.listdir(here)

    return run


CASES = {f"referrals_{transport}": referrals(transport) for transport in ("rdma", "tcp")}

if __name__ == "__main__":
    namespaces.enter()
    main({name: lambda scratch, do=do, name=name: do(scratch, name) for name, do in CASES.items()})
