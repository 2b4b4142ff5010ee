#!/usr/bin/python3
"""The configuration of a server: tables of exports, the configuration file, and what a reload changes while clients work."""

import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import Skip, main  # noqa: E402
from files import digest, make  # noqa: E402
from held_copy import SIZE, HeldCopy  # noqa: E402
from patience import wait_until  # noqa: E402
from penstock import ADDRESS, TRANSPORTS, Server, penstock, penstock_ok as ok, penstock_refused as refused  # noqa: E402


class Scene:
    """A table of exports in `scratch`, and folders that it may name."""

    def __init__(self, scratch, *folders):
        self.scratch, self.table = scratch, f"{scratch}/exports"
        for name in folders:
            os.makedirs(self.at(name))
            os.chmod(self.at(name), 0o777)
            with open(f"{self.at(name)}/name", "w") as file:
                file.write(name)

    def at(self, name):
        return f"{self.scratch}/{name}"

    def write(self, *lines):
        """Each line is a folder's name and the rest of the line in the table."""
        with open(self.table, "w") as table:
            table.writelines(f"{self.at(name)} {rest}\n" for name, rest in lines)

    def serve(self, *options):
        return Server({}, [f"--exports={self.table}", *options])

    def url(self, server, name, transport, more="", port=None):
        at = port or (server.rdma if transport == "rdma" else server.tcp)
        return f"nfs://{ADDRESS}:{at}{self.at(name)}?proto={transport}&mountport={server.mount}{more}"


def reload(server, *parts):
    """Sends SIGHUP, and waits for a new line with each of these texts."""
    before = len(server.lines)
    server.process.send_signal(signal.SIGHUP)
    for part in parts:
        wait_until(lambda: any("SIGHUP" in line and part in line for line in server.lines[before:]), f"no line has {part!r}")


OPEN = "*(rw,insecure,no_root_squash)"


def table(scratch):
    """Exports come, go and change while a copy runs. Clients of an export that stays notice nothing."""
    scene = Scene(scratch, "stays", "goes", "comes")
    make(f"{scratch}/big", SIZE)
    for transport in TRANSPORTS:
        for version in ("3", "4.0", "4.2"):
            scene.write(("stays", OPEN), ("goes", OPEN))
            with scene.serve() as server:
                def url(name, port=None):
                    return scene.url(server, name, transport, f"&vers={version}", port)
                at = server.rdma if transport == "rdma" else server.tcp
                with HeldCopy(at, lambda port: url("stays/big", port), f"{scratch}/big", upload=True) as copying:
                    scene.write(("stays", OPEN), ("comes", "*(ro,insecure)"))
                    reload(server, f"exports {scene.at('comes')}", f"no longer exports {scene.at('goes')}")
                    assert ok("cat", url("comes/name")) == b"comes"
                    refused("cat", url("goes/name"))
                    refused("mkdir", url("comes/new"), mentions=["read-only"])
                    scene.write(("stays", OPEN), ("comes", OPEN))
                    reload(server, f"exports {scene.at('comes')} with other options")
                    ok("mkdir", url("comes/new"))
                    copying.finish()
                assert digest(f"{scene.at('stays')}/big") == digest(f"{scratch}/big")
            os.unlink(f"{scene.at('stays')}/big")
            os.rmdir(f"{scene.at('comes')}/new")


def mistakes(scratch):
    """A mistake keeps the server from starting, and a running one from changing. Each is named with its line."""
    scene = Scene(scratch, "data", "more")
    scene.write(("data", "*(rw,insecur)"), ("more", "10.0.0.0/99"))
    done = penstock("check-config", "--config", "/dev/null")
    assert done.returncode == 1, done
    toml = scene.at("penstock.toml")
    with open(toml, "w") as file:
        file.write(f'[exports]\ntables = ["{scene.table}"]\n[limits]\nmax-conections = 5\nmemory = "lots"\n')
    done = penstock("check-config", "--config", toml)
    assert done.returncode == 1 and done.stderr.count("\n") == 2, done.stderr
    by_variable = penstock("check-config", env={**os.environ, "PENSTOCK_CONFIG": toml})
    assert (by_variable.returncode, by_variable.stderr) == (1, done.stderr), by_variable
    by_flag = penstock("check-config", "--config", toml, env={**os.environ, "PENSTOCK_CONFIG": "/dev/null"})
    assert (by_flag.returncode, by_flag.stderr) == (1, done.stderr), by_flag
    refused("check-config", env={**os.environ, "PENSTOCK_CONFIG": "none"}, mentions=["no file to check", "PENSTOCK_CONFIG"])
    assert f"{toml}:4: " in done.stderr and f"{toml}:5: " in done.stderr, done.stderr
    with open(toml, "w") as file:
        file.write(f'[exports]\ntables = ["{scene.table}"]\n')
    done = penstock("check-config", "--config", toml)
    assert done.returncode == 1, done
    assert f"{scene.table}:1: " in done.stderr and f"{scene.table}:2: " in done.stderr, done.stderr
    started = penstock("serve", f"--config={toml}", f"--state-dir={scratch}/state", "--tcp-port=0", "--rdma-port=0", "--mount-port=0")
    assert started.returncode == 1 and f"{scene.table}:1: " in started.stderr, started
    scene.write(("data", OPEN))
    with scene.serve() as server:
        scene.write(("data", OPEN), ("more", "*(bad)"))
        reload(server, f"{scene.table}:2: unknown export option", "the server goes on with its old configuration")
        assert ok("cat", scene.url(server, "data/name", "tcp")) == b"data"
        refused("cat", scene.url(server, "more/name", "tcp"))
        scene.write(("data", OPEN), ("missing", OPEN), ("more", OPEN))
        reload(server, f"{scene.at('missing')} is not exported: no such directory", f"exports {scene.at('more')}")
        assert ok("cat", scene.url(server, "more/name", "tcp")) == b"more"


def configuration(scratch):
    """penstock.toml: its values, their precedence, and what a reload takes over."""
    scene = Scene(scratch, "data")
    toml = scene.at("penstock.toml")

    def write(workers, connections):
        with open(toml, "w") as file:
            file.write(f'[exports]\nexport = ["/data={scene.at("data")}:no_root_squash"]\n[server]\nworkers = {workers}\n'
                       f"[limits]\nmax-connections = {connections}\n")

    write(7, 100)
    printed = penstock("serve", f"--config={toml}", "--workers=9", "--print-config",
                       env=os.environ | {"PENSTOCK_LEASE": "30"}).stdout.decode()
    for line in ("workers = 9  # flag", f"max-connections = 100  # {toml}:6", "lease = 30  # environment PENSTOCK_LEASE",
                 "grace = 90  # default"):
        assert line in printed, f"{line!r} is not in\n{printed}"
    with Server({}, [f"--config={toml}"]) as server:
        url = f"nfs://{ADDRESS}:{server.tcp}/data/name?proto=tcp&vers=4.2"
        assert ok("cat", url) == b"data"
        write(8, 4)
        reload(server, "limits.max-connections", "only from the next start on: server.workers")
        assert ok("cat", url) == b"data"
        reload(server, "the configuration is the same as before")


def mounts(scratch):
    """crossmnt, mountpoint and fsid=0; and the directory of a removed export can be unmounted."""
    scene = Scene(scratch, "root", "root/inner", "disk")
    mounted = [scene.at("root/inner"), scene.at("disk")]
    for point in mounted:
        done = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", point], capture_output=True, text=True)
        if done.returncode != 0:
            raise Skip(f"no mount here: {done.stderr}")
        with open(f"{point}/name", "w") as file:
            file.write("mounted")
    try:
        scene.write(("root", "*(rw,insecure,no_root_squash,fsid=0,crossmnt)"), ("disk", "*(rw,insecure,mp)"))
        with scene.serve() as server:
            # In version 4 the tree begins at the export.
            assert ok("cat", f"nfs://{ADDRESS}:{server.tcp}/name?proto=tcp&vers=4.2") == b"root"
            assert ok("cat", f"nfs://{ADDRESS}:{server.tcp}/inner/name?proto=tcp&vers=4.2") == b"mounted"
            for name in ("root/inner/name", "disk/name"):
                assert ok("cat", scene.url(server, name, "tcp", "&vers=3")) == b"mounted", name
            scene.write(("root", "*(rw,insecure,no_root_squash,fsid=0,crossmnt)"))
            reload(server, f"no longer exports {scene.at('disk')}")
            wait_until(lambda: subprocess.run(["umount", scene.at("disk")], capture_output=True).returncode == 0, "busy")
            # The file system below belongs to an export of its own, also while that is not served.
            scene.write(("root", "*(rw,insecure,no_root_squash,fsid=0,crossmnt)"), ("disk", "*(rw,insecure,mp)"),
                        ("root/inner", f"*(rw,insecure,mp={scene.at('disk')})"))
            reload(server, f"nothing is mounted at {scene.at('disk')}")
            refused("cat", f"nfs://{ADDRESS}:{server.tcp}/inner/name?proto=tcp&vers=4.2")
            refused("cat", scene.url(server, "disk/name", "tcp", "&vers=3"))
    finally:
        for point in mounted:
            subprocess.run(["umount", "-l", point], capture_output=True)


def names(scratch):
    """Clients by host name and by pattern, as the host's databases know them."""
    scene = Scene(scratch, "host", "pattern", "others")
    scene.write(("host", "localhost(rw,insecure)"), ("pattern", "local*(rw,insecure)"), ("others", "*.penstock.invalid(rw,insecure)"))
    with scene.serve() as server:
        for transport in TRANSPORTS:
            for version in ("3", "4.2"):
                assert ok("cat", scene.url(server, "host/name", transport, f"&vers={version}")) == b"host"
                assert ok("cat", scene.url(server, "pattern/name", transport, f"&vers={version}")) == b"pattern"
                refused("cat", scene.url(server, "others/name", transport, f"&vers={version}"))
        server.expect_line(f"is refused the export {scene.at('others')}: the export names other clients")


def secure(scratch):
    """The default of a table is secure: ports below 1024 over TCP, but RDMA has no such ports."""
    if os.geteuid() != 0:
        raise Skip("only root has ports below 1024")
    scene = Scene(scratch, "data")
    scene.write(("data", "*(rw)"))
    with scene.serve() as server:
        assert ok("cat", scene.url(server, "data/name", "tcp", "&vers=4.2")) == b"data"
        refused("cat", scene.url(server, "data/name", "tcp", "&vers=4.2&noresvport"))
        refused("cat", scene.url(server, "data/name", "tcp", "&vers=3&noresvport"))
        server.expect_line("its port is not below 1024")


def odd_tables(scratch):
    """A table that is no file does not keep the server from serving, from other reloads, or from stopping."""
    scene = Scene(scratch, "data")
    scene.write(("data", OPEN))
    with scene.serve() as server:
        os.unlink(scene.table)
        os.mkfifo(scene.table)
        reload(server, f"{scene.table}: cannot be read: not a regular file", "goes on with its old configuration")
        assert ok("cat", scene.url(server, "data/name", "tcp")) == b"data"
        os.unlink(scene.table)
        os.mkdir(scene.table)
        os.symlink(".", f"{scene.table}/loop.exports")
        reload(server, f"{scene.table}/loop.exports: cannot be read: not a regular file")
        os.unlink(f"{scene.table}/loop.exports")
        with open(f"{scene.table}/data.exports", "w") as file:
            file.write(f"{scene.at('data')} {OPEN}\n")
        reload(server, "the configuration is the same as before")
        assert ok("cat", scene.url(server, "data/name", "tcp")) == b"data"


def failed_reload(scratch):
    """A reload that fails late leaves nothing behind: the next one, without the mistake, finds nothing changed."""
    scene = Scene(scratch, "data", "data/inner")
    scene.write(("data", OPEN))
    with scene.serve() as server:
        scene.write(("data", OPEN), ("data/inner", "*(rw,xprtsec=tls)"))
        reload(server, "needs a certificate of the server", "goes on with its old configuration")
        scene.write(("data", OPEN))
        reload(server, "the configuration is the same as before")


if __name__ == "__main__":
    main({"table": table, "mistakes": mistakes, "configuration": configuration, "mounts": mounts, "names": names,
          "secure": secure, "odd_tables": odd_tables, "failed_reload": failed_reload})
