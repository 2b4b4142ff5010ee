#!/usr/bin/python3
"""`penstock cp` to this machine: the result, also after a failure in the middle."""

import contextlib
import itertools
import os
import signal
import stat
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from cases import main  # noqa: E402
from files import MIB, digest, make  # noqa: E402
from patience import SECONDS, wait_until  # noqa: E402
from penstock import ADDRESS, PENSTOCK, TRANSPORTS, Server, check_refusal, penstock_ok as ok, penstock_misused as misused, penstock_refused as refused, under_way  # noqa: E402
from valve import Valve  # noqa: E402

# SIZE is more than a client requests at a time. So a failure in the middle finds a part that is not yet requested.
SIZE, PASSING = 24 * MIB, 3 * MIB


@contextlib.contextmanager
def half_way(scratch, transport, options=""):
    """A download over an old file that is stopped in the middle: the process, the valve, the server."""
    os.makedirs(f"{scratch}/export", exist_ok=True)
    os.makedirs(f"{scratch}/got", exist_ok=True)
    make(f"{scratch}/export/file", SIZE)
    with open(f"{scratch}/got/file", "wb") as old:
        old.write(b"old")
    # Without --no-delegations a program that changes the file would wait for the client, whose recall the valve blocks.
    with Server({"/": f"{scratch}/export:no_root_squash"}, ["--no-delegations"]) as server:
        with Valve(server.rdma if transport == "rdma" else server.tcp, PASSING) as valve:
            url = f"nfs://{ADDRESS}:{valve.port}/file?vers=4.1&proto={transport}{options}"
            client = subprocess.Popen([PENSTOCK, "cp", "-q", url, f"{scratch}/got/file"], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                valve.wait()
                yield client, valve, server
            finally:
                client.kill()
                client.communicate()


def make_sources(scratch):
    """Makes two folders, one to export and one of this machine, with one large file each."""
    folders = f"{scratch}/export", f"{scratch}/mine"
    for folder in folders:
        os.makedirs(folder)
        os.chmod(folder, 0o777)
        make(f"{folder}/source", 64 * MIB)
    return folders


def lose_one_of_four(valve, *ends):
    """Copies with four connections, and ends one of them in the middle. Returns whether all four were in use before the end."""
    with under_way("cp", "-q", *ends) as client:
        wait_until(lambda: valve.is_closed.is_set() or client.poll() is not None, "the copy neither ends nor uses four connections")
        if is_held := client.poll() is None:
            assert valve.accepted() == 4, valve.accepted()
            valve.cut(1)
            valve.open()
        assert client.wait(SECONDS) == 0, ends
    assert valve.accepted() <= 5, (ends, valve.accepted())
    return is_held


def loses_one_of_four_connections(scratch):
    """One of four connections is lost in the middle of a copy. Its calls go over another one, the three others stay, and every octet
    arrives."""
    export, mine = make_sources(scratch)
    with Server({"/": f"{export}:no_root_squash"}) as server:
        for transport, version, upload in itertools.product(TRANSPORTS, ("3", "4.0", "4.1", "4.2"), (False, True)):
            port = server.rdma if transport == "rdma" else server.tcp
            source, made = (f"{mine}/source", f"{export}/copy") if upload else (f"{export}/source", f"{mine}/copy")
            # On a busy machine a copy may be over before it has four connections.
            for _ in range(20):
                with Valve(port, MIB // 4, holds_clients=upload, connections=4) as valve:
                    def url(name):
                        return (f"nfs://{ADDRESS}:{valve.port}/{name}?vers={version}&proto={transport}&mountport={server.mount}"
                                "&nconnect=4")

                    is_held = lose_one_of_four(valve, *([source, url("copy")] if upload else [url("source"), made]))
                assert digest(made) == digest(source), (transport, version, upload)
                os.unlink(made)
                if is_held:
                    break
            assert is_held, (transport, version, upload)


def lose_one_transport(failing, staying, refuses, *ends):
    """Copies over two valves, and ends the connections of one in the middle. Returns whether both were in use before the end."""
    with under_way("cp", "-q", *ends) as client:
        wait_until(lambda: (failing.is_closed.is_set() and staying.is_closed.is_set()) or client.poll() is not None,
                   "the copy neither ends nor uses both transports")
        if is_held := client.poll() is None:
            if refuses:
                failing.close()
            else:
                failing.cut()
                failing.open()
            staying.open()
        assert client.wait(SECONDS) == 0, ends
    assert not is_held or staying.accepted() == 1, (ends, "the other connection was lost as well")
    return is_held


def goes_on_over_the_other_transport(scratch):
    """One session has a connection over RDMA and one over TCP (proto=rdma+tcp). In the middle of a copy one of them is lost, and its
    port refuses another one, or accepts it. The copy goes on over the other one, and every octet arrives."""
    export, mine = make_sources(scratch)
    with Server({"/": f"{export}:no_root_squash"}) as server:
        for lost, version, upload, refuses in itertools.product(TRANSPORTS, ("4.1", "4.2"), (False, True), (False, True)):
            case = lost, version, upload, refuses
            source, made = (f"{mine}/source", f"{export}/copy") if upload else (f"{export}/source", f"{mine}/copy")
            # On a busy machine a copy may be over before it uses both.
            for _ in range(20):
                with Valve(server.tcp, MIB // 4, holds_clients=upload) as tcp, \
                        Valve(server.rdma, 0, holds_clients=upload, after=tcp) as rdma:
                    url = f"nfs://{ADDRESS}:{rdma.port}/{{}}?vers={version}&proto=rdma+tcp&tcpport={tcp.port}".format
                    failing, staying = (rdma, tcp) if lost == "rdma" else (tcp, rdma)
                    is_held = lose_one_transport(failing, staying, refuses, *([source, url("copy")] if upload else [url("source"), made]))
                assert digest(made) == digest(source), case
                os.unlink(made)
                if is_held:
                    break
            assert is_held, case


def refuses_what_both_transports_cannot_do(scratch):
    """proto=rdma+tcp is refused where a session cannot have both, and is never ignored."""
    os.makedirs(f"{scratch}/export")
    make(f"{scratch}/export/source", MIB)
    with Server({"/": f"{scratch}/export:no_root_squash"}) as server:
        url = f"nfs://{ADDRESS}:{server.rdma}/source?proto=rdma+tcp&tcpport={server.tcp}"
        for options, mentions in (("&vers=3", "needs vers=4.1 or 4.2"), ("&vers=4.0", "needs vers=4.1 or 4.2"),
                                  ("&vers=4.1-sess01", "needs vers=4.1 or 4.2"), ("&nconnect=1", "needs nconnect=2"),
                                  ("&xprtsec=tls", "RDMA has no TLS"), ("&proto=rdma", "tcpport needs proto=rdma+tcp")):
            misused("cp", "-q", url + options, f"{scratch}/got", mentions=[mentions])
            assert not os.path.exists(f"{scratch}/got"), options
        ok("cp", "-q", url, f"{scratch}/got")
        assert digest(f"{scratch}/got") == digest(f"{scratch}/export/source")


def assert_untouched(scratch):
    with open(f"{scratch}/got/file", "rb") as old:
        assert old.read() == b"old", "the old file is damaged"
    assert os.listdir(f"{scratch}/got") == ["file"], os.listdir(f"{scratch}/got")


def assert_failed(client, *mentions, warnings=()):
    _, said = client.communicate(timeout=SECONDS)
    check_refusal(client.returncode, said, mentions, warnings)


def source_shrinks(scratch):
    for transport in TRANSPORTS:
        with half_way(scratch, transport) as (client, valve, _):
            os.truncate(f"{scratch}/export/file", MIB)
            valve.open()
            assert_failed(client, "/file", "shorter")
        assert_untouched(scratch)


def source_grows(scratch):
    """The copy has the size that the file had at its start."""
    for transport in TRANSPORTS:
        with half_way(scratch, transport) as (client, valve, _):
            before = digest(f"{scratch}/export/file")
            with open(f"{scratch}/export/file", "ab") as source:
                source.write(b"more")
            valve.open()
            assert client.wait(SECONDS) == 0, client.returncode
            assert digest(f"{scratch}/got/file") == before


def server_goes(scratch):
    """A waiting client reports why it waits."""
    for transport in TRANSPORTS:
        with half_way(scratch, transport, "&timeout=1") as (client, valve, server):
            server.kill()
            valve.open()
            assert_failed(client, "/file", "connection", warnings=["trying again for up to 1 s"])
            server.start()  # the test checks its end
        assert_untouched(scratch)


def interrupted(scratch):
    """An interrupted copy leaves the old file as it was, leaves no other file, and reports the signal to the shell."""
    for how in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with half_way(scratch, TRANSPORTS[-1]) as (client, _, _):
            assert len(os.listdir(f"{scratch}/got")) == 2, "it goes to another name"
            client.send_signal(how)
            assert client.wait(SECONDS) == -how, client.returncode
        assert_untouched(scratch)


def targets(scratch):
    """Copies files, links to files, and objects that are no files."""
    os.makedirs(f"{scratch}/export")
    os.makedirs(f"{scratch}/got/folder")
    os.makedirs(f"{scratch}/got/there")
    make(f"{scratch}/export/file", 3 * MIB + 1)
    os.chmod(f"{scratch}/export/file", 0o751)
    source, got = digest(f"{scratch}/export/file"), f"{scratch}/got"
    with Server({"/": f"{scratch}/export:no_root_squash"}) as server:
        for transport in TRANSPORTS:
            def copy(to, *options):
                ok("cp", "-q", *options, server.url("/file", transport), to)

            copy(f"{got}/new")
            copy(f"{got}/folder")
            make(f"{got}/old", 5 * MIB)
            os.chmod(f"{got}/old", 0o640)
            copy(f"{got}/old")
            assert stat.S_IMODE(os.stat(f"{got}/old").st_mode) == 0o640
            make(f"{got}/there/file", 10)
            os.symlink("there/file", f"{got}/link")
            copy(f"{got}/link")
            assert os.readlink(f"{got}/link") == "there/file"
            make(f"{got}/linked", 5 * MIB)
            os.link(f"{got}/linked", f"{got}/second")
            copy(f"{got}/linked", "--in-place")
            for name in ("new", "folder/file", "old", "link", "linked", "second"):
                assert digest(f"{got}/{name}") == source, name
            assert set(os.listdir(got)) == {"new", "folder", "old", "there", "link", "linked", "second"}, os.listdir(got)
            for name in ("new", "old", "link", "linked", "second", "folder/file"):
                os.unlink(f"{got}/{name}")

            copy("/dev/null")
            assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
            os.mkfifo(f"{got}/pipe")
            piped = []

            def read():
                piped.append(digest(f"{got}/pipe"))

            reader = threading.Thread(target=read)
            reader.start()
            copy(f"{got}/pipe")
            reader.join()
            assert piped == [source] and stat.S_ISFIFO(os.stat(f"{got}/pipe").st_mode)
            os.unlink(f"{got}/pipe")
            refused("cp", "-q", server.url("/file", transport), "/dev/full", mentions=["/dev/full"])


def unsized_source(scratch):
    """Copies files of /proc, which report a size of zero before they are read."""
    os.makedirs(f"{scratch}/export")
    os.chmod(f"{scratch}/export", 0o777)
    with open("/proc/version", "rb") as source:
        content = source.read()
    with Server({"/": f"{scratch}/export:no_root_squash"}) as server:
        for transport in TRANSPORTS:
            with open(f"{scratch}/export/put", "w") as old:
                old.write("what was there before, and longer than what comes, to be sure" * 10)
            os.chmod(f"{scratch}/export/put", 0o666)
            ok("cp", "/proc/version", server.url("/put", transport))
            with open(f"{scratch}/export/put", "rb") as put:
                assert put.read() == content


main({case.__name__: case for case in (source_shrinks, source_grows, server_goes, interrupted, targets, unsized_source,
                                             loses_one_of_four_connections, goes_on_over_the_other_transport,
                                             refuses_what_both_transports_cannot_do)})
