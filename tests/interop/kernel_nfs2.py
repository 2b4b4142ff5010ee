#!/usr/bin/python3
"""A stock Linux kernel mounts an export of `penstock serve --nfs2` by NFS version 2, over RDMA and over TCP in one guest, and
works on it.

The case leaves a capture of its traffic for check_capture.py.
"""

import os
import stat
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from capture import Capture  # noqa: E402
from cases import Skip, main  # noqa: E402
from files import CORE_SIZES, assert_same, digests, make_sizes  # noqa: E402
from linux import Linux, with_programs  # noqa: E402
from mounts import HOST, SHELL, exported, serve  # noqa: E402
from script import hashes  # noqa: E402

TRANSPORTS = ("rdma", "tcp")
# A directory of the host with many names, each in several replies of 8 KiB at most.
CROWD = 3000
MOUNT = """
mkdir -p /mnt/%(transport)s
kernel_mount %(host)s:/export /mnt/%(transport)s \
  vers=2,proto=%(transport)s,port=%(port)d,mountproto=tcp,mountport=%(mount)d,addr=%(host)s,nolock,hard,sec=sys || exit 1
grep ' /mnt/%(transport)s nfs ' /proc/mounts
grep -q ' /mnt/%(transport)s nfs .*vers=2,.*proto=%(transport)s[, ]' /proc/mounts || exit 1
"""
WORK = """
mkdir /tmp/made
for size in %(sizes)s; do octets ${size#*=} >/tmp/made/${size%%=*}; done
for f in /tmp/made/*; do echo "made $(b2sum $f)"; done
for m in rdma tcp; do
  cd /mnt/$m; mkdir $m && cp /tmp/made/* $m/ || exit 1
  drop_caches
  for f in $m/*; do echo "readback-$m $(b2sum $f)"; done
  for f in host/*; do echo "read-$m $(b2sum $f)"; done

  mkdir -p names-$m/a/b/c && cd names-$m || exit 1
  n=0; while [ $n -lt 300 ]; do echo $n >"a file with a longer name $n" || exit 1; n=$((n + 1)); done
  drop_caches
  echo "listed-$m $(ls | grep -c longer)"
  for f in *[05]; do mv "$f" "a/b/c/moved $f" || exit 1; done
  ln 'a file with a longer name 1' hard && ln -s 'a file with a longer name 2' soft || exit 1
  drop_caches
  echo "moved-$m $(ls a/b/c | wc -l) $(cat 'a/b/c/moved a file with a longer name 15') $(cat hard) $(cat soft) $(readlink soft)"
  echo "links-$m $(stat -c %%h hard)"
  rm a/b/c/* && rmdir a/b/c || exit 1
  rmdir a 2>/dev/null && exit 1
  mkfifo fifo && mknod device c 5 1 && mknod block b 8 300 || exit 1
  drop_caches
  echo "types-$m $(stat -c %%F fifo), $(stat -c '%%F %%t %%T' device), $(stat -c '%%F %%t %%T' block)"

  octets 100000 >cut && truncate -s 50000 cut && drop_caches && echo "cut-$m $(stat -c %%s cut) $(wc -c <cut)"
  echo again >cut && drop_caches && echo "overwritten-$m $(cat cut)"
  echo end >>cut && drop_caches && echo "appended-$m $(tail -n 1 cut)"
  chmod 640 cut && chown 17:18 cut && touch -d '2001-02-03 04:05:06' cut && drop_caches || exit 1
  echo "state-$m $(stat -c '%%a %%u %%g %%Y' cut)"
  touch cut && drop_caches; [ $(($(date +%%s) - $(stat -c %%Y cut))) -lt 1000 ] && echo "touched-$m"
  [ $(df -P /mnt/$m | tail -n 1 | awk '{ print $4 }') -gt 0 ] && echo "space-$m"
  (cat /mnt/$m/larger >/dev/null) 2>/tmp/why; echo "larger-$m $(cat /tmp/why)"
  cd /
done

# Both mounts list a directory at the same time, and one removes what it lists.
drop_caches
(find /mnt/tcp/crowd -type f | sed 's/.*.crowd.//' | sort >/tmp/listed) & listing=$!
find /mnt/rdma/gone -type f | wc -l >/tmp/gone
wait $listing || exit 1
echo "crowd $(wc -l </tmp/listed) $(uniq </tmp/listed | wc -l) $(cat /tmp/gone)"
rm -r /mnt/rdma/gone || exit 1
echo "left $(ls -A /mnt/rdma | wc -l)"
cd /; for m in rdma tcp; do umount /mnt/$m || exit 1; done
"""


def work(scratch):
    """Files of several sizes with their digests, many names, links, special files, truncation, attributes, the space of
    the file system, and directories that take many replies."""
    folder = exported(scratch)
    for name in ("host", "crowd", "gone"):
        os.mkdir(f"{folder}/{name}")
    make_sizes(f"{folder}/host", CORE_SIZES)
    for number in range(CROWD):
        for name in ("crowd", "gone"):
            with open(f"{folder}/{name}/a name of some length {number}", "wb"):
                pass
    with open(f"{folder}/larger", "wb") as file:
        file.truncate(1 << 32)
    sizes = " ".join(f"{name}={size}" for name, size in CORE_SIZES.items())
    with serve(folder, more=["--nfs2"]) as server:
        if any("too long" in line for line in server.lines):
            raise Skip("the file handles of the scratch folder's file system are too long for version 2")
        script = SHELL + "".join(MOUNT % {"host": HOST, "transport": transport, "port": getattr(server, transport), "mount": server.mount} for transport in TRANSPORTS)
        with Capture("nfs2", server), Linux(script + WORK % {"sizes": sizes},
                                            files=with_programs("kernel_mount")) as guest:
            lines = guest.finish(900)
    made, on_host = hashes(lines, "made"), digests(f"{folder}/host")
    assert set(made) == set(on_host) == set(CORE_SIZES), made
    for name in TRANSPORTS:
        assert_same(digests(f"{folder}/{name}"), made, f"what the guest wrote through {name}, on the host")
        assert_same(hashes(lines, f"readback-{name}"), made, f"what the guest wrote through {name}, read back by it")
        assert_same(hashes(lines, f"read-{name}"), on_host, f"what the host wrote, read through {name}")
        for said in (f"listed-{name} 300", f"moved-{name} 60 15 1 2 a file with a longer name 2", f"links-{name} 2",
                     f"types-{name} fifo, character special file 5 1, block special file 8 12c", f"cut-{name} 50000 50000",
                     f"overwritten-{name} again", f"appended-{name} end", f"state-{name} 640 17 18 981173106",
                     f"touched-{name}", f"space-{name}"):
            assert said in lines, f"the guest did not say {said!r}"
        assert any(line.startswith(f"larger-{name} ") and "File too large" in line for line in lines), "no error for a large file"
        names = f"{folder}/names-{name}"
        assert stat.S_ISFIFO(os.lstat(f"{names}/fifo").st_mode)
        assert os.lstat(f"{names}/device").st_rdev == os.makedev(5, 1)
        assert os.lstat(f"{names}/block").st_rdev == os.makedev(8, 300)
        assert os.readlink(f"{names}/soft") == "a file with a longer name 2"
    assert f"crowd {CROWD} {CROWD} {CROWD}" in lines, [line for line in lines if line.startswith("crowd")]
    assert len(os.listdir(f"{folder}/crowd")) == CROWD and not os.path.exists(f"{folder}/gone")


if __name__ == "__main__":
    main({"nfs2": work})
