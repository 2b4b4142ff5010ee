#!/usr/bin/python3
"""A stock Linux kernel mounts the exports of `penstock serve`, over RDMA and over TCP, and works on them.

Each case leaves a capture of its traffic for check_capture.py; the case `core` leaves two.
"""

import os
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from capture import Capture  # noqa: E402
from cases import main  # noqa: E402
from files import CORE_SIZES, MIB, SIZES, assert_same, describe, digest, digests, make, make_sizes  # noqa: E402
from linux import Linux, with_programs  # noqa: E402
from mounts import SHELL, EveryMount, Mount, exported, serve  # noqa: E402
from penstock import INSIDE  # noqa: E402
from script import hashes  # noqa: E402

FILES = """
mkdir /mnt/guest /tmp/guest
for size in %(sizes)s; do octets ${size#*=} >/tmp/guest/${size%%=*}; done
for f in /tmp/guest/*; do cp $f /mnt/guest/ || exit 1; done
for f in /tmp/guest/*; do echo "made $(b2sum $f)"; done
drop_caches
for f in /mnt/guest/*; do echo "readback $(b2sum $f)"; done
for f in /mnt/host/*; do echo "read $(b2sum $f)"; done
"""


def files(scratch, mount):
    """Files of every size: written in the guest and read on the host, read back, and the other way round."""
    folder = exported(scratch)
    os.mkdir(f"{folder}/host")
    make_sizes(f"{folder}/host")
    sizes = " ".join(f"{name}={size}" for name, size in SIZES.items())
    with serve(folder) as server, Capture(mount.name_of("files"), server):
        with Linux(mount.script(server, FILES % {"sizes": sizes})) as guest:
            lines = guest.finish(300)
    made = hashes(lines, "made")
    assert set(made) == set(SIZES), made
    assert_same(digests(f"{folder}/guest"), made, "what the guest wrote, read on the host")
    assert_same(hashes(lines, "readback"), made, "what the guest wrote, read back by it")
    assert_same(hashes(lines, "read"), digests(f"{folder}/host"), "what the host wrote, read by the guest")


# Files in each directory. Many files would take an emulated machine with both ends on it a long time.
FILES_EACH, DIRECTORIES = 10 if INSIDE else 50, 40
TREE = """
cd /mnt
d=0; while [ $d -lt %(directories)d ]; do
  dir=tree/a$((d %% 4))/b$((d %% 8))/c$((d %% 16))/d/e/f/g$d; mkdir -p $dir || exit 1
  f=0; while [ $f -lt %(each)d ]; do echo "$d $f" >$dir/file$f || exit 1; f=$((f + 1)); done
  d=$((d + 1)); done
drop_caches
echo "created $(find tree -type f | wc -l)"
ls -lR tree >/tmp/listing || exit 1; echo "listed $(grep -c '^-.*file' /tmp/listing)"
find tree -type f -name 'file*5' | while read f; do mv $f ${f%%/*}/moved${f##*/} || exit 1; done
echo "renamed $(find tree -name 'movedfile*5' -type f | wc -l)"
find tree -type d -name 'g1*' | while read d; do ln $d/file1 $d/hard && ln -s file2 $d/soft || exit 1; done
mv tree/a3 tree/elsewhere || exit 1
drop_caches
echo "hardlinks $(find tree -name hard -links 2 | wc -l)"
echo "symlinks $(find tree -name soft -type l | while read l; do readlink $l; cat $l >/dev/null || exit 1; done | wc -l)"
echo "checked $(find tree -name file3 | while read f; do read d n <$f; [ $n = 3 ] && echo $d; done | sort -u | wc -l)"
""" % {"each": FILES_EACH, "directories": DIRECTORIES}
TREE_REMOVED = """
rm -r /mnt/tree || exit 1
drop_caches
echo "left $(ls -A /mnt | wc -l)"
cd /
"""


def tree(scratch, mount):
    """Files in deep directories, 2,000 of them unless inside a guest: created, listed, renamed, hard- and symlinked,
    removed."""
    folder = exported(scratch)
    count, moved = FILES_EACH * DIRECTORIES, sum(number % 10 == 5 for number in range(FILES_EACH)) * DIRECTORIES
    with serve(folder) as server, Capture(mount.name_of("tree"), server):
        # The host looks at the tree before the guest removes it.
        body = TREE + "echo look; read line\n" + TREE_REMOVED
        with Linux(mount.script(server, body)) as guest:
            guest.wait_for("^look$", 300)
            on_host = describe(f"{folder}/tree")
            names = [os.path.basename(path) for path in on_host]
            assert sum(name.startswith(("file", "moved")) for name in names) == count
            assert sum(name.startswith("movedfile") for name in names) == moved
            assert names.count("hard") == names.count("soft") == 11
            assert any(path.startswith("elsewhere/") for path in on_host) and not os.path.exists(f"{folder}/tree/a3")
            guest.go_on()
            lines = guest.finish(300)
    for said in (f"created {count}", f"listed {count}", f"renamed {moved}", "hardlinks 11", "symlinks 11", f"checked {DIRECTORIES}",
                 "left 0"):
        assert any(line.strip() == said for line in lines), f"the guest did not say {said!r}"
    assert os.listdir(folder) == []


def real_tree(scratch, least=4 * MIB):
    """Some megabytes of the host's documentation, with its links and modes."""
    target, size = f"{scratch}/doc", 0
    os.mkdir(target)
    for name in sorted(os.listdir("/usr/share/doc")):
        source = f"/usr/share/doc/{name}"
        if not os.path.isdir(source) or os.path.islink(source):
            continue
        subprocess.run(["cp", "-a", source, target], check=True)
        size += sum(os.lstat(os.path.join(top, file)).st_size for top, _, names in os.walk(source) for file in names)
        if size >= least:
            return target
    raise AssertionError("/usr/share/doc is too small")


COPY = """
content() {
  cd $1 || exit 1
  find . -type f | sort | tr '\\n' '\\0' | xargs -0 b2sum
  find . -type l | sort | while read -r l; do echo "$l -> $(readlink "$l")"; done
  cd /
}
compare() { content $1 >/tmp/one; content $2 >/tmp/other; cmp /tmp/one /tmp/other && echo "same $3 $(wc -l </tmp/one)"; }
cp -a /doc /mnt/in || exit 1
drop_caches
compare /doc /mnt/in in
cp -a /mnt/in /mnt/within || exit 1
drop_caches
compare /mnt/in /mnt/within within
cp -a /mnt/within /tmp/out || exit 1
compare /doc /tmp/out out
"""


def copy(scratch, mount):
    """`cp -a` of a real tree into, within and out of the mount, compared there and on the host."""
    folder, source = exported(scratch), real_tree(scratch)
    wanted = describe(source)
    with serve(folder) as server, Capture(mount.name_of("copy"), server):
        with Linux(mount.script(server, COPY), files={"doc": source}) as guest:
            lines = guest.finish(300)
    count = sum(kind[0] in (stat.S_IFREG, stat.S_IFLNK) for kind in wanted.values())
    for said in (f"same in {count}", f"same within {count}", f"same out {count}"):
        assert said in lines, f"the guest did not say {said!r}"
    assert_same(describe(f"{folder}/in"), wanted, "copied in")
    assert_same(describe(f"{folder}/within"), wanted, "copied within")


COUNT = 40
RESTART = """
mkdir /tmp/from /mnt/to
n=0; while [ $n -lt %(count)d ]; do octets 1500001 >/tmp/from/$n; n=$((n + 1)); done
n=0; while [ $n -lt %(count)d ]; do cp /tmp/from/$n /mnt/to/$n || exit 1; echo "copied $n"; n=$((n + 1)); done
for f in /tmp/from/*; do echo "made $(b2sum $f)"; done
drop_caches
n=0; while [ $n -lt %(count)d ]; do
  echo "readback $(b2sum /mnt/to/$n)"; cmp /mnt/host/$n /mnt/host/$n.twin || exit 1; echo "compared $n"; n=$((n + 1)); done
"""


def restart(scratch, mount):
    """The server is killed and started again under the mount, once during a copy to it and once during a copy from it."""
    folder = exported(scratch)
    os.mkdir(f"{folder}/host")
    for number in range(COUNT):
        make(f"{folder}/host/{number}", 300001)
        subprocess.run(["cp", f"{folder}/host/{number}", f"{folder}/host/{number}.twin"], check=True)
    with serve(folder) as server, Capture(mount.name_of("restart"), server, restarted=True):
        with Linux(mount.script(server, RESTART % {"count": COUNT})) as guest:
            for moment in ("copied 5", "compared 5"):
                guest.wait_for(f"^{moment}$", 300)
                server.kill()
                server.start()
            lines = guest.finish(300)
    made = hashes(lines, "made")
    assert len(made) == COUNT
    assert_same(digests(f"{folder}/to"), made, "what was copied while the server restarted, on the host")
    assert_same(hashes(lines, "readback"), made, "what was copied while the server restarted, read back")


FEATURES = """
cd /mnt
echo alive >kept; exec 3<kept; rm kept; echo "unlinked $(cat <&3)"; exec 3<&-
(set -C; echo first >exclusive) || exit 1
(set -C; echo second >exclusive) 2>/dev/null && exit 1
echo "exclusive $(cat exclusive)"
octets 8388608 >sparse; sync
/usr/bin/fallocate -p -o 1048576 -l 4194304 sparse || exit 1
/usr/bin/cp --sparse=always sparse copied || exit 1
/usr/bin/cp --reflink=auto sparse /mnt/folder/again || exit 1
/usr/bin/fallocate -l 3000000 grown || exit 1
drop_caches
for f in sparse copied folder/again; do echo "made $(b2sum $f | tr / _)"; done
echo "size $(stat -c %s grown)"
/usr/bin/setfattr -n user.colour -v blue exclusive || exit 1
echo "attribute $(/usr/bin/getfattr --only-values -n user.colour exclusive)"
/usr/bin/setfattr -x user.colour exclusive || exit 1
echo "attributes $(/usr/bin/getfattr exclusive | wc -l)"
/usr/bin/nfs4_setfacl -a A::1234:rw exclusive || exit 1
echo "acl $(/usr/bin/nfs4_getfacl exclusive | grep -c 'A::1234:')"
/usr/bin/flock exclusive -c '/usr/bin/flock -n exclusive -c "echo both" || echo "locked out"'
chmod 640 exclusive && chown 17:18 exclusive && touch -d '2001-02-03 04:05:06' exclusive || exit 1
drop_caches
echo "state $(stat -c '%a %u %g %Y' exclusive)"
files /mnt/files || exit 1
"""


def features(scratch, mount):
    """The additions of version 4.2, and other functions that an application expects of a local file system."""
    folder = exported(scratch)
    os.mkdir(f"{folder}/folder")
    os.chmod(f"{folder}/folder", 0o777)
    with serve(folder) as server, Capture(mount.name_of("features"), server):
        with Linux(mount.script(server, FEATURES), files=with_programs("files")) as guest:
            lines = guest.finish(300)
    for said in ("unlinked alive", "exclusive first", "size 3000000", "attribute blue", "attributes 0", "acl 1", "locked out",
                 "state 640 17 18 981173106"):
        assert said in lines, f"the guest did not say {said!r}"
    made = hashes(lines, "made")
    assert len(made) == 3 and len(set(made.values())) == 1, made
    assert digest(f"{folder}/sparse") == made["sparse"], "the host sees other data than the guest wrote"
    with open(f"{folder}/sparse", "rb") as sparse:
        sparse.seek(1 << 20)
        assert not sparse.read(4 << 20).strip(b"\0"), "the punched hole is not zero"
    assert os.stat(f"{folder}/sparse").st_blocks * 512 < 8 << 20, "nothing was punched out"


MANY = 300
ACLS = """
lists() { for f in "$@"; do echo "list $f: $(getfacl -cnp $f | tr '\\n' ' ')"; done; }
echo 'reader:x:1234:1234::/:/bin/sh' >>/etc/passwd
echo 'nobody:x:1235:1235::/:/bin/sh' >>/etc/passwd
as() { su $1 -c "$2" 2>/dev/null && echo "$1 may $3" || echo "$1 may not $3"; }
cd /mnt
umask 022
for f in plain named bare moded; do echo data >$f && chmod 640 $f || exit 1; done
setfacl -m u:1234:rw,g:77:r named bare moded || exit 1
setfacl -b bare || exit 1
chmod 604 moded || exit 1
mkdir above && setfacl -m d:u:1234:rwx,d:o::-,g:77:rx above || exit 1
umask 077
echo data >above/file && mkdir -p above/inner/inner && mkfifo above/pipe && ln -s file above/link || exit 1
umask 022
mkdir removed && setfacl -m u:1234:rwx,d:u:1234:rwx removed && setfacl -k removed || exit 1
/usr/bin/cp -a named copied || exit 1
echo data >many; n=0; while [ $n -lt %(many)d ]; do echo "u:$((n + 2000)):rw"; n=$((n + 1)); done | setfacl -M- many || exit 1
echo data >full; n=0; while [ $n -lt 1000 ]; do echo "u:$((n + 2000)):rw"; n=$((n + 1)); done | setfacl -M- full && exit 1
drop_caches
lists plain named bare moded above above/file above/inner above/inner/inner above/pipe removed copied full
echo "entries $(getfacl -cnp many | grep -c :rw-)"
stat -c 'mode %%n: %%a' named moded above/file
as reader 'cat /mnt/named >/dev/null' read
as nobody 'cat /mnt/named >/dev/null' read
as reader 'setfacl -m u:1235:r /mnt/named' change
echo 'look'; read line
drop_caches
lists plain above
""" % {"many": MANY}


def one_list(path):
    """Returns what getfacl of this host prints, in one line."""
    shown = subprocess.run(["getfacl", "-cnp", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    return shown.replace("\n", " ").strip()


def acls(scratch, mount):
    """POSIX access control lists by NFSACL: set and shown by the guest, and compared with those that the host sees. New
    objects inherit the default list of their directory, whatever the umask."""
    folder = exported(scratch)
    named = "user::rw- user:1234:rw- group::r-- group:77:r-- mask::rw- other::---"
    above = ("user::rwx group::r-x group:77:r-x mask::r-x other::r-x default:user::rwx default:user:1234:rwx default:group::r-x "
             "default:mask::rwx default:other::---")
    wanted = {
        "plain": "user::rw- group::r-- other::---", "named": named, "copied": named,
        "bare": "user::rw- group::r-- other::---", "full": "user::rw- group::r-- other::r--",
        "moded": "user::rw- user:1234:rw- #effective:--- group::r-- #effective:--- group:77:r-- #effective:--- mask::--- other::r--",
        "above": above, "removed": "user::rwx user:1234:rwx group::r-x mask::rwx other::r-x",
        "above/file": "user::rw- user:1234:rwx #effective:rw- group::r-x #effective:r-- mask::rw- other::---",
        "above/pipe": "user::rw- user:1234:rwx #effective:rw- group::r-x #effective:r-- mask::rw- other::---",
        "above/inner": "user::rwx user:1234:rwx group::r-x mask::rwx other::--- default:user::rwx default:user:1234:rwx "
                       "default:group::r-x default:mask::rwx default:other::---",
    }
    wanted["above/inner/inner"] = wanted["above/inner"]
    with serve(folder) as server, Capture(mount.name_of("acls"), server):
        with Linux(mount.script(server, ACLS)) as guest:
            guest.wait_for("^look$", 300)
            on_host = {name: " ".join(one_list(f"{folder}/{name}").split()) for name in wanted}
            # The guest sees what the host changes.
            subprocess.run(["setfacl", "-m", "u:4321:r", f"{folder}/plain"], check=True)
            subprocess.run(["setfacl", "-k", f"{folder}/above"], check=True)
            guest.go_on()
            lines = [" ".join(line.split()) for line in guest.finish(300)]
    shown = [line.removeprefix("list ").split(": ", 1) for line in lines if line.startswith("list ")]
    before, after = dict(shown[:len(wanted)]), dict(shown[len(wanted):])
    assert_same(before, wanted, "the lists that the guest sees")
    assert_same(on_host, wanted, "the lists that the host sees")
    assert_same(after, {"plain": "user::rw- user:4321:r-- group::r-- mask::r-- other::---", "above": above.split(" default:")[0]},
                "the lists after the host changed them")
    for said in (f"entries {MANY + 2}", "mode named: 660", "mode moded: 604", "mode above/file: 660", "reader may read",
                 "nobody may not read", "reader may not change"):
        assert said in lines, f"the guest did not say {said!r}"


CORE_FILES = """
for size in %(sizes)s; do octets ${size#*=} >/tmp/made/${size%%=*}; done
for f in /tmp/made/*; do echo "made $(b2sum $f)"; done
for m in $mounts; do mkdir /mnt/$m/$m && cp /tmp/made/* /mnt/$m/$m/ || exit 1; done
drop_caches
for m in $mounts; do
  for f in /mnt/$m/$m/*; do echo "readback-$m $(b2sum $f)"; done
  for f in /mnt/$m/host/*; do echo "read-$m $(b2sum $f)"; done
done
"""
CORE_LEAST = 4
CORE_RESTART = """
copies() {
  mkdir /mnt/$1/to-$1 || exit 1
  n=0; while [ $n -lt %(least)d ] || [ ! -e /tmp/restarted ]; do
    cp /tmp/copied /mnt/$1/to-$1/$n || exit 1
    echo "copied $1 $n"
    n=$((n + 1)); done
}
octets 1500001 >/tmp/copied; echo "source $(b2sum /tmp/copied)"
copying=; for m in $mounts; do copies $m & copying="$copying $!"; done
read line; : >/tmp/restarted
for c in $copying; do wait $c || exit 1; done
drop_caches
for m in $mounts; do for f in /mnt/$m/to-$m/*; do echo "copy-$m $(b2sum $f)"; done; done
""" % {"least": CORE_LEAST}


def core(scratch):
    """Every version over both transports, as eight clients in one guest: files of several sizes with their digests.
    Then all eight copy at the same time, and continue until the server has been killed and started again."""
    folder, every = exported(scratch), EveryMount()
    os.mkdir(f"{folder}/host")
    make_sizes(f"{folder}/host", CORE_SIZES)
    sizes = " ".join(f"{name}={size}" for name, size in CORE_SIZES.items())
    with serve(folder, lease=20) as server:
        body = (SHELL + "mkdir /tmp/made; read line\n" + every.mount(server) + CORE_FILES % {"sizes": sizes} + every.unmount() +
                "echo 'files done'; read line\n" + every.mount(server) + CORE_RESTART + every.unmount())
        with Linux(body) as guest:
            with Capture("core_files", server):
                guest.go_on()
                guest.wait_for("^files done$", 400)
            with Capture("core_restart", server, restarted=True):
                guest.go_on()
                for name in every.names:
                    guest.wait_for(f"^copied {name} 1$", 200)
                server.kill()
                server.start()
                guest.go_on()
                lines = guest.finish(400)
    made, on_host = hashes(lines, "made"), digests(f"{folder}/host")
    source = hashes(lines, "source")["copied"]
    assert set(made) == set(on_host) == set(CORE_SIZES), made
    for name in every.names:
        assert_same(digests(f"{folder}/{name}"), made, f"what the guest wrote through {name}, on the host")
        assert_same(hashes(lines, f"readback-{name}"), made, f"what the guest wrote through {name}, read back by it")
        assert_same(hashes(lines, f"read-{name}"), on_host, f"what the host wrote, read through {name}")
        count = sum(line.startswith(f"copied {name} ") for line in lines)
        assert count >= CORE_LEAST, f"{name} has copied {count} files"
        copies = {str(number): source for number in range(count)}
        assert_same(digests(f"{folder}/to-{name}"), copies, f"what was copied through {name} during the restart, on the host")
        assert_same(hashes(lines, f"copy-{name}"), copies, f"what was copied through {name} during the restart, read back")


# The cases for each mount. Version 3 runs all of them. Version 4 runs each case at least once, over one of the
# transports. Over RDMA by an adapter, 4.1 runs all of them too (verbs.py).
CASES = {("3", transport): (files, tree, copy, restart, acls) for transport in ("rdma", "tcp")} | {
    ("4.0", "rdma"): (files,),
    ("4.0", "tcp"): (restart,),
    ("4.1", "rdma"): (files, tree, copy, restart),
    ("4.1", "tcp"): (copy,),
    ("4.2", "rdma"): (features,),
    ("4.2", "tcp"): (features,),
}


def cases():
    yield "core", core
    for (version, transport), functions in CASES.items():
        for function in functions:
            mount = Mount(transport, version)
            yield mount.name_of(function.__name__), lambda scratch, do=function, where=mount: do(scratch, where)


if __name__ == "__main__":
    main(dict(cases()))
