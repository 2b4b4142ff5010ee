#!/usr/bin/python3
"""A stock Linux kernel, a machine of a Kerberos realm, mounts an export of `penstock serve` for Kerberos only. Its
users have tickets. The owners of its files are names.

Each case leaves a capture of its traffic for check_capture.py.
"""

import contextlib
import grp
import os
import pwd
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import guest_kerberos  # noqa: E402
from capture import Capture  # noqa: E402
from cases import main  # noqa: E402
from files import MIB, assert_same, digests  # noqa: E402
from guest import Guest  # noqa: E402
from guest_kerberos import DOMAIN, SERVER, STRANGER, join, uid  # noqa: E402
from guest_programs import carried, with_libraries  # noqa: E402
from kerberos import NAME, USERS  # noqa: E402
from kernel_clients import CALLED_AT  # noqa: E402
from linux import require  # noqa: E402
from mounts import SHELL, Mount, exported  # noqa: E402
from penstock import Server  # noqa: E402
from ports import free_ports  # noqa: E402
from script import hashes  # noqa: E402

SIZES = {"0": 0, "1": 1, "3": 3, "4095": 4095, "4097": 4097, "300k1": 300001, "1m3": MIB + 3}
SECONDS = 300
GROUP = grp.getgrgid(pwd.getpwnam(USERS["alice"]).pw_gid).gr_name  # of alice, on the host


@contextlib.contextmanager
def secured(folder):
    """A realm, and a server in it whose export requires Kerberos."""
    require()
    with guest_kerberos.realm() as realm:
        os.environ.update(realm.environment)
        options = [f"--keytab={guest_kerberos.keytab_of_server(realm)}", "--lease=15", "--grace=15",
                   f"--nfs4-domain={DOMAIN}"]
        with Server({"/export": f"{folder}:sec=krb5:krb5i:krb5p"}, options) as server:
            yield realm, server


MADE = """
ticket alice && ticket bob || exit 1
mkdir /tmp/made && chmod 755 /tmp/made
for size in %(sizes)s; do octets ${size#*=} >/tmp/made/${size%%=*}; done
for f in /tmp/made/*; do echo "made $(b2sum $f)"; done
"""
# Each in its own folder below each mount, so that the guest does not read alice's data from its own memory.
WORK = """
grep ' /mnt .*sec=%(security)s,' /proc/mounts || exit 1
cd /mnt/%(name)s || exit 1
as alice 'mkdir files && cp /tmp/made/* files/' || exit 1
drop_caches
as alice 'for f in files/*; do echo "%(name)s $(b2sum $f)"; done' || exit 1
as alice 'umask 077; echo mine >secret' || exit 1
as bob 'echo his >bobs && cat files/3 >/dev/null' || exit 1
as bob 'cat secret 2>&1' && exit 1
as bob 'rm -f files/3 2>&1' && exit 1
as %(stranger)s 'ls . 2>&1' && exit 1
as %(stranger)s 'ls . 2>&1' | grep -q 'Permission denied' || exit 1
as alice 'cat secret; chmod 640 secret; mv secret told; stat -c "told through %(name)s: %%U %%u %%a" told' || exit 1
%(names)scd /; umount /mnt || exit 1
"""
# Names in both directions, in version 4. The server takes no numbers.
NAMES = """
as alice 'chgrp %(group)s told && nfs4_setfacl -a A::%(bob)s@%(domain)s:r told && nfs4_getfacl told' | sed 's/^/acl %(name)s: /'
as alice 'nfs4_setfacl -a A::unknown@%(domain)s:r told 2>&1' && exit 1
as alice 'nfs4_setfacl -a A::%(bob)s@elsewhere.example:r told 2>&1' && exit 1
stat -c 'owners %(name)s: %%U %%G' told
"""
SYS_REFUSED = """
mount -t nfs -o %(options)s,sec=sys %(server)s:/export /mnt >/tmp/refused 2>&1 && exit 1
sed 's/^/refused %(version)s: /' /tmp/refused
"""
# Without a sec option: the server's answer decides (SECINFO, or MOUNT's list).
NEGOTIATED = """
mount -t nfs -o %(options)s %(server)s:/export /mnt || exit 1
grep ' /mnt nfs4* .*sec=krb5' /proc/mounts || exit 1
as alice 'test -d /mnt/%(folder)s' || exit 1
umount /mnt || exit 1
"""


def files(scratch, name, mounts):
    """Files of several sizes through each mount, their owners, and the access of other users."""
    folder = exported(scratch)
    for mount in mounts:
        os.mkdir(f"{folder}/{mount.name}")
        os.chmod(f"{folder}/{mount.name}", 0o777)
    with secured(folder) as (realm, server), Capture(name, server):
        script = join(server) + SHELL + MADE % {"sizes": " ".join(f"{name}={size}" for name, size in SIZES.items())}
        for mount in mounts:
            script += mount.command(server, host=SERVER)
            words = {"security": mount.security, "name": mount.name, "stranger": STRANGER, "domain": DOMAIN,
                     "group": GROUP, "bob": USERS["bob"]}
            script += WORK % (words | {"names": NAMES % words if mount.version != "3" else ""})
        for mount in mounts[:2]:
            script += (SYS_REFUSED + NEGOTIATED) % {"options": mount.options(server), "server": SERVER,
                                                    "version": mount.version, "folder": mount.name}
        with Guest(script, files=guest_kerberos.files(realm)) as guest:
            lines = guest.finish(SECONDS)
    made = hashes(lines, "made")
    assert set(made) == set(SIZES), made
    for mount in mounts:
        assert_same(hashes(lines, mount.name), made, f"read back through {mount.name}")
        check_folder(f"{folder}/{mount.name}", made)
        told = f"told through {mount.name}: {USERS['alice']} {uid('alice')} 640"
        assert told in lines, f"the guest did not say {told!r}"
        if mount.version == "3":
            continue
        assert f"owners {mount.name}: {USERS['alice']} {GROUP}" in lines, f"{mount.name}: the owners in the guest"
        entry = f"acl {mount.name}: A::{USERS['bob']}@{DOMAIN}:r"
        assert any(line.startswith(entry) for line in lines), f"{mount.name}: no entry {entry}"
    assert lines.count("mine") == len(mounts), "not exactly one user per mount has read alice's secret"
    for mount in mounts[:2]:
        assert any(line.startswith(f"refused {mount.version}: mount") for line in lines), f"{mount.name}, sec=sys"


def check_folder(folder, made):
    """Checks the files on the host."""
    assert_same(digests(f"{folder}/files"), made, f"what alice wrote to {folder}")
    owners = {name: os.stat(f"{folder}/{name}").st_uid for name in ("files", "files/1m3", "told", "bobs")}
    wanted = dict.fromkeys(owners, uid("alice")) | {"bobs": uid("bob")}
    assert_same(owners, wanted, f"whose what is in {folder} is")


LOAD = """
ticket alice || exit 1
mkdir /tmp/model && chmod 777 /tmp/model
as alice 'exec load /mnt/load /tmp/model 17' & worker=$!
read line
killall -TERM load
wait $worker || exit 1
drop_caches
for f in /tmp/model/*; do echo "model $(b2sum $f)"; done
as alice 'for f in /mnt/load/*; do echo "readback $(b2sum $f)"; done' || exit 1
dmesg | grep -i 'reclaim failed' && exit 1
umount /mnt || exit 1
"""


def recovery(scratch, name, mount):
    """The server is killed while a user writes and holds locks. After the restart it knows no security context."""
    folder = exported(scratch)
    with secured(folder) as (realm, server), Capture(name, server, restarted=True):
        script = join(server) + SHELL + mount.command(server, host=SERVER) + LOAD
        with Guest(script, files=guest_kerberos.files(realm) | carried("load")) as guest:
            for _ in range(2):
                guest.wait_for("^round", SECONDS, len(guest.output()))
                server.kill()
                server.start()
            guest.wait_for("^round", SECONDS, len(guest.output()))
            guest.wait_for("^round", SECONDS, len(guest.output()))
            guest.go_on()
            lines = guest.finish(SECONDS)
    model = hashes(lines, "model")
    assert len(model) > 4, model
    assert_same(hashes(lines, "readback"), model, "read back by the guest")
    assert_same(digests(f"{folder}/load"), model, "read on the host")


# The server makes a context with the guest's acceptor, as the guest has made one with the server's (RFC 7530 §3.3.3).
CALLED = CALLED_AT + """
mkdir -p /var/tmp
rpc.svcgssd -f -vv -n >/tmp/svcgssd.log 2>&1 & svcgssd=$!
trap '[ $? = 0 ] || cat /tmp/gssd.log /tmp/svcgssd.log' EXIT
until ls -l /proc/$svcgssd/fd | grep -q auth.rpcsec.init; do kill -0 $svcgssd || exit 1; sleep 0.1; done
"""
HOLD = """
calls() { awk "/ $1:/ {print \\$2}" /proc/self/mountstats; }
read_again() { before=$(calls OPEN); cat /mnt/file >/dev/null; [ "$(calls OPEN)" = "$before" ]; }
tries=0
# With a delegation the guest opens the file without the server.
until read_again; do tries=$((tries + 1)); [ $tries -lt 100 ] || exit 1; sleep 0.1; done
cat /mnt/file
echo "==== holding"
read line
echo "==== returned $(calls DELEGRETURN)"
sed -n 's/^sname = /==== called by /p' /tmp/svcgssd.log
umount /mnt || exit 1
"""


def callbacks(scratch, name, mount):
    """The server recalls a delegation from a client of version 4.0, because a program on the host opens the file."""
    folder = exported(scratch)
    with open(f"{folder}/file", "w") as file:
        file.write("==== read\n")
    (port,) = free_ports(1)
    with secured(folder) as (realm, server), Capture(name, server):
        script = join(server) + CALLED % port + SHELL + mount.command(server, host=SERVER) + HOLD
        programs = with_libraries("rpc.svcgssd", "/usr/sbin/rpc.svcgssd", "usr/sbin/")
        with Guest(script, files=guest_kerberos.files(realm) | programs, forwards={port: port}) as guest:
            guest.wait_for("^==== holding", SECONDS)
            with open(f"{folder}/file", "r+") as file:  # waits until the delegation is back
                file.write("mine")
            guest.go_on()
            lines = guest.finish(SECONDS)
    assert "==== read" in lines, lines
    assert "==== returned 1" in lines, "the guest has not returned a delegation"
    assert f"==== called by nfs/{SERVER}@{NAME}" in lines, "the server has not made a context with the guest"


def cases():
    """Each version and each protection over both transports, but not all combinations."""
    yield "krb5_tcp", files, [Mount("tcp", "3", security="krb5i"), Mount("tcp", "4.2", security="krb5p"),
                              Mount("tcp", "4.1", security="krb5"), Mount("tcp", "4.0", security="krb5i")]
    yield "krb5_rdma", files, [Mount("rdma", "4.1", security="krb5i"), Mount("rdma", "3", security="krb5p"),
                               Mount("rdma", "4.2", security="krb5"), Mount("rdma", "4.0", security="krb5p")]
    yield "krb5_recovery_tcp", recovery, Mount("tcp", "4.1", security="krb5i")
    yield "krb5_callbacks", callbacks, Mount("tcp", "4.0", ",clientaddr=127.0.0.1", security="krb5i")
    yield "krb5_recovery_rdma", recovery, Mount("rdma", "4.2", security="krb5p")


if __name__ == "__main__":
    main({name: lambda scratch, do=do, name=name, what=what: do(scratch, name, what) for name, do, what in cases()})
