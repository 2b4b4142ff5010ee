#!/usr/bin/python3
"""The client commands under Kerberos against the real server, in a temporary realm: every version and protection over both
transports, what the wire shows, restarts, tickets that expire, and messages."""

import contextlib
import itertools
import os
import pwd
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import main  # noqa: E402
from files import CORE_SIZES, MIB, assert_same, digest, digests, make, make_sizes  # noqa: E402
from guest_programs import built_library  # noqa: E402
from held_copy import SIZE, HeldCopy  # noqa: E402
from kerberos import USERS, Realm  # noqa: E402
from patience import SECONDS, wait_until  # noqa: E402
from penstock import PENSTOCK, TRANSPORTS, Server, penstock, penstock_ok as ok, penstock_refused as refused, under_way  # noqa: E402
from valve import Valve  # noqa: E402

VERSIONS = ("3", "4.0", "4.1", "4.2")
PROTECTIONS = ("krb5", "krb5i", "krb5p")
KERBEROS = "sec=krb5:krb5i:krb5p"
# The client asks the KDC for nfs/ and this name.
HOST, SERVICE = "localhost", "nfs/localhost"
OTHER_SERVICE = "nfs/other"
ALICE = pwd.getpwnam(USERS["alice"]).pw_uid
# Of a ticket that expires during a test.
LIFETIME = 10
# A line of -v for each security context.
MADE_CONTEXT = "info security context of"


@contextlib.contextmanager
def realm_with_alice(*principals):
    """A realm. Commands have a ticket of alice."""
    with Realm((*USERS, SERVICE, *principals)) as realm:
        os.environ.update(realm.environment)
        os.environ["KRB5CCNAME"] = realm.cache("alice")
        yield realm


def serve(scratch, realm, options=KERBEROS, path="/", keytab=None, **more):
    """A server in the realm with one export that every user may write to."""
    folder = f"{scratch}/export"
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o777)
    return Server({path: f"{folder}:{options}"}, [f"--keytab={keytab or realm.keytab(SERVICE)}"], **more)


def url(server, path, version, transport, protection=None, host=HOST, port=None, mount=None):
    port = port or (server.rdma if transport == "rdma" else server.tcp)
    text = f"nfs://{host}:{port}{path}?vers={version}&proto={transport}&mountport={mount or server.mount}"
    return text + (f"&sec={protection}" if protection else "")


def every_protection(scratch, transport):
    """Files of several sizes in both directions, in every version with every protection. The user's principal owns the files."""
    for name in "mine", "got":
        os.mkdir(f"{scratch}/{name}")
    sizes = {name: CORE_SIZES[name] for name in ("0", "3", "4097", "2m5")}
    make_sizes(f"{scratch}/mine", sizes)
    with realm_with_alice() as realm, serve(scratch, realm) as server:
        for version in VERSIONS:
            for protection in PROTECTIONS:
                where = f"{version}-{protection}"
                ok("mkdir", url(server, f"/{where}", version, transport, protection))
                for name in sizes:
                    remote = url(server, f"/{where}/{name}", version, transport, protection)
                    ok("cp", "-q", f"{scratch}/mine/{name}", remote)
                    ok("cp", "-q", remote, f"{scratch}/got/{name}")
                folder = f"{scratch}/export/{where}"
                assert_same(digests(folder), digests(f"{scratch}/mine"), f"written: {where}")
                assert_same(digests(f"{scratch}/got"), digests(f"{scratch}/mine"), f"read: {where}")
                owners = {name: os.stat(f"{folder}/{name}").st_uid for name in (".", *sizes)}
                assert_same(owners, dict.fromkeys(owners, ALICE), f"owners: {where}")
                for name in sizes:
                    os.unlink(f"{scratch}/got/{name}")


def every_command(scratch):
    """Names, listings, attributes and errors. Another user has the rights of the own principal only."""
    with realm_with_alice() as realm, serve(scratch, realm) as server:
        make(f"{scratch}/mine", 5)
        for version, protection in zip(VERSIONS, ("krb5p", "krb5", "krb5i", "krb5p")):
            def at(path):
                return url(server, path, version, TRANSPORTS[-1], protection)

            assert f"NFS version {version}" in ok("ping", "-c", 2, "-i", 10, at("/")).decode()
            ok("mkdir", at("/one"), at("/two"))
            ok("cp", f"{scratch}/mine", at("/one/file"))
            ok("chmod", "600", at("/one/file"))
            ok("ln", at("/one/file"), "/two")
            ok("ln", "-s", "two/file", at("/soft"))
            ok("mv", at("/one/file"), "/two/moved")
            with open(f"{scratch}/mine", "rb") as mine:
                assert ok("cat", at("/soft")) == mine.read()
            row = ok("ls", "-l", at("/two/moved")).decode().split()
            assert row[:3] == ["-rw-------", "2", USERS["alice"]], row
            bob = os.environ | {"KRB5CCNAME": realm.cache("bob")}
            refused("cat", at("/two/moved"), mentions=["permission denied"], env=bob)
            refused("rmdir", at("/two"), mentions=["not empty"])
            ok("rm", at("/two/file"), at("/two/moved"), at("/soft"))
            ok("rmdir", at("/one"), at("/two"))
            with_keytab = penstock("mkdir", f"--keytab={realm.keytab('bob')}", "--principal=bob", at("/bobs"))
            assert with_keytab.returncode == 0, with_keytab.stderr
            assert os.stat(f"{scratch}/export/bobs").st_uid == pwd.getpwnam(USERS["bob"]).pw_uid
            os.rmdir(f"{scratch}/export/bobs")


def negotiates(scratch):
    """Without sec= the client uses a flavor that each export accepts, and for which it has a ticket."""
    for name in "private", "open":
        os.makedirs(f"{scratch}/{name}")
        os.chmod(f"{scratch}/{name}", 0o777)
    make(f"{scratch}/mine", 5)
    with realm_with_alice() as realm, Server({"/private": f"{scratch}/private:sec=krb5i:krb5p", "/open": f"{scratch}/open:sec=krb5:sys"},
                                             [f"--keytab={realm.keytab(SERVICE)}"]) as server:
        without_ticket = os.environ | {"KRB5CCNAME": f"FILE:{scratch}/absent"}
        for version in VERSIONS:
            for transport in TRANSPORTS:
                name = f"{version}-{transport}"
                remote = url(server, f"/private/{name}", version, transport)
                ok("cp", f"{scratch}/mine", remote)
                assert ok("ls", remote)
                assert os.stat(f"{scratch}/private/{name}").st_uid == ALICE, name
                remote = url(server, f"/open/{name}", version, transport)
                done = penstock("cp", f"{scratch}/mine", remote, env=without_ticket)
                assert done.returncode == 0, f"{name}: {done.stderr}"
                assert os.stat(f"{scratch}/open/{name}").st_uid != ALICE, name
                refused("ls", url(server, f"/private/{name}", version, transport), mentions=["Kerberos ticket", "kinit"],
                        env=without_ticket)
                # The first one of a list that the export accepts, and for which there is a ticket.
                ok("cp", f"{scratch}/mine", url(server, f"/private/{name}-list", version, transport, "sys:krb5:krb5p"))
                assert os.stat(f"{scratch}/private/{name}-list").st_uid == ALICE, name
                remote = url(server, f"/open/{name}-list", version, transport, "krb5:sys")
                done = penstock("cp", f"{scratch}/mine", remote, env=without_ticket)
                assert done.returncode == 0, f"{name}: {done.stderr}"
                assert os.stat(f"{scratch}/open/{name}-list").st_uid != ALICE, name
                refused("ls", url(server, f"/private/{name}", version, transport, "krb5i:krb5p"), mentions=["Kerberos ticket", "kinit"],
                        env=without_ticket)
                refused("ls", url(server, f"/private/{name}", version, transport, "none:sys"), mentions=["sec=krb5i, krb5p"])


# ---- the wire ----

HIDDEN = (b"hidden-export", b"hidden-name", b"hidden-words")


def wire(scratch):
    """With krb5p neither names nor contents appear on the wire, in calls of MOUNT as well. With krb5i they do."""
    with open(f"{scratch}/mine", "wb") as mine:
        mine.write(b"".join(b"hidden-words %07d\n" % number for number in range(50000)))
    with realm_with_alice() as realm, serve(scratch, realm, path="/hidden-export") as server:
        for version in VERSIONS:
            for transport in TRANSPORTS:
                for protection in "krb5i", "krb5p":
                    with Valve(server.rdma if transport == "rdma" else server.tcp, records=True) as valve, \
                            Valve(server.mount, records=True) as mount:
                        def at(path):
                            return url(server, path, version, transport, protection, port=valve.port, mount=mount.port)

                        ok("cp", "-q", f"{scratch}/mine", at("/hidden-export/hidden-name"))
                        ok("ls", "-l", at("/hidden-export"))
                        ok("cp", "-q", at("/hidden-export/hidden-name"), f"{scratch}/got")
                        wires = {"NFS": valve.octets()} | ({"MOUNT": mount.octets()} if version == "3" else {})
                    assert digest(f"{scratch}/got") == digest(f"{scratch}/mine")
                    assert len(wires["NFS"]) > 2 * os.path.getsize(f"{scratch}/mine"), len(wires["NFS"])
                    found = {(where, words) for where, octets in wires.items() for words in HIDDEN if words in octets}
                    # Version 3 names the export in calls of MOUNT only, and the file in calls of NFS only.
                    wanted = {("NFS", words) for words in HIDDEN}
                    if version == "3":
                        wanted = wanted - {("NFS", HIDDEN[0])} | {("MOUNT", HIDDEN[0])}
                    wanted = wanted if protection == "krb5i" else set()
                    assert found == wanted, f"version {version} over {transport}, {protection}: {found} in place of {wanted}"


# ---- copies that last ----

class Held(HeldCopy):
    """A copy from or to the export that is held in the middle."""

    def __init__(self, scratch, name, server, version, transport, protection, options=(), upload=False, environment=None):
        super().__init__(server.rdma if transport == "rdma" else server.tcp,
                         lambda port: url(server, f"/{name}", version, transport, protection, port=port),
                         f"{scratch}/local-{name}", upload, options, environment)
        self.name, self.remote = name, f"{scratch}/export/{name}"

    def __enter__(self):
        source = self.local if self.upload else self.remote
        make(source, SIZE)
        self.wanted = digest(source)
        return super().__enter__()

    def finish(self):
        """The copy must be whole. Returns the lines on stderr."""
        lines = super().finish()
        assert digest(self.remote if self.upload else self.local) == self.wanted, f"{self.name}: wrong contents"
        return lines


def restart(scratch, transport):
    """The server is killed in the middle of a copy and started again: it knows no security context any more."""
    with realm_with_alice() as realm:
        for version, protection, upload in (("3", "krb5p", False), ("3", "krb5i", True), ("4.0", "krb5i", False), ("4.1", "krb5p", True),
                                            ("4.1", "krb5", False), ("4.2", "krb5i", False), ("4.2", "krb5", True)):
            with serve(scratch, realm) as server, \
                    Held(scratch, f"{version}-{protection}-{upload}", server, version, transport, protection, ["-v"], upload) as copy:
                server.kill()
                server.start()
                lines = copy.finish()
                # One before the restart, and one after it. In version 3, MOUNT has one more.
                made = [line for line in lines if MADE_CONTEXT in line]
                assert len(made) == (3 if version == "3" else 2), made
                assert os.stat(copy.remote).st_uid == (ALICE if upload else os.getuid())
                os.unlink(copy.remote)
                os.unlink(copy.local)


def expiry(scratch):
    """Tickets expire in the middle of copies. A copy goes on with a keytab, or with the ticket that the user gets in time. Otherwise
    it fails and tells why."""
    with realm_with_alice() as realm, serve(scratch, realm) as server, contextlib.ExitStack() as stack:
        caches = {name: f"FILE:{scratch}/{name}.cache" for name in ("renewed", "lost")}

        def held(name, version, transport, protection, options=(), upload=False):
            environment = {"KRB5CCNAME": caches.get(name, f"FILE:{scratch}/absent")}
            return stack.enter_context(Held(scratch, f"{name}-{version}-{transport}", server, version, transport, protection,
                                            options, upload, environment))

        realm.limit_lifetime("alice", LIFETIME)
        for cache in caches.values():
            realm.renew(cache, "alice")
        keytab = [f"--keytab={realm.keytab('alice')}"]
        goes_on = [held("keytab", "3", TRANSPORTS[0], "krb5i", keytab), held("keytab", "4.1", TRANSPORTS[-1], "krb5p", keytab, True),
                   held("renewed", "4.2", TRANSPORTS[0], "krb5", upload=True), held("renewed", "3", TRANSPORTS[-1], "krb5p"),
                   held("renewed", "4.0", TRANSPORTS[0], "krb5i")]
        fails = [held("lost", "3", TRANSPORTS[-1], "krb5p"), held("lost", "4.1", TRANSPORTS[0], "krb5i"),
                 held("lost", "4.2", TRANSPORTS[-1], "krb5", upload=True), held("lost", "4.0", TRANSPORTS[-1], "krb5p")]
        # Every copy had its ticket before now.
        time.sleep(LIFETIME + 1)
        realm.limit_lifetime("alice", 3600)
        realm.renew(caches["renewed"], "alice")
        for copy in goes_on:
            copy.finish()
        for copy in fails:
            copy.fail(copy.name, "security context", "Kerberos ticket has expired", "kinit")


def renews_under_load(scratch):
    """A client with a keytab makes one context after the other while it has many calls under way."""
    with realm_with_alice() as realm, serve(scratch, realm) as server:
        realm.limit_lifetime("alice", 3)
        with subprocess.Popen([PENSTOCK, "-v", "bench", f"--keytab={realm.keytab('alice')}", "--ops", "read64k", "--depth", "16",
                               "--seconds", "8", "--size", "1MiB", url(server, "/", "4.1", "tcp", "krb5i")], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as bench:
            printed, said = bench.communicate(timeout=SECONDS)
        print(printed, said)
        assert bench.returncode == 0, said
        assert sum(MADE_CONTEXT in line for line in said.splitlines()) >= 3, said


# ---- one session over RDMA and TCP ----

def over_both_transports(scratch):
    """The calls of a session over RDMA and over TCP (proto=rdma+tcp) have the only protection that the export accepts, whichever way they
    take, and every octet arrives."""
    mine, export = f"{scratch}/mine", f"{scratch}/export"
    for folder in mine, export:
        os.mkdir(folder)
        make(f"{folder}/source", 32 * MIB)
    with realm_with_alice() as realm:
        for protection in PROTECTIONS:
            with serve(scratch, realm, f"sec={protection}") as server:
                for version, upload in itertools.product(VERSIONS[2:], (False, True)):
                    source, made = (f"{mine}/source", f"{export}/copy") if upload else (f"{export}/source", f"{mine}/copy")
                    case = version, protection, upload
                    # On a busy machine a copy may be over before it uses both.
                    for _ in range(20):
                        is_used = copies_over_tcp_too(server, version, protection, source, made, upload)
                        assert digest(made) == digest(source), case
                        os.unlink(made)
                        if is_used:
                            break
                    assert is_used, case


def copies_over_tcp_too(server, version, protection, source, made, upload):
    """Copies over RDMA and TCP. Returns whether much of the file has come over TCP."""
    with Valve(server.tcp, 2 * MIB, holds_clients=upload) as tcp:
        def at(path):
            name = os.path.basename(path)
            return f"{url(server, f'/{name}', version, 'rdma+tcp', protection, port=server.rdma)}&tcpport={tcp.port}"

        with under_way("cp", "-q", *([source, at(made)] if upload else [at(source), made])) as client:
            wait_until(lambda: tcp.is_closed.is_set() or client.poll() is not None, "the copy neither ends nor uses TCP")
            is_used = tcp.is_closed.is_set()
            tcp.open()
            assert client.wait(SECONDS) == 0, (version, protection, upload)
    return is_used


# ---- messages ----

def messages(scratch):
    """What fails, fails with one line that names the step and tells what to try."""
    with realm_with_alice(OTHER_SERVICE) as realm:
        with serve(scratch, realm) as server:
            def list_root(*mentions, host=HOST, options=(), protection="krb5i", **environment):
                for version, transport in zip(VERSIONS, TRANSPORTS + TRANSPORTS):
                    refused("ls", *options, url(server, "/", version, transport, protection, host), mentions=mentions,
                            env=os.environ | environment)

            list_root("security context", f"nfs@{HOST}", "no Kerberos ticket", "kinit", KRB5CCNAME=f"FILE:{scratch}/absent")
            realm.renew(f"FILE:{scratch}/expired", "alice", "1s")
            wait_until(lambda: subprocess.run(["klist", "-s", "-c", f"FILE:{scratch}/expired"]).returncode == 1, "the ticket lasts")
            list_root("security context", "expired", "kinit", KRB5CCNAME=f"FILE:{scratch}/expired")
            list_root("nfs@127.0.0.1", "KDC does not know this service", "full name", host="127.0.0.1")
            list_root(f"{scratch}/absent", "keytab", options=[f"--keytab={scratch}/absent"])
            list_root("bob", "keytab", options=[f"--keytab={realm.keytab('alice')}", "--principal=bob"])
            old = "4.1-sess01"
            refused("ls", url(server, "/", old, "tcp", "krb5"), mentions=["vers=4.1-sess01 needs sec=sys or sec=none"], expects=2)
            refused("ls", "--sec=krb5", url(server, "/", old, "tcp"), mentions=["vers=4.1-sess01 needs sec=sys or sec=none"], expects=2)
        # Version 4.0 has no operation that lists the flavors of the root.
        wanted = dict.fromkeys(VERSIONS, ["another security flavor", "sec=krb5"]) | {
            "3": ["accepts only sec=krb5"], "4.0": ["another security flavor"]}
        with serve(scratch, realm, "sec=krb5") as server:
            for version in VERSIONS:
                refused("ls", "--sec=sys", url(server, "/", version, "tcp"), mentions=wanted[version])
                refused("ls", url(server, "/", version, "rdma", "krb5p"), mentions=wanted[version])
        with serve(scratch, realm, keytab=realm.keytab(OTHER_SERVICE)) as server:
            list_root("security context", f"nfs@{HOST}", "keytab", "name")
        with serve(scratch, realm, environment=os.environ | {
                "LD_PRELOAD": built_library("shifted_clock"), "PENSTOCK_CLOCK_SHIFT": "3600"}) as server:
            list_root("security context", f"nfs@{HOST}", "clocks")
        with Server({"/": f"{scratch}/export"}, environment=os.environ | {"KRB5_KTNAME": f"FILE:{scratch}/absent"}) as server:
            for version in VERSIONS[1:]:
                refused("ls", url(server, "/", version, "tcp", "krb5"), mentions=["security context", "does not offer"])
            refused("ls", url(server, "/", "3", "tcp", "krb5"), mentions=["the server accepts only sec=sys"])
        keytab = realm.keytab(SERVICE)
        realm.change_key(SERVICE)
        with serve(scratch, realm, keytab=keytab) as server:
            list_root("security context", f"nfs@{HOST}", "keytab", "key", KRB5CCNAME=realm.cache("bob"))
        realm.stop()
        with serve(scratch, realm, keytab=keytab) as server:
            list_root("security context", "no KDC answers", "krb5.conf", options=[f"--keytab={realm.keytab('alice')}"])


def cases():
    for transport in TRANSPORTS:
        yield transport, lambda scratch, transport=transport: every_protection(scratch, transport)
        yield f"restart_{transport}", lambda scratch, transport=transport: restart(scratch, transport)
    for case in every_command, negotiates, wire, expiry, renews_under_load, over_both_transports, messages:
        yield case.__name__, case


if __name__ == "__main__":
    main(dict(cases()))
