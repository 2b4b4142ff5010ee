#!/usr/bin/python3
"""The commands that look at a server's files and change their names and attributes, over both transports, in versions 3
and 4.2."""

import json
import os
import stat
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import main  # noqa: E402
from files import make  # noqa: E402
from penstock import ADDRESS, TRANSPORTS, Server, penstock, penstock_ok as ok, penstock_refused as refused  # noqa: E402

HOWS = [(transport, version) for transport in TRANSPORTS for version in ("3", "4.2")]


class Scene:
    """A server with one export, and the URLs of its files for one transport and version."""

    def __init__(self, scratch, server, transport, version):
        self.folder = f"{scratch}/export/{transport}-{version}"
        os.makedirs(self.folder)
        self.root = "/" + os.path.basename(self.folder)
        self.port = server.rdma if transport == "rdma" else server.tcp
        self.options = f"?vers={version}&proto={transport}" + (f"&mountport={server.mount}" if version == "3" else "")

    def url(self, path=""):
        return f"nfs://{ADDRESS}:{self.port}{self.root}{path}{self.options}"

    def name(self, path=""):
        """The URL in messages."""
        return f"nfs://{ADDRESS}:{self.port}{self.root}{path}"

    def mode(self, path):
        return stat.S_IMODE(os.lstat(self.folder + path).st_mode)


def scenes(scratch):
    os.makedirs(f"{scratch}/export")
    with Server({"/": f"{scratch}/export:no_root_squash"}) as server:
        for transport, version in HOWS:
            yield Scene(scratch, server, transport, version)


def tree(folder):
    for name in ("a/b/c", "a/.hidden", "z"):
        os.makedirs(f"{folder}/{name}")
    make(f"{folder}/a/file", 10000)
    make(f"{folder}/a/b/other", 3)
    os.symlink("file", f"{folder}/a/link")


def lists(scratch):
    for scene in scenes(scratch):
        tree(scene.folder)
        assert ok("ls", scene.url("/a")).decode() == "b\nfile\nlink\n"
        assert ok("ls", "-aF", scene.url("/a")).decode() == "./\n../\n.hidden/\nb/\nfile\nlink@\n"
        assert ok("ls", "-rS", scene.url("/a/b"), scene.url("/z")).decode().startswith(f"{scene.name('/a/b')}:\n")
        listed = [json.loads(line) for line in ok("ls", "-RA", "--json", scene.url()).splitlines()]
        assert [each["path"].removeprefix(scene.root) for each in listed] == [
            "/a", "/z", "/a/.hidden", "/a/b", "/a/file", "/a/link", "/a/b/c", "/a/b/other"], listed
        assert [each["target"] for each in listed if "target" in each] == ["file"], listed
        done = penstock("ls", "-lh", scene.url("/none"), scene.url("/a"))
        assert done.returncode == 1 and f"{scene.name('/none')}: no such file" in done.stderr, done
        assert b" 9.8K " in done.stdout and b" link -> file\n" in done.stdout, done.stdout


def changes(scratch):
    for scene in scenes(scratch):
        tree(scene.folder)
        ok("mkdir", "-p", scene.url("/a/b"), scene.url("/new/deep/"))
        assert os.path.isdir(f"{scene.folder}/new/deep")
        refused("mkdir", "-p", scene.url("/a/file/below"), mentions=[scene.name("/a/file/below")])
        ok("chmod", "-R", "u=rwX,go=", scene.url("/a"))
        assert [scene.mode(path) for path in ("/a", "/a/b/c", "/a/file", "/a/b/other")] == [0o700, 0o700, 0o600, 0o600]
        ok("chown", "-R", "12:34", scene.url("/a"))
        assert all((it.st_uid, it.st_gid) == (12, 34) for it in map(os.lstat, (f"{scene.folder}/a/{name}" for name in ("b/c", "link"))))
        refused("chown", "no-such-user", scene.url("/a"), mentions=["no-such-user"])
        ok("touch", "-d", "@1000000000.25", scene.url("/a/file"), scene.url("/a/made"))
        assert os.stat(f"{scene.folder}/a/made").st_mtime == 1000000000.25
        ok("touch", "-c", scene.url("/a/absent"))
        assert not os.path.exists(f"{scene.folder}/a/absent")
        ok("truncate", "-s", "+1K", scene.url("/a/file"), scene.url("/a/made"))
        assert [os.path.getsize(f"{scene.folder}/a/{name}") for name in ("file", "made")] == [11024, 1024]


def names(scratch):
    for scene in scenes(scratch):
        tree(scene.folder)
        os.makedirs(f"{scene.folder}/into")
        ok("mv", scene.url("/a/file"), scene.url("/a/link"), scene.root + "/into")
        assert sorted(os.listdir(f"{scene.folder}/into")) == ["file", "link"]
        refused("mv", "-n", scene.url("/into/file"), scene.url("/a/b/other"), mentions=[scene.name("/a/b/other"), "exists"])
        ok("mv", "-n", scene.url("/into/file"), scene.url("/a/b/third"))
        ok("ln", scene.url("/a/b/third"), scene.url("/a/b/other"), scene.url("/into"))
        refused("ln", "-s", "text", scene.url("/into/link"), mentions=[scene.name("/into/link"), "exists"])
        ok("ln", "-sf", "text", scene.url("/into/link"))
        assert os.readlink(f"{scene.folder}/into/link") == "text"
        assert sorted(os.listdir(f"{scene.folder}/into")) == ["link", "other", "third"]


def removes(scratch):
    for scene in scenes(scratch):
        tree(scene.folder)
        os.symlink("../../z", f"{scene.folder}/a/b/outside")
        make(f"{scene.folder}/z/stays", 1)
        for count in range(40):
            make(f"{scene.folder}/a/b/c/{count}", 1)
        refused("rm", scene.url("/a"), mentions=[scene.name("/a"), "is a directory"])
        refused("rm", "-r", scene.url("/.."), mentions=["cannot be removed"])
        refused("rm", scene.url("/none"), mentions=["no such file"])
        ok("rm", "-f", scene.url("/none"))
        ok("rm", "-r", scene.url("/a"))
        assert os.listdir(scene.folder) == ["z"] and os.listdir(f"{scene.folder}/z") == ["stays"]
        refused("rm", "-rf", scene.url().replace(scene.root, "/"), mentions=["root of an export"])


if __name__ == "__main__":
    main({case.__name__: case for case in (lists, changes, names, removes)})
