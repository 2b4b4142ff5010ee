#!/usr/bin/python3
"""The client commands of `penstock` under Kerberos against the Linux kernel's server in a guest: versions 3, 4.0, 4.1 and 4.2 with each
protection, over RDMA and over TCP. The guest's rpc.svcgssd accepts the contexts. The KDC is on the host.

krb5p is left out if the kernel's own client cannot use it with this server. So it is with Linux 6.1.192, which decrypts the arguments
of a call and then decodes them from a wrong place.
"""

import contextlib
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import guest_kerberos  # noqa: E402
from cases import main  # noqa: E402
from files import MIB, assert_same, digest, digests, make, make_sizes  # noqa: E402
from guest import Guest  # noqa: E402
from guest_kerberos import uid  # noqa: E402
from guest_programs import with_libraries  # noqa: E402
from held_copy import SIZE, HeldCopy  # noqa: E402
from kerberos import NAME, USERS, Realm  # noqa: E402
from kernel_server import MAKE, PORTS, SERVE, TELL, KernelServer  # noqa: E402
from linux import require  # noqa: E402
from penstock import ADDRESS, penstock, penstock_ok as run  # noqa: E402
from ports import free_ports  # noqa: E402
from script import hashes  # noqa: E402

SIZES = {"0": 0, "3": 3, "4097": 4097, "1m3": MIB + 3}
VERSIONS, TRANSPORTS, PROTECTIONS = ("3", "4.0", "4.1", "4.2"), ("rdma", "tcp"), ("krb5", "krb5i", "krb5p")
# The client asks the KDC for nfs/ and the host of its URLs.
HOST, SERVICE = "localhost", "nfs/localhost"
LIFETIME = 20
MADE_CONTEXT = "info security context of"  # a line of -v for each security context
NO_MOUNT = "MOUNT does not take"  # a line of -v if calls of MOUNT go without RPCSEC_GSS

SECURED = SERVE.replace("(rw,", "(rw,sec=krb5:krb5i:krb5p,").replace("20049 4;", "20049 16;").replace("rpcbind && ", """
trap '[ $? = 0 ] || cat /tmp/svcgssd.log' EXIT
mkdir -p /var/tmp /var/lib/nfs/rpc_pipefs
rpc.svcgssd -f -vv -n >/tmp/svcgssd.log 2>&1 &
rpcbind && """)
# svcgssd opens its channels when it is ready. The kernel's server would refuse contexts before.
SECURED = SECURED.replace("echo Y >/proc/fs/nfsd/v4_end_grace", """
until ls -l /proc/$(pidof rpc.svcgssd)/fd | grep -q auth.rpcsec.init; do sleep 0.1; done
echo Y >/proc/fs/nfsd/v4_end_grace""")


# Prints whether the kernel's own client can use krb5p.
PROBE = """
hostname client1
mount -t rpc_pipefs rpc_pipefs /var/lib/nfs/rpc_pipefs || exit 1
rpc.gssd -f >/tmp/gssd.log 2>&1 & gssd=$!
until ls -l /proc/$gssd/fd | grep -q clntXX/gssd; do kill -0 $gssd || exit 1; sleep 0.1; done
own() { mount -t nfs -o vers=4.1,proto=tcp,sec=$1 localhost:/srv/x /mnt && umount /mnt; }
own krb5i || exit 1
if own krb5p; then echo "==== krb5p works"; else echo "==== krb5p fails"; fi
kill $gssd
"""


class Kerberized(KernelServer):
    """URLs of the guest's server with a security flavor. `port` replaces the server's port."""

    def __init__(self, transport, version, protection, ports):
        super().__init__(transport, version, f"put-{transport}-{version}-{protection}", ports)
        self.protection = protection

    @property
    def name(self):
        return f"{self.transport}-{self.version}-{self.protection}"

    def url(self, path, port=None):
        text = super().url(path).replace(f"nfs://{ADDRESS}:", f"nfs://{HOST}:") + f"&sec={self.protection}"
        return text.replace(f":{getattr(self, self.transport)}/", f":{port}/") if port else text


def in_guest(kerberos):
    """Returns {path in the guest: file}: rpc.svcgssd with its key, and users of the same names and uids as the host's."""
    configuration = f"[General]\nDomain = {guest_kerberos.DOMAIN}\nLocal-Realms = {NAME}\n[Translation]\nMethod = nsswitch\n"
    found = guest_kerberos.files(kerberos)
    found["etc/passwd"] += b"_rpc:x:104:65534::/run/rpcbind:/bin/false\n"  # of rpcbind
    return (found | with_libraries("rpc.svcgssd", "/usr/sbin/rpc.svcgssd", "usr/sbin/")
            | {"etc/krb5.keytab": kerberos.keytab(SERVICE, guest_kerberos.MACHINE), "etc/idmapd.conf": configuration.encode()})


@contextlib.contextmanager
def serving(script, ports, mountd="rpc.mountd"):
    """A realm, and a guest in it that runs the script. Commands have a ticket of alice."""
    require()
    with Realm((*USERS, guest_kerberos.MACHINE, SERVICE)) as realm:
        os.environ.update(realm.environment)
        os.environ["KRB5CCNAME"] = realm.cache("alice")
        script = SECURED.replace("rpc.mountd", mountd) + script
        with Guest(script, files=in_guest(realm), forwards=dict(zip(ports, PORTS))) as guest:
            guest.wait_for("==== nfsd up", 120)
            yield realm, guest


def files(scratch):
    """Files of several sizes in both directions, with every protection. The user's principal owns the files."""
    ports = free_ports(3)
    for folder in ("mine", "got"):
        os.mkdir(f"{scratch}/{folder}")
    make_sizes(f"{scratch}/mine", SIZES)
    owners = 'stat -c "owner %u %n" /srv/x/put-*/*\n'
    script = PROBE + MAKE % " ".join(f"{name}={size}" for name, size in SIZES.items()) + TELL + owners
    got = {}
    with serving(script, ports) as (realm, guest):
        protections = PROTECTIONS if "==== krb5p works" in guest.output() else PROTECTIONS[:2]
        print(f"with {', '.join(protections)}", flush=True)
        servers = [Kerberized(transport, version, protection, ports)
                   for version in VERSIONS for transport in TRANSPORTS for protection in protections]
        for server in servers:
            run("mkdir", server.url(server.put))
            for name in SIZES:
                run("cp", server.url(f"/srv/x/made/{name}"), f"{scratch}/got/{name}")
                run("cp", f"{scratch}/mine/{name}", server.url(f"{server.put}/{name}"))
            got[server.name] = digests(f"{scratch}/got")
            for name in SIZES:
                os.unlink(f"{scratch}/got/{name}")
            look_around(scratch, server, realm)
        run("cp", f"{scratch}/mine/0", servers[0].url("/srv/x/finished"))
        lines = guest.finish(120)
    owned = {line.split()[2]: line.split()[1] for line in lines if line.startswith("owner ")}
    for server in servers:
        assert_same(got[server.name], hashes(lines, "made"), f"what penstock read: {server.name}")
        assert_same(hashes(lines, os.path.basename(server.put)), digests(f"{scratch}/mine"), f"what penstock wrote: {server.name}")
        mine = {name: owned.get(f"{server.put}/{name}") for name in SIZES}
        assert_same(mine, dict.fromkeys(SIZES, str(uid("alice"))), f"owners: {server.name}")


def refused(mention, *arguments, cache=None):
    """Runs a command that must fail with this in its last line. In version 3 there may be warnings that MOUNT is not protected."""
    done = penstock(*arguments, env=os.environ | ({"KRB5CCNAME": cache} if cache else {}))
    assert done.returncode == 1 and mention in done.stderr.splitlines()[-1], done


def look_around(scratch, server, realm):
    """Names, rights, and the security contexts. In version 3 there is one more, of MOUNT. It does not seal its results, so that
    calls with krb5i and krb5p are repeated without Kerberos."""
    file = server.url(f"{server.put}/4097")
    run("chmod", "600", file)
    refused("permission denied", "cat", file, cache=realm.cache("bob"))
    assert run("ls", server.url("/srv/x/made")).decode().split() == sorted(SIZES)
    done = penstock("-v", "ls", server.url(server.put))
    assert done.returncode == 0 and done.stdout.decode().split() == sorted(SIZES), done
    assert done.stderr.count(MADE_CONTEXT) == (2 if server.version == "3" else 1), done.stderr
    assert (NO_MOUNT in done.stderr) == (server.version == "3" and server.protection != "krb5"), done.stderr
    refused("sec" if server.version == "3" else "", "ls", server.url(server.put).replace(f"sec={server.protection}", "sec=sys"))
    refused("kinit", "ls", server.url(server.put), cache=f"FILE:{scratch}/absent")


RESTARTS = """
echo "==== nfsd up"
while read line; do
  rpc.nfsd 0 || exit 1
  for cache in init context; do echo $(($(date +%s) + 1)) >/proc/net/rpc/auth.rpcsec.$cache/flush || exit 1; done
  sleep 1; start || exit 1
  echo "==== restarted"
  [ -e /srv/x/finished ] && break
done
"""


def held(scratch, server, name, upload, options=(), environment=None):
    """A copy of /srv/x/NAME that is held in the middle. It takes one of the server's threads at most, which could block."""
    return HeldCopy(getattr(server, server.transport), lambda port: server.url(f"/srv/x/{name}", port), f"{scratch}/{name}", upload,
                    ["--in-flight=1", *options], environment)


def restart(scratch):
    """The server is stopped and started again in the middle of a copy, and forgets all security contexts."""
    ports = free_ports(3)
    make(f"{scratch}/source", SIZE)
    make(f"{scratch}/nothing", 0)
    wanted = digest(f"{scratch}/source")
    with serving(RESTARTS, ports) as (_, guest):
        def check(version, transport, protection, upload):
            server = Kerberized(transport, version, protection, ports)
            name = f"{server.name}-{'up' if upload else 'down'}"
            if upload:
                os.link(f"{scratch}/source", f"{scratch}/{name}")
            else:
                run("cp", "-q", f"{scratch}/source", server.url(f"/srv/x/{name}"))
            with held(scratch, server, name, upload, ["-v"]) as copy:
                seen = len(guest.output())
                guest.go_on()
                guest.wait_for("==== restarted", 120, seen)
                made = [line for line in copy.finish() if MADE_CONTEXT in line]
            assert len(made) >= 2, f"{name}: {made}"
            if upload:
                run("cp", "-q", server.url(f"/srv/x/{name}"), f"{scratch}/back")
            assert digest(f"{scratch}/{'back' if upload else name}") == wanted, f"{name}: wrong contents"
            run("rm", server.url(f"/srv/x/{name}"))

        # Uploads over RDMA are left out: a thread of the kernel's server waits for their data, and cannot be stopped.
        check("3", "tcp", "krb5", True)
        check("3", "rdma", "krb5i", False)
        check("4.0", "tcp", "krb5i", True)
        check("4.1", "rdma", "krb5i", False)
        check("4.2", "tcp", "krb5i", False)
        check("4.2", "rdma", "krb5", False)
        run("cp", f"{scratch}/nothing", Kerberized("tcp", "4.2", "krb5", ports).url("/srv/x/finished"))
        guest.go_on()
        guest.finish(120)


WITHOUT_KEYTAB = "env KRB5_KTNAME=FILE:/absent rpc.mountd"
WAITS = """
echo "==== nfsd up"
while [ ! -e /srv/x/finished ]; do sleep 1; done
"""


def expiry(scratch):
    """Tickets expire in the middle of copies. A copy goes on with a keytab, or fails and tells why."""
    ports = free_ports(3)
    make(f"{scratch}/source", SIZE)
    make(f"{scratch}/nothing", 0)
    wanted = digest(f"{scratch}/source")
    with serving(WAITS, ports, WITHOUT_KEYTAB) as (realm, guest), contextlib.ExitStack() as stack:
        copies = [(Kerberized(transport, version, protection, ports), f"{version}-{transport}-{fate}", fate, upload)
                  for version, transport, protection, fate, upload in (
                      ("3", "tcp", "krb5", "renewed", False), ("3", "rdma", "krb5i", "renewed", True),
                      ("4.1", "rdma", "krb5i", "renewed", False), ("4.2", "tcp", "krb5i", "renewed", True),
                      ("4.0", "tcp", "krb5", "renewed", False), ("4.1", "tcp", "krb5i", "lost", False), ("4.0", "rdma", "krb5", "lost", False))]
        for server, name, _, upload in copies:
            if upload:
                os.link(f"{scratch}/source", f"{scratch}/{name}")
            else:
                run("cp", "-q", f"{scratch}/source", server.url(f"/srv/x/{name}"))
        done = penstock("-v", "ls", copies[0][0].url("/srv/x"))
        assert done.returncode == 0 and NO_MOUNT in done.stderr, done
        realm.limit_lifetime("alice", LIFETIME)
        short = f"FILE:{scratch}/short.cache"
        realm.renew(short, "alice")
        options = {"renewed": [f"--keytab={realm.keytab('alice')}"], "lost": []}
        under_way = [stack.enter_context(held(scratch, server, name, upload, options[fate], {"KRB5CCNAME": short}))
                     for server, name, fate, upload in copies]
        time.sleep(LIFETIME + 1)
        for copy, (server, name, fate, upload) in zip(under_way, copies):
            if fate == "lost":
                copy.fail(name, "Kerberos ticket has expired", "kinit", may_warn=True)  # for example of the lease
                continue
            copy.finish()
            if upload:
                run("cp", "-q", server.url(f"/srv/x/{name}"), f"{scratch}/back")
            assert digest(f"{scratch}/{'back' if upload else name}") == wanted, f"{name}: wrong contents"
        run("cp", f"{scratch}/nothing", Kerberized("tcp", "4.2", "krb5", ports).url("/srv/x/finished"))
        guest.finish(120)


if __name__ == "__main__":
    main({f"krb5_{case.__name__}": case for case in (files, restart, expiry)})
