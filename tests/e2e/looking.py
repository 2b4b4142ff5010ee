#!/usr/bin/python3
"""The commands that look at a server's files and change their names and attributes, over both transports, in versions 3
and 4.2."""

import hashlib
import json
import os
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import main  # noqa: E402
from files import make  # noqa: E402
from penstock import ADDRESS, PENSTOCK, TRANSPORTS, Server, penstock, penstock_misused as misused  # noqa: E402
from penstock import penstock_ok as ok, penstock_refused as refused  # noqa: E402

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


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def lists(scratch):
    for scene in scenes(scratch):
        tree(scene.folder)
        assert ok("ls", scene.url("/a")).decode() == "b\nfile\nlink\n"
        assert ok("ls", "-aF", scene.url("/a")).decode() == "./\n../\n.hidden/\nb/\nfile\nlink@\n"
        assert ok("ls", "-rS", scene.url("/a/b"), scene.url("/z")).decode().startswith(f"{scene.name('/a/b')}:\n")
        assert ok("ls", "--sort=size", scene.url("/a")) == ok("ls", "-S", scene.url("/a")) != ok("ls", "--sort=name", scene.url("/a"))
        misused("ls", "--sort=colour", scene.url("/a"), mentions=["--sort", "colour"])
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
        refused("mkdir", "-p", scene.url("/a/file/below"), mentions=[scene.name("/a/file/below"), "not a directory"])
        ok("chmod", "-R", "u=rwX,go=", scene.url("/a"))
        assert [scene.mode(path) for path in ("/a", "/a/b/c", "/a/file", "/a/b/other")] == [0o700, 0o700, 0o600, 0o600]
        ok("chown", "-R", "12:34", scene.url("/a"))
        assert all((it.st_uid, it.st_gid) == (12, 34) for it in map(os.lstat, (f"{scene.folder}/a/{name}" for name in ("b/c", "link"))))
        for owner, name in (("no-such-user", "no-such-user"), ("12:no-such-group", "no-such-group")):
            refused("chown", owner, scene.url("/a"), mentions=[f"chown {owner}: {name}: this host has no such"])
        refused("chown", "12", scene.url("/absent"), mentions=[f"{scene.name('/absent')}: no such file"])
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
        refused("mv", scene.url("/a"), scene.root + "/a/b/below", mentions=[scene.name("/a"), "into itself", scene.name("/a/b/below")])
        refused("mv", scene.url("/a"), scene.root + "/a", mentions=["into itself"])
        for same in ("/a/b/third", "/into/third"):
            refused("mv", scene.url("/a/b/third"), scene.root + same, mentions=[scene.name("/a/b/third"), scene.name(same), "are the same file"])
        misused("ln", "-s", "", scene.url("/into/empty"), mentions=["the text of the link is empty"])
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


def looks(scratch):
    for scene in scenes(scratch):
        tree(scene.folder)
        os.chmod(f"{scene.folder}/a/file", 0o640)
        assert ok("stat", "-c", "%n %s %a %F", scene.url("/a/file")).decode() == f"{scene.name('/a/file')} 10000 640 regular file\n"
        assert " -> file\n" in ok("stat", scene.url("/a/link")).decode()
        shown = json.loads(ok("stat", "--json", "-L", scene.url("/a/link")))
        assert (shown["type"], shown["size"], shown["mode"]) == ("file", 10000, "0640"), shown
        room = json.loads(ok("df", "--json", scene.url()))
        there = os.statvfs(scene.folder)
        assert room["total"] == there.f_blocks * there.f_frsize and room["total_files"] == there.f_files, room
        assert [line.split()[-1] for line in ok("df", "-h", scene.url()).decode().splitlines()] == ["URL", scene.name()]
        used = sum(os.lstat(path).st_blocks * 512 for path in [scene.folder] + [
            os.path.join(folder, name) for folder, folders, files in os.walk(scene.folder) for name in folders + files])
        *_, last = [json.loads(line) for line in ok("du", "--json", scene.url()).splitlines()]
        assert (last["path"], last["octets"]) == (scene.root, used), (last, used)
        assert len(ok("du", "-s", scene.url("/a"), scene.url("/z")).splitlines()) == 2
        drawn = ok("tree", "-a", scene.url("/a")).decode().splitlines()
        assert drawn[1:5] == ["├── .hidden", "├── b", "│   ├── c", "│   └── other"], drawn
        assert drawn[-1] == "3 directories, 3 files", drawn
        refused("tree", scene.url("/a/file"), mentions=[f"{scene.name('/a/file')}: not a directory"])


def finds(scratch):
    for scene in scenes(scratch):
        tree(scene.folder)
        with open(f"{scene.folder}/a/new\nline 100%?", "w"):
            pass

        def find(*tests):
            return [line.removeprefix(scene.root) for line in ok("find", *tests, scene.url()).decode().splitlines()]

        assert find("--type", "d") == ["", "/a", "/a/.hidden", "/a/b", "/a/b/c", "/z"], find("--type", "d")
        assert find("--name", "o*", "--name", "file", "--size", "-5K") == ["/a/b/other"]
        assert find("--maxdepth", 1, "--mindepth", 1) == ["/a", "/z"]
        assert find("--empty", "--type", "d", "--prune", ".*") == ["/a/b/c", "/z"]
        assert find("--mtime", "+1") == [] and find("--path", "a/b/*", "--mmin", "-60") == ["/a/b/c", "/a/b/other"]
        url = ok("find", "--empty", "--type", "f", "--url", "--print0", scene.url()).decode()
        ok("rm", url.removesuffix("\0"))
        assert sorted(os.listdir(f"{scene.folder}/a")) == [".hidden", "b", "file", "link"]
        assert find("--name", "l*", "--delete") == []
        assert sorted(os.listdir(f"{scene.folder}/a")) == [".hidden", "b", "file"]
        refused("find", "--name", "b", "--delete", scene.url(), mentions=[f"{scene.name('/a/b')}: directory not empty"])
        os.makedirs(f"{scene.folder}/z/y/x")
        find("--empty", "--type", "d", "--delete")
        assert sorted(os.listdir(scene.folder)) == ["a"], "directories that become empty are found, too"
        assert sorted(os.listdir(f"{scene.folder}/a/b")) == ["other"]
        find("--delete")
        assert not os.path.exists(scene.folder)
        os.makedirs(scene.folder)


def reads(scratch):
    for scene in scenes(scratch):
        text = "".join(f"line {number}\n" for number in range(1, 30001))
        for name, what in (("log", text), ("other", text[:200000] + "x" + text[200001:])):
            with open(f"{scene.folder}/{name}", "w") as file:
                file.write(what)
        assert ok("cat", scene.url("/log")).decode() == text
        assert ok("head", "-n", 2, scene.url("/log")).decode() == "line 1\nline 2\n"
        assert ok("head", "-c", 100000, scene.url("/log")).decode() == text[:100000]
        assert ok("tail", "-n", 12000, scene.url("/log")).decode() == "".join(text.splitlines(True)[-12000:])
        assert ok("tail", "-n", "+29999", scene.url("/log")).decode() == "line 29999\nline 30000\n"
        assert ok("tail", "-qc", 3, scene.url("/log"), scene.url("/other")).decode() == "00\n00\n"
        local = f"{scene.folder}/log"
        ok("cmp", scene.url("/log"), local)
        different = penstock("cmp", scene.url("/log"), scene.url("/other"))
        line = text[:200000].count("\n") + 1
        assert different.returncode == 1 and f"differ: octet 200001, line {line}\n" in different.stdout.decode(), different
        assert penstock("cmp", scene.url("/log"), f"{scratch}/none").returncode == 2
        assert penstock("cmp", "-n", "200000", scene.url("/log"), scene.url("/other")).returncode == 0
        sums = ok("sha256sum", scene.url("/log"), local)
        assert [row.split()[0] for row in sums.decode().splitlines()] == [sha256(local)] * 2, sums
        with open(f"{scratch}/sums", "wb") as file:
            file.write(sums)
        ok("sha256sum", "--check", f"{scratch}/sums")
        with open(local, "a") as file:
            file.write("more\n")
        failed = penstock("sha256sum", "-c", "--quiet", f"{scratch}/sums")
        assert failed.returncode == 1 and failed.stdout.decode().count(": FAILED\n") == 2, failed


def follows(scratch):
    for scene in scenes(scratch):
        log = f"{scene.folder}/log"
        with open(log, "w") as file:
            file.write("old\nfirst\n")
        with subprocess.Popen([PENSTOCK, "tail", "-n", "1", "-s", "0.05", "-F", scene.url("/log")], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tail:
            try:
                assert tail.stdout.readline() == b"first\n"
                with open(log, "a") as file:
                    file.write("second\n")
                assert tail.stdout.readline() == b"second\n"
                os.rename(log, log + ".1")
                with open(log, "w") as file:
                    file.write("third\n")
                assert tail.stdout.readline() == b"third\n"
            finally:
                tail.kill()


def access_lists(scratch):
    for scene in scenes(scratch):
        tree(scene.folder)
        file = scene.url("/a/file")
        if "vers=3" in scene.options:
            ok("setfacl", "-m", "u:1234:rw,d:g:5678:r", scene.url("/a"))
            shown = ok("getfacl", "-n", scene.url("/a")).decode().splitlines()
            assert f"# file: {scene.root}/a" in shown and "user:1234:rw-" in shown and "default:group:5678:r--" in shown, shown
            assert "mask::rwx" in shown, shown
            ok("setfacl", "-x", "u:1234", "-k", scene.url("/a"))
            assert b"1234" not in ok("getfacl", scene.url("/a"))
            refused("getfattr", file, mentions=[scene.name("/a/file"), "not supported"])
        else:
            ok("setfacl", "-m", "A::1234:rx", file)
            shown = ok("getfacl", file).decode()
            assert "A::1234:rxtcy\n" in shown or "A::1234:rx" in shown, shown
            listed = subprocess.run([PENSTOCK, "setfacl", "--set-file", "-", scene.url("/a/b/other")], input=shown.encode(), check=True)
            assert listed.returncode == 0
            ok("setfattr", "-n", "user.color", "-v", "blue", file)
            assert ok("getfattr", "-d", file).decode() == f'# file: {scene.root}/a/file\nuser.color="blue"\n\n'
            assert ok("getfattr", "--only-values", "-n", "user.color", file) == b"blue"
            ok("setfattr", "-x", "user.color", file)
            refused("getfattr", "-n", "user.color", file, mentions=["no attribute user.color"])
        # In a tree, files get nothing that is for directories, and links are left out.
        version3 = "vers=3" in scene.options
        ok("setfacl", "-R", "-m", "u:4321:rx,d:g:5678:r" if version3 else "A:fd:4321:rx", scene.url("/a"))
        lists = {}
        for one in ok("getfacl", "-R", "-n", scene.url("/a")).decode().strip().split("\n\n"):
            lines = one.splitlines()
            lists[lines[0].removeprefix(f"# file: {scene.root}/a")] = [line for line in lines[3:] if "4321" in line or "5678" in line]
        assert set(lists) == {"", "/.hidden", "/b", "/b/c", "/b/other", "/file"}, lists
        if version3:
            assert lists["/b"] == ["user:4321:r-x", "default:group:5678:r--"] and lists["/file"] == ["user:4321:r-x"], lists
        else:
            assert any(line.startswith("A:fd") for line in lists["/b"]), lists
            assert [line.startswith("A::4321:") for line in lists["/file"]] == [True], lists
        refused("setfacl", "-m", "nonsense", file, mentions=["nonsense: not an entry"])


def shells(scratch):
    """`shell` reads commands from a pipe, and goes on after one that fails."""
    for scene in scenes(scratch):
        tree(scene.folder)
        commands = f"""cd a/b
pwd
cat other
ls ../none
ls -A ..   # a comment
lcd {scratch}
get ../file got
put got 'put again'
cd file
mkdir -p x/y
exit
pwd"""
        done = subprocess.run([PENSTOCK, "shell", scene.url()], input=commands.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with open(f"{scene.folder}/a/b/other", "rb") as other:
            expected = f"{scene.root}/a/b\n".encode() + other.read() + b".hidden\nb\nfile\nlink\n"
        assert done.stdout == expected, (done.stdout, expected)
        assert [scene.name(path) in done.stderr.decode() for path in ("/a/none", "/a/b/file")] == [True, True], done.stderr
        assert done.returncode == 0 and os.path.isdir(f"{scene.folder}/a/b/x/y")
        with open(f"{scene.folder}/a/b/put again", "rb") as put, open(f"{scene.folder}/a/file", "rb") as file:
            assert put.read() == file.read()
        done = subprocess.run([PENSTOCK, "shell", "-e", scene.url()], input=b"ls none\nmkdir no", stderr=subprocess.DEVNULL)
        assert done.returncode == 1 and not os.path.exists(f"{scene.folder}/no")
        # Empty lines and comments are no commands.
        done = subprocess.run([PENSTOCK, "shell", scene.url()], input=b"ls none\n\n# the end\n", stderr=subprocess.DEVNULL)
        assert done.returncode == 1, done.returncode
        # The shell begins only in a directory that exists.
        for path, reason in (("/none", "no such file or directory"), ("/a/file", "not a directory")):
            done = subprocess.run([PENSTOCK, "shell", scene.url(path)], input=b"pwd\n", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            assert (done.returncode, done.stdout) == (1, b""), done
            assert f"{scene.name(path)}: {reason}" in done.stderr.decode(), done.stderr


if __name__ == "__main__":
    main({case.__name__: case for case in (lists, changes, names, removes, looks, finds, reads, follows, access_lists, shells)})
