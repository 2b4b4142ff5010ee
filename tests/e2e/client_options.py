#!/usr/bin/python3
"""Options of the client commands: wrong usages, the options of nfs(5), the file of defaults, and output that nobody takes."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import main  # noqa: E402
from penstock import ADDRESS, PENSTOCK, Server, penstock, penstock_misused as misused  # noqa: E402
from penstock import penstock_ok as ok, penstock_refused as refused  # noqa: E402

URL = f"nfs://{ADDRESS}:1/"  # a command that fails to refuse its usage would report the connection, with exit code 1

MISUSES = [
    ([], ["penstock: A command is required", "see penstock --help"]),
    (["lss", URL], ["unknown command 'lss' (is ls meant?)"]),
    (["ls"], ["penstock ls: URL is required", "see penstock ls --help"]),
    (["ls", "--colour", URL], ["penstock ls: unknown option --colour"]),
    (["cat", "--ver=3", URL], ["unknown option --ver (is --vers meant?)"]),
    (["cp", URL], ["needs a source and a target"]),
    (["cp", "--in-flight=0", "a", URL], ["--in-flight", "1 to 64"]),
    (["ls", "/local"], ["/local: not an nfs:// URL"]),
    (["ls", "nfs://:1/"], ["is not of the form nfs://HOST[:PORT]/PATH"]),
    (["ls", "nfs://h/%zz"], ["malformed % escape"]),
    (["ls", URL + "?rsise=1"], ["unknown option 'rsise' (is rsize meant?)"]),
    (["ls", URL + "?vers=2"], ["vers must be 3, 4.0, 4.1, 4.2"]),
    (["ls", URL + "?soft=1"], ["soft takes no value"]),
    (["ls", "-o", "soft,timeo=0", URL], ["-o timeo=0: timeo must be"]),
    (["ls", "-o", "nconnect=17", URL], ["nconnect must be a number from 1 to 16"]),
    (["ls", "-o", "proto=udp", URL], ["no NFS over UDP"]),
    (["ls", "--vers=5", URL], ["--vers"]),
    (["ls", "--xprtsec=tls", URL + "?proto=rdma"], ["RDMA has no TLS", "--xprtsec tls asks for that"]),
    (["chmod", "u", URL], ["u"]),
    (["ping", "--count=many", URL], ["--count", "many"]),
    (["showmount", "-e", "-a", "host"], ["--exports excludes --all"]),
    (["probe", "a/b"], ["neither a host nor an nfs:// URL"]),
    (["doctor", "host"], ["host: not an nfs:// URL"]),
    (["cp", "a", "b"], ["cp: at least one of the files must be an nfs:// URL"]),
    (["cp", "-", "-"], ["cp: at least one of the files must be an nfs:// URL"]),
    (["cp", "--jobs=0", URL, "a"], ["penstock cp: --jobs", "1 to 1024"]),
    (["cp", "--bwlimit=1M", URL, "a"], ["unknown option --bwlimit (is --limit meant?)"]),
    (["touch", "-d", "2026-02-30", URL], ["2026-02-30: neither a date such as"]),
    (["truncate", URL], ["penstock truncate: --size is required"]),
    (["truncate", "-s", "12Z", URL], ["12Z: not a size such as 4096"]),
    (["chown", ":", URL], ["chown: OWNER is a user, a user and a group as USER:GROUP, or a group as :GROUP"]),
    (["chmod", "999", URL], ["999: a mode is an octal number of at most four digits"]),
    (["setfacl", URL], ["setfacl: one of --set, --set-file, -m, -x, -b and -k is required"]),
    (["getfattr", "-n", "trusted.x", URL], ["trusted.x: the name of an attribute begins with user."]),
    (["setfattr", "-n", "user.a", "-v", "0xzz", URL], ["0xzz: neither a text, 0x and hexadecimal digits, nor 0s and base64"]),
    (["find", "--size=abc", URL], ["abc: not a number with + for more, - for less"]),
    (["find", "--type=q", URL], ["--type q: a type is one of f d l b c s p"]),
    (["head", "-n", "-1", URL], ["-1: not a number of lines or octets"]),
    (["cmp", URL], ["penstock cmp: FILE2 is required"]),
    (["ln", "-s", "x"], ["penstock ln: URL"]),
    (["ls", "nfs://127.0.0.1:99999/"], ["is not of the form nfs://HOST[:PORT]/PATH"]),
    (["ls", URL + "?vers=3&minorversion=1"], ["minorversion needs vers=4"]),
    (["ls", URL + "?sec=krb9"], ["sec must be none, sys, krb5, krb5i, krb5p or a list", "'krb9' is not"]),
    (["ls", "--sec=sys:lkey", URL], ["sec must be none, sys, krb5, krb5i, krb5p or a list", "'lkey' is not"]),
]


def misuses(_):
    """Wrong usages have exit code 2, and one line on stderr that names the mistake."""
    for arguments, mentions in MISUSES:
        misused(*arguments, mentions=mentions)


def full_output(scratch):
    """Output that a full disk or a closed pipe does not take is an error."""
    folder = f"{scratch}/export"
    os.mkdir(folder)
    with open(f"{folder}/file", "w") as file:
        file.write("text")
    with Server({"/": folder}) as server:
        url = server.url("/", "tcp")
        for arguments in (["ls", "-l", url], ["cat", server.url("/file", "tcp")], ["ping", "-c", 1, url], ["doctor", url], ["--help"],
                          ["showmount", "-e", f"{ADDRESS}:{server.mount}"], ["completion", "bash"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([PENSTOCK, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True)
            assert done.returncode == 1, (arguments, done)
            assert done.stderr == "penstock: standard output: No space left on device\n", (arguments, done.stderr)
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run([PENSTOCK, "ls", url], stdout=writing, stderr=subprocess.PIPE, text=True)
        os.close(writing)
        assert (done.returncode, done.stderr) == (1, "penstock: standard output: Broken pipe\n"), done


def defaults(scratch):
    """Flags replace the URL, the URL the environment, and this the file. A mistake of the file has its line."""
    folder = f"{scratch}/export"
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    config = f"{scratch}/config.toml"
    environment = {**os.environ, "PENSTOCK_CLIENT_CONFIG": config}

    def write(text):
        with open(config, "w") as file:
            file.write(text)

    with Server({"/": f"{folder}:no_root_squash"}) as server:
        url = f"nfs://{ADDRESS}:{server.tcp}/"
        write(f'[defaults]\nvers = "3"\nmountport = {server.mount}\n[host."127.*"]\nro = true\n')
        said = penstock("ping", "-c", 1, url, env=environment).stdout
        assert b"NFS version 3 " in said, said
        assert b"NFS version 4.2 " in penstock("ping", "-c", 1, f"{url}?vers=4.2", env=environment).stdout
        assert b"NFS version 4.0 " in penstock("ping", "-c", 1, "-o", "vers=4.0", f"{url}?vers=4.2", env=environment).stdout
        options = {**environment, "PENSTOCK_OPTIONS": "vers=4.1"}
        assert b"NFS version 4.1 " in penstock("ping", "-c", 1, url, env=options).stdout
        refused("mkdir", f"{url}new", mentions=["nfs://", "new", "the option ro forbids changes"], env=environment)
        assert penstock("mkdir", "-o", "rw", f"{url}new", env=environment).returncode == 0
        write("[defaults]\nvers = \"3\"\nretrains = 1\n")
        misused("ls", url, mentions=[f"{config}:3: unknown option 'retrains' (is retrans meant?)"], env=environment)


def finds_ports(scratch):
    """Version 3 needs no mountport= if MOUNT is at the port of NFS. Where nothing listens, the error names each attempt."""
    folder = f"{scratch}/export"
    os.mkdir(folder)
    with open(f"{folder}/file", "w") as file:
        file.write("text")
    with Server({"/data": folder}) as server:
        url = f"nfs://{ADDRESS}:{server.mount}/data/file?vers=3"
        assert ok("cat", url) == b"text"
        assert ok("cat", "-o", f"soft,timeo=20,retrans=1,rsize=1024,nolock,_netdev,x-systemd.automount,mountport={server.mount}", url) == b"text"
        refused("cat", f"{url}&mounthost=127.0.0.9", mentions=["MOUNT: 127.0.0.9: port 20048: ", "; rpcbind: "])


if __name__ == "__main__":
    main({"misuses": misuses, "full_output": full_output, "defaults": defaults, "finds_ports": finds_ports})
