#!/usr/bin/python3
"""TLS over TCP (RFC 9289): the real program at both ends."""

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from capture import Capture  # noqa: E402
from cases import Skip, main  # noqa: E402
from certificates import Authority  # noqa: E402
from files import digest, make  # noqa: E402
from held_copy import SIZE, HeldCopy  # noqa: E402
from patience import wait_until  # noqa: E402
from penstock import Server, penstock, penstock_misused as misused, penstock_ok as ok, penstock_refused as refused, serve_refused  # noqa: E402

VERSIONS = ("3", "4.0", "4.1", "4.2")
NAME, DATA = "a-name-that-nobody-may-see", b"a line of data that nobody may see\n"


class Scene:
    """A folder with a file, an authority, and certificates of the server and a client."""

    def __init__(self, scratch):
        self.scratch, self.folder = scratch, f"{scratch}/export"
        os.makedirs(self.folder)
        os.chmod(self.folder, 0o777)
        with open(f"{self.folder}/{NAME}", "wb") as out:
            out.write(DATA * 1000)
        self.authority = Authority(f"{scratch}/certificates")
        self.server_options = self.authority.issue("server", "DNS:localhost,IP:127.0.0.1") + self.authority.trusted
        self.client_files = self.authority.issue("client", "DNS:client.example,IP:127.0.0.1")
        self.tls = ["--xprtsec=tls", *self.authority.trusted]
        self.mutual = ["--xprtsec=mtls", *self.authority.trusted, *self.client_files]

    def serve(self, options="no_root_squash", arguments=(), **how):
        return Server({"/": f"{self.folder}:{options}"}, [*self.server_options, *arguments], **how)


def url(server, path="/", version="4.2", more=""):
    return server.url(path, "tcp").replace("vers=3", f"vers={version}") + more


def held_upload(scene, server):
    """The file "big" of the scratch folder is copied to the server with TLS, and is held in the middle."""
    return HeldCopy(server.tcp, lambda port: url(server, "/big").replace(f":{server.tcp}/", f":{port}/"), f"{scene.scratch}/big",
                    upload=True, options=scene.tls)


def copies(scratch):
    """Files go through TLS in both directions, in each version; the data are the same afterwards."""
    scene = Scene(scratch)
    make(f"{scratch}/big", 9 << 20)
    with open(f"{scratch}/big", "rb") as file:
        big = file.read()
    with scene.serve("no_root_squash,xprtsec=tls") as server:
        for version in VERSIONS:
            for security in (scene.tls, scene.mutual):
                ok("cp", "-q", *security, f"{scratch}/big", url(server, "/copy", version))
                with open(f"{scene.folder}/copy", "rb") as copied:
                    assert copied.read() == big
                assert ok("cat", *security, url(server, "/copy", version)) == big
                assert NAME in ok("ls", *security, url(server, "/", version)).decode()
                os.unlink(f"{scene.folder}/copy")
        assert ok("cat", *scene.authority.trusted, url(server, f"/{NAME}", more="&xprtsec=tls")) == DATA * 1000


def shows_nothing_on_the_wire(scratch):
    """A capture has neither the names nor the data of files. Without TLS it has both."""
    scene = Scene(scratch)

    def seen(security, version):
        with scene.serve() as server, Capture(f"tls_{version}", server) as capture:
            assert ok("cat", *security, url(server, f"/{NAME}", version)) == DATA * 1000
            ok("ls", *security, url(server, "/", version))
        if not capture.process:
            raise Skip(capture.about["reason"])
        with open(capture.path, "rb") as file:
            octets = file.read()
        os.unlink(capture.path)
        os.unlink(capture.path + ".json")
        assert len(octets) > len(DATA) * 1000
        return NAME.encode() in octets, DATA in octets
    for version in ("3", "4.1", "4.2"):
        assert seen(scene.tls, version) == (False, False), version
    assert seen(["--xprtsec=none"], "4.2") == (True, True)
    assert seen(["--xprtsec=none"], "3") == (True, True)


def exports_ask_for_tls(scratch):
    """xprtsec= of an export refuses connections without the protection, and the log says why."""
    scene = Scene(scratch)
    with scene.serve("no_root_squash,xprtsec=tls") as server:
        for version in VERSIONS:
            refused("ls", url(server, "/", version), mentions=["AUTH_TOOWEAK" if version == "3" else "security"])
        server.expect_line("its connection has no TLS, and the export has xprtsec=tls")
        shown = [line for line in server.lines if line.startswith("  mount ")]
        assert shown and all(",xprtsec=tls " in line and "proto=tcp" in line for line in shown), shown
        refused("ls", server.url("/", "rdma"), mentions=["AUTH_TOOWEAK"])
        refused("ls", server.url("/", "rdma").replace("vers=3", "vers=4.2"), mentions=["security"])
        server.expect_line("RDMA has no TLS, and the export has xprtsec=tls")
    with scene.serve("no_root_squash,xprtsec=mtls") as server:
        for version in VERSIONS:
            refused("ls", *scene.tls, url(server, "/", version))
            ok("ls", *scene.mutual, url(server, "/", version))
        server.expect_line("without a certificate of the client, and the export has xprtsec=mtls")
    with scene.serve("no_root_squash,xprtsec=none") as server:
        refused("ls", *scene.tls, url(server))
        server.expect_line("its connection has TLS, which the export does not take (xprtsec=none)")
        ok("ls", url(server))


def logs_refusals_only(scratch):
    """A listing of a directory above exports that need TLS is no refusal; the log names only exports that were refused."""
    scene = Scene(scratch)
    exports = {f"/{name}": f"{scene.folder}:xprtsec={needs}" for name, needs in (("open", "none"), ("listed", "tls"), ("tried", "tls"))}
    with Server(exports, scene.server_options) as server:
        listed = ok("ls", url(server, "/")).decode()
        assert "listed" in listed and "tried" in listed, listed
        refused("ls", url(server, "/tried"))
        server.expect_line("is refused the export /tried")
        assert not [line for line in server.lines if "export /listed:" in line and "refused" in line], server.lines


def exports_ask_for_certificates(scratch):
    """cert= of an export admits only the clients whose certificates have a name, or their own address."""
    scene = Scene(scratch)
    other = ["--xprtsec=mtls", *scene.authority.trusted, *scene.authority.issue("other", "DNS:other.example,IP:192.0.2.1")]
    with scene.serve("no_root_squash,xprtsec=mtls,cert=CLIENT.example,cert=third.example") as server:
        for version in ("3", "4.2"):
            ok("ls", *scene.mutual, url(server, "/", version))
            refused("ls", *other, url(server, "/", version))
        server.expect_line("its certificate, which has other.example, 192.0.2.1, is not among those")
    with scene.serve("no_root_squash,xprtsec=mtls,cert=address") as server:
        ok("ls", *scene.mutual, url(server))
        refused("ls", *other, url(server))
        server.expect_line("its certificate, which has other.example, 192.0.2.1, is not among those")


def renews_certificates(scratch):
    """SIGHUP: new connections get the new certificate, old ones go on. A file that cannot be used changes nothing."""
    scene = Scene(scratch)
    make(f"{scratch}/big", SIZE)
    with scene.serve() as server:
        with held_upload(scene, server) as copying:
            scene.authority.issue("server", "DNS:renewed.example")
            server.process.send_signal(signal.SIGHUP)
            server.expect_line("SIGHUP: the server uses the certificates")
            refused("ls", *scene.tls, url(server), mentions=["does not name 127.0.0.1, it names renewed.example"])
            copying.finish()
        assert digest(f"{scene.folder}/big") == digest(f"{scratch}/big")
        with open(f"{scene.authority.folder}/server.pem", "w") as half:
            half.write("-----BEGIN CERTIFICATE-----\n")
        server.process.send_signal(signal.SIGHUP)
        server.expect_line("SIGHUP: the server goes on with its old configuration")
        assert any("SIGHUP: " in line and "server.pem" in line for line in server.lines), server.lines
        refused("ls", *scene.tls, url(server), mentions=["renewed.example"])
        scene.authority.issue("server", "IP:127.0.0.1")
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: sum("uses the certificates" in line for line in server.lines) == 2, "no second renewal")
        ok("ls", *scene.tls, url(server))


def names_the_step(scratch):
    """Errors of the client name the step that fails, and advise what to try."""
    scene = Scene(scratch)
    stranger = Authority(f"{scratch}/strangers")
    with scene.serve() as server:
        for version in ("3", "4.2"):
            refused("ls", "--xprtsec=tls", url(server, "/", version), mentions=["TLS handshake", "not trusted", "--tls-ca"])
            refused("ls", "--xprtsec=tls", *stranger.trusted, url(server, "/", version), mentions=["not trusted"])
            refused("ls", "--xprtsec=mtls", *scene.authority.trusted, url(server, "/", version), mentions=["--tls-cert"])
            refused("ls", "--xprtsec=mtls", *scene.authority.trusted, *stranger.issue("client", "DNS:client.example"),
                    url(server, "/", version), mentions=["did not accept this client's certificate"])
        refused("ls", *scene.tls, "--tls-cert=/nonexistent", "--tls-key=/nonexistent", url(server), mentions=["/nonexistent"])
        misused("ls", *scene.tls, server.url("/", "rdma"), mentions=["RDMA has no TLS"])
        misused("ls", *scene.authority.trusted, url(server), mentions=["without effect"])
        misused("ls", "--xprtsec=tls", "--tls-cert=/nonexistent", url(server), mentions=["give both"])
    with Server({"/": f"{scene.folder}"}) as server:
        for version in ("3", "4.2"):
            refused("ls", *scene.tls, url(server, "/", version), mentions=["the server has no TLS at this port"])
            refused("ls", "--xprtsec=tls", *scene.authority.trusted, url(server, "/", version), mentions=["no TLS"])


def opportunistic(scratch):
    """An opportunistic client uses TLS if the server has it, and says if it has not."""
    scene = Scene(scratch)
    security = ["--xprtsec=opportunistic", *scene.authority.trusted]
    with scene.serve("no_root_squash,xprtsec=tls") as server:
        for version in ("3", "4.2"):
            ok("ls", *security, url(server, "/", version))
        refused("ls", "--xprtsec=opportunistic", url(server), mentions=["not trusted"])
    with Server({"/": f"{scene.folder}"}) as server:
        done = penstock("ls", *security, url(server))
        assert done.returncode == 0 and "in plain text, because the server has no TLS" in done.stderr, done.stderr


def shows_the_protection(scratch):
    """ping -v names the protection of each connection."""
    scene = Scene(scratch)
    with scene.serve() as server:
        for version in ("3", "4.2"):
            said = penstock("ping", "-v", "-c", "1", *scene.mutual, url(server, "/", version)).stderr
            print(said)
            for port in (server.tcp,) if version == "4.2" else (server.tcp, server.mount):
                (line,) = {line.split(" info ")[1] for line in said.splitlines() if f"port {port}:" in line}
                for part in ("TLSv1.3", "TLS_", "both sides authenticated", "localhost, 127.0.0.1", "authority of tests"):
                    assert part in line, line
        assert "in plain text (xprtsec=none)" in penstock("ping", "-v", "-c", "1", url(server)).stderr
        assert "over RDMA, without TLS" in penstock("ping", "-v", "-c", "1", server.url("/", "rdma")).stderr
    with scene.serve(arguments=["-v"]) as server:
        ok("ls", *scene.mutual, url(server))
        line = server.expect_line("has TLS: TLSv1.3")
        assert "client.example" in line, line


def reconnects(scratch):
    """A mount whose connections are lost goes on over new ones with TLS."""
    scene = Scene(scratch)
    make(f"{scratch}/big", SIZE)
    with scene.serve("no_root_squash,xprtsec=tls") as server:
        with held_upload(scene, server) as copying:
            copying.valve.cut()
            copying.finish()
        assert digest(f"{scene.folder}/big") == digest(f"{scratch}/big")


def wrong_options(scratch):
    """A server with options that contradict each other does not start."""
    scene = Scene(scratch)
    certificate, key = scene.server_options[:2]
    served = f"--export=/={scene.folder}"
    serve_refused(scratch, served, certificate, mentions=["--tls-key"])
    serve_refused(scratch, served, *scene.authority.trusted, mentions=["--tls-cert"])
    serve_refused(scratch, served, certificate, "--tls-key=/nonexistent.key", mentions=["/nonexistent.key", "No such file"])
    serve_refused(scratch, served, certificate, scene.client_files[1], mentions=["is not the key of the certificate"])
    serve_refused(scratch, f"{served}:xprtsec=tls", mentions=["xprtsec=tls needs a certificate of the server"])
    serve_refused(scratch, f"{served}:xprtsec=mtls", certificate, key, mentions=["--tls-ca"])
    serve_refused(scratch, f"{served}:xprtsec=ssl", mentions=["choose of none, tls, mtls"])
    serve_refused(scratch, f"{served}:xprtsec=tls,cert=a.example", mentions=["cert= needs xprtsec=mtls"])


main({case.__name__: case for case in (
    copies, shows_nothing_on_the_wire, exports_ask_for_tls, logs_refusals_only, exports_ask_for_certificates, renews_certificates, names_the_step,
    opportunistic, shows_the_protection, reconnects, wrong_options)})
