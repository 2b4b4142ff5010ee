#!/usr/bin/python3
"""Quotas of a real file system: in a guest whose kernel keeps them, `penstock serve` exports ext4 with quotas, the same
kernel mounts the export as clients do that know only the host's name (rpcbind), and quota(1) shows the quotas."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import guest_image  # noqa: E402
from cases import Skip, main  # noqa: E402
from guest import Guest  # noqa: E402
from guest_programs import with_libraries  # noqa: E402
from kept import kept  # noqa: E402
from linux import require  # noqa: E402
from penstock import PENSTOCK  # noqa: E402

ADDRESS = "10.0.2.15"
USER, GROUP = 1234, 4321
SCRIPT = """
fail() { echo "FAILED: $*"; cat /tmp/server.log; exit 1; }
losetup /dev/loop0 /disk || exit 1
mkdir -p /srv /mnt /mnt4 && mount -t ext4 -o usrquota,grpquota /dev/loop0 /srv && chmod 777 /srv || exit 1
setquota -u %(user)d 40 100 0 10 /srv && setquota -g %(group)d 0 1000 0 0 /srv || exit 1
rpcbind || exit 1
penstock serve --export /export=/srv:no_root_squash --listen 0.0.0.0 --rpcbind required --state-dir /tmp/state \\
  --rdma iwarp --lease 5 --grace 0 -v >/tmp/server.log 2>&1 &
server=$!
while ! grep -q ^ready /tmp/server.log; do kill -0 $server || fail "the server does not start"; sleep 0.1; done
mount -t nfs -o vers=3,proto=tcp,nolock %(address)s:/export /mnt || fail "mount without ports"
mount -t nfs -o vers=4.2,proto=tcp %(address)s:/export /mnt4 || fail "mount of version 4"
as_user() { su -s /bin/sh user -c "$*"; }
shown() { what=$1; shift; "$@" 2>&1 | while read -r line; do echo "$what| $line"; done; }

as_user "octets 20480 >/mnt/small" || fail "a write within the quota"
sync
shown within as_user "quota -v -w -p -u"
shown of_group as_user "quota -v -w -p -g"
shown by_root quota -v -w -p -u user
shown other as_user "quota -v -w -p -u other"
as_user "octets 30720 >/mnt4/more" || fail "a write beyond the soft limit"
sync
shown beyond as_user "quota -v -w -p -u"
as_user "dd if=/dev/zero of=/mnt/large bs=1024 count=80 conv=fsync" 2>/tmp/error && fail "a write beyond the hard limit succeeds"
sed 's/^/write| /' /tmp/error
cd /; umount /mnt /mnt4 || exit 1
kill $server; wait $server || fail "the server ends with $?"
echo "left| $(rpcinfo -p 127.0.0.1 | grep -c -E '10000[35]|100011')"
""" % {"user": USER, "group": GROUP, "address": ADDRESS}


def disk(scratch):
    """A file system with quotas, in a file."""
    path = f"{scratch}/disk"
    with open(path, "wb") as image:
        image.truncate(8 << 20)
    try:
        subprocess.run(["mkfs.ext4", "-q", "-O", "quota,^has_journal", "-E", "quotatype=usrquota:grpquota", path], check=True)
    except FileNotFoundError:
        raise Skip("mkfs.ext4 is not installed") from None
    return path


def programs():
    """quota(1) and setquota(8) of Debian, unpacked and not installed."""
    unpacked = kept(f"{guest_image.IMAGE_DIR}/quota", lambda target: guest_image.unpack_package("quota", target))
    return (with_libraries("quota", f"{unpacked}/usr/bin/quota") | with_libraries("setquota", f"{unpacked}/usr/sbin/setquota") |
            with_libraries("rpcinfo", "/usr/sbin/rpcinfo"))


def rows(lines, what):
    """Returns the numbers of each line for a file system: blocks, quota, limit, grace, files, quota, limit, grace. An
    asterisk marks what exceeds its quota."""
    found = [line.split("|", 1)[1].split() for line in lines if line.startswith(f"{what}|")]
    print(what, *found, sep="\n  ")
    return [[word for word in row[1:]] for row in found if row and row[0].startswith(ADDRESS)]


def quota(scratch):
    require()
    passwd = (f"root:x:0:0::/:/bin/sh\n_rpc:x:104:65534::/run/rpcbind:/bin/false\nuser:x:{USER}:{GROUP}::/:/bin/sh\n"
              "other:x:1235:1235::/:/bin/sh\n")
    group = f"root:x:0:\nnogroup:x:65534:\ngroup:x:{GROUP}:\n"
    files = programs() | with_libraries("penstock", PENSTOCK) | {
        "disk": disk(scratch), "etc/passwd": passwd.encode(), "etc/group": group.encode()}
    with Guest(SCRIPT, files=files) as there:
        lines = there.finish(300)
    for what in ("within", "by_root"):
        found = rows(lines, what)
        # One line for each mount, of version 3 and of version 4.
        assert len(found) == 2 and all(row[:8] == ["20", "40", "100", "0", "1", "0", "10", "0"] for row in found), found
    found = rows(lines, "of_group")
    assert found and all(row[:3] == ["20", "0", "1000"] for row in found), found
    assert not rows(lines, "other"), "a user learns the quota of another user"
    found = rows(lines, "beyond")
    # The limit of 40 KiB is exceeded, for at most a week.
    assert len(found) == 2 and all(row[0] == "50*" and 0 < int(row[3]) for row in found), found
    assert any(re.match(r"write\|.*quota", line, re.IGNORECASE) for line in lines), "EDQUOT"
    # The kernel's client has registered its lock manager.
    assert any(line.strip() == "left| 0" for line in lines), "a registration of the server is left"


if __name__ == "__main__":
    main({"quota": quota})
