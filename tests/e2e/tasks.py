#!/usr/bin/python3
"""The tasks of docs/tasks.md: executes the commands of the page, and checks what each has done."""

import json
import os
import pwd
import re
import shutil
import socket
import stat
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "harness"))
from cases import Skip, main  # noqa: E402
from certificates import Authority  # noqa: E402
from files import digest  # noqa: E402
from kerberos import USERS, Realm  # noqa: E402
from lock_host import DENIED, GRANTED_IT  # noqa: E402
import nfs4_messages as v4  # noqa: E402
from patience import SECONDS, wait_until  # noqa: E402
import rpc_messages as rpc  # noqa: E402
from rpc_messages import opaque, words  # noqa: E402
from task_hosts import ACCES, MNT_ACCES, MNT_OK, Client, Holder, LockHolder, make_folder, make_mailbox, mount  # noqa: E402
from task_page import TaskPage  # noqa: E402
from task_scene import BESIDE, BEYOND, CLIENT, FIRST, SIXTH, Scene  # noqa: E402

PAGE = TaskPage(os.path.join(HERE, "..", "..", "docs", "tasks.md"))


def root_only():
    if os.getuid() != 0:
        raise Skip("only a server of root gives files of its clients to root")


def t01_read_only(scratch):
    """Clients of the network read, and cannot write. Others are refused."""
    with Scene(PAGE, scratch, "data") as scene:
        open(f"{scratch}/srv/data/file", "w").close()
        said = scene.do(1)
        assert re.search(r"/data +127\.0\.0\.0/24 +ro ", said["penstock ctl exports"]), said
        assert said["penstock ls nfs://server.example/data"] == "file\n", said
        assert "read-only file system" in scene.run("penstock", "mkdir", scene.local("/data/new"), code=1)
        assert os.listdir(f"{scratch}/srv/data") == ["file"]
        assert mount(scene, b"/data", BESIDE)[0] == MNT_OK and mount(scene, b"/data", BEYOND)[0] == MNT_ACCES


def t02_read_write(scratch):
    """One host writes, and others are refused. The export of task 1 stays."""
    with Scene(PAGE, scratch, "data", "home") as scene:
        scene.do(1, last=2)
        said = scene.do(2)
        assert "/home" in said["penstock ctl reload"] and re.search(r"/home +127\.0\.0\.1 +rw ", said["penstock ctl exports"]), said
        assert os.listdir(f"{scratch}/srv/home") == ["new"]
        assert mount(scene, b"/home", BESIDE)[0] == MNT_ACCES and mount(scene, b"/data", BESIDE)[0] == MNT_OK


def t03_check(scratch):
    """The values come from the file. A mistake has a file and a line."""
    with Scene(PAGE, scratch, "data") as scene:
        scene.configure(scene.blocks(1)[0])
        said = scene.do(3)
        assert "no mistakes" in said["penstock check-config"], said
        shown = said["penstock serve --print-config"]
        assert re.search(rf"tcp-port = {scene.tcp}\b", shown) and scene.config in shown, shown
        with open(scene.config, "a") as out:
            out.write("[limits]\nmemory = true\n")
        with open(scene.config) as file:
            line = len(file.readlines())
        failed = scene.run("sh", "-c", f"{scene.blocks(3)[0][0]} 2>&1 && exit 1; test $? = 1")
        assert f"{scene.config}:{line}: " in failed, failed


def t04_reload(scratch):
    """A copy goes on during a reload. A mistake changes nothing."""
    with Scene(PAGE, scratch, "data", "more") as scene:
        scene.begin("data")
        with scene.upload("/data/big") as copy:
            scene.write({"exports": {"export": json.dumps([f"/data={scratch}/srv/data:no_root_squash", f"/more={scratch}/srv/more"])}})
            [line] = scene.blocks(4)[0]
            assert "/more" in scene.command(4, line)
            scene.write({"exports": {"export": '["nonsense"]'}})
            assert f"{scene.config}:" in scene.command(4, line, code=1)
            assert [each["path"] for each in scene.ctl("exports")] == ["/data", "/more"]
            copy.finish()
        assert digest(f"{scratch}/srv/data/big") == digest(f"{scratch}/big")


def t05_exports(scratch):
    """The exports with their clients, as a table and as JSON."""
    with Scene(PAGE, scratch, "data") as scene:
        scene.do(1, last=2)
        said = scene.do(5)
        assert re.search(r"/data +127\.0\.0\.0/24 +ro +sys .*root_squash", said["penstock ctl exports"]), said
        [export] = json.loads(said["penstock ctl --json exports"])
        assert export["path"] == "/data" and export["clients"], export


def t06_clients(scratch):
    """A client over each transport."""
    with Scene(PAGE, scratch, "data") as scene:
        scene.begin("data")
        for transport in ("tcp", "rdma"):
            with scene.upload("/data/big", transport) as copy:
                said = scene.do(6)
                for line in ("penstock ctl clients", "penstock ctl connections"):
                    assert CLIENT in said[line] and re.search(rf"\b{transport}\b", said[line]), said
                copy.finish()
            wait_until(lambda: not scene.ctl("clients"), "the client is still there")


def t07_locks(scratch):
    """The locks of versions 4 and 3 are listed with their clients. A file without locks has none."""
    with Scene(PAGE, scratch, "data") as scene:
        make_mailbox(scene)
        scene.begin("data")
        holder = Holder(scene, BESIDE, b"holder", b"data", b"mailbox")
        locks, clients = (block[0] for block in scene.blocks(7))
        assert scene.command(7, locks) == "no locks\n"
        assert holder.lock() == v4.OK
        [client] = scene.ctl("clients")
        shown = scene.command(7, locks)
        assert "/data/mailbox" in shown and client["id"] in shown and "write" in shown, shown
        shown = scene.command(7, clients)
        assert client["id"] in shown and BESIDE in shown, shown
        host = LockHolder(scene, CLIENT, "host.example")
        assert host.lock() == GRANTED_IT
        [client] = [each for each in scene.ctl("clients") if each["version"] == "nlm"]
        assert client["id"] in scene.command(7, locks)
        assert re.search(rf"^{client['id']} .* host\.example$", scene.command(7, clients), re.M)
        host.close()
        holder.close()


def t08_evict(scratch):
    """Other clients get the locks of those that are evicted, in versions 4 and 3."""
    with Scene(PAGE, scratch, "data") as scene:
        make_mailbox(scene)
        scene.begin("data")
        gone, other = (Holder(scene, address, name, b"data", b"mailbox") for address, name in ((CLIENT, b"gone"), (BESIDE, b"other")))
        host, other_host = (LockHolder(scene, address, name) for address, name in ((CLIENT, "gone.example"), (BESIDE, "other.example")))
        assert gone.lock() == v4.OK and other.lock() == v4.DENIED
        assert host.lock() == GRANTED_IT and other_host.lock() == DENIED
        clients, evict = scene.blocks(8)[0]
        assert CLIENT in scene.command(8, clients) and scene.command(8, evict)
        assert scene.command(8, scene.blocks(8)[1][0]) == "no locks\n"
        assert other.lock() == v4.OK and other_host.lock() == GRANTED_IT
        locks = {each["client"] for each in scene.ctl("locks")["states"]}
        assert len(locks) == 2 and {each["id"] for each in scene.ctl("clients") if "id" in each} == locks
        for each in (gone, other, host, other_host):
            each.close()


def t09_revoke(scratch):
    """One lock, or one open, ends. Other opens of the client stay."""
    with Scene(PAGE, scratch, "data") as scene:
        make_mailbox(scene)
        scene.begin("data")
        holder = Holder(scene, CLIENT, b"holder", b"data", b"mailbox")
        assert holder.lock() == v4.OK
        opens, locks, revoke = scene.blocks(9)[0]
        left = scene.blocks(9)[1][0]
        [lock], [opened] = scene.ctl("locks")["states"], scene.ctl("opens")["states"]
        assert lock["stateid"] in scene.command(9, locks) and opened["stateid"] in scene.command(9, opens)
        scene.command(9, revoke, {"STATEID": lock["stateid"]})
        assert scene.command(9, left) == "no locks\n" and opened["stateid"] in scene.command(9, opens)
        scene.command(9, revoke, {"STATEID": opened["stateid"]})
        assert scene.command(9, opens) == "no opens\n"
        holder.close()


def t10_refused(scratch):
    """The log names the host, the export and the option. Raised levels say more until they are those of before."""
    with Scene(PAGE, scratch, "data") as scene:
        scene.do(1, last=2)
        assert mount(scene, b"/data", BEYOND)[0] == MNT_ACCES
        [search], [exports], more, [read, back], [levels] = scene.blocks(10)
        wait_until(lambda: "refused" in open(f"{scratch}/manager/journal").read(), "no line")
        said = scene.command(10, search)
        assert BEYOND in said and "the export /data" in said and "client=" in said, said
        assert re.search(r"/data +127\.0\.0\.0/24 ", scene.command(10, exports))
        for line in more:
            scene.command(10, line)
        scene.run("penstock", "ls", scene.local("/data", "rdma"))
        client = Client(scene.tcp, CLIENT)
        client.raw(words(0xFFFFFFFF))  # no record is so long
        for part in (r"\S+ debug connection \d+, call .*", r"\S+ debug a TCP peer sent a record above the limit.*"):
            wait_until(lambda: any(re.fullmatch(part, line) for line in list(scene.lines)), f"no line {part}")
            assert re.search(part, scene.command(10, read)), part
        client.close()
        scene.command(10, back)
        shown = re.findall(r"^\S+ +(\S+)$", scene.command(10, levels), re.M)
        assert shown[0] == "LEVEL" and set(shown[1:]) == {"warning"}, shown


def t11_root(scratch):
    """Root of the client owns what it makes, and is refused before."""
    root_only()
    with Scene(PAGE, scratch, "backup") as scene:
        os.chmod(f"{scratch}/srv/backup", 0o755)
        scene.write({"exports": {"export": json.dumps([f"/backup={scratch}/srv/backup:rw,root_squash"])}})
        scene.start()
        assert make_folder(scene, b"/backup", CLIENT) == ACCES
        said = scene.do(11)
        assert re.search(r"/backup .* no_root_squash", said["penstock ctl exports"]), said
        assert make_folder(scene, b"/backup", CLIENT) == 0
        assert os.stat(f"{scratch}/srv/backup/new").st_uid == 0
        assert mount(scene, b"/backup", BESIDE)[0] == MNT_ACCES


def t12_kerberos(scratch):
    """A user with a ticket reads, in privacy only. Without Kerberos nobody does."""
    with Realm((*USERS, "nfs/localhost")) as realm:
        with Scene(PAGE, scratch, "private", environment={**realm.environment, "KRB5CCNAME": realm.cache("alice"),
                                                    "KEYTAB": realm.keytab("nfs/localhost")}) as scene:
            scene.host = "localhost"  # the name in the realm
            with open(f"{scratch}/srv/private/file", "w") as out:
                out.write("text")
            said = scene.do(12)
            assert re.search(r"/private .* krb5p ", said["penstock ctl exports"]), said
            assert said["penstock ls 'nfs://server.example/private?sec=krb5p'"] == "file\n", said
            scene.run("penstock", "mkdir", scene.local("/private/new") + "&sec=krb5p")
            if os.getuid() == 0:
                assert os.stat(f"{scratch}/srv/private/new").st_uid == pwd.getpwnam(USERS["alice"]).pw_uid
            for flavor in ("sys", "krb5i"):
                assert "security flavor" in scene.run("penstock", "ls", scene.local("/private") + f"&sec={flavor}", code=1)


def t13_tls(scratch):
    """A client with TLS reads. In plain text, and over RDMA, nobody does."""
    with Scene(PAGE, scratch, "private") as scene:
        open(f"{scratch}/srv/private/file", "w").close()
        authority = Authority(f"{scratch}/certificates")
        authority.issue("server", f"DNS:localhost,IP:{CLIENT}")
        for name in ("server.pem", "server.key"):
            shutil.copy(f"{scratch}/certificates/{name}", f"{scratch}/etc/penstock/{name}")
        shutil.copy(authority.certificate, f"{scratch}/authority.pem")
        said = scene.do(13)
        assert re.search(r"/private .* tls ", said["penstock ctl exports"]), said
        with_tls = scene.blocks(13)[-1][0]
        assert said[with_tls] == "file\n", said
        scene.command(13, with_tls.replace("?xprtsec=tls", ""), code=2)
        for transport in ("tcp", "rdma"):
            scene.run("penstock", "ls", scene.local("/private", transport), code=1)
        wait_until(lambda: any("xprtsec" in line for line in scene.lines), "no line of the refusal")


def t14_addresses(scratch):
    """Clients reach the server at both addresses over TCP, and nowhere else."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind((SIXTH, 0))
    except OSError:
        raise Skip("this machine has no IPv6") from None
    with Scene(PAGE, scratch, "data") as scene:
        open(f"{scratch}/srv/data/file", "w").close()
        scene.begin("data")
        shown = scene.do(14)["penstock ctl status"]
        assert re.search(rf"^tcp: {re.escape(FIRST)}:{scene.tcp},\[{SIXTH}\]:{scene.tcp}$", shown, re.M), shown
        assert re.search("^rdma: off$", shown, re.M), shown
        for host in (FIRST, f"[{SIXTH}]"):
            assert scene.run("penstock", "ls", f"nfs://{host}:{scene.tcp}/data") == "file\n"
        for host, port in ((CLIENT, scene.tcp), (FIRST, scene.rdma)):
            with socket.socket() as probe:
                assert probe.connect_ex((host, port)) != 0, (host, port)


def t15_watch(scratch):
    """The server is ready, its metrics count, and the dashboard is a page."""
    if not shutil.which("curl"):
        raise Skip("curl is not installed")
    with Scene(PAGE, scratch, "data") as scene:
        scene.begin("data")
        start, look = scene.blocks(15)[:-1], scene.blocks(15)[-1]
        scene.do(15, last=len(start))
        scene.run("penstock", "mkdir", scene.local("/data/new"))
        ready, metrics, health = (scene.command(15, line) for line in look)
        assert ready.strip() == "ready" and health.strip() == "ok", (ready, health)
        assert re.search(r'^penstock_ready 1$', metrics, re.M), metrics
        assert re.search(r'^penstock_export_operations_total{export="/data"} [1-9]', metrics, re.M), metrics
        [page] = re.findall(r"dashboard is at `(.*)`", PAGE.text)
        assert "<html" in scene.command(15, f"curl -s {page}")


def t16_audit(scratch):
    """A change has a line. After the rotation the new file has the next one, and the old file keeps its own."""
    with Scene(PAGE, scratch, "data") as scene:
        scene.begin("data")
        blocks = scene.blocks(16)
        scene.do(16, last=len(blocks) - 2)
        [last], rotate = blocks[-2:]

        def record(name):
            scene.run("penstock", "mkdir", scene.local(f"/data/{name}"))
            wait_until(lambda: f"/{name}" in open(f"{scratch}/var/log/penstock/audit.json").read(), "no line")
            line = json.loads(scene.command(16, last))
            assert (line["operation"], line["path"], line["client"], line["result"]) == ("mkdir", f"/{name}", CLIENT, "ok"), line

        record("before")
        for line in rotate:
            scene.command(16, line)
        record("after")
        assert "/after" not in open(f"{scratch}/var/log/penstock/audit.json.1").read()
        assert "/before" not in open(f"{scratch}/var/log/penstock/audit.json").read()


def t17_trace(scratch):
    """The file has the connections of the client, and nobody else may read it."""
    with Scene(PAGE, scratch, "data") as scene:
        scene.begin("data")
        [start], [stop], [show] = scene.blocks(17)
        scene.command(17, start)
        scene.run("penstock", "ls", scene.local("/data", "rdma"))
        scene.command(17, stop)
        assert scene.command(17, show).startswith("-rw-------")
        path = f"{scratch}/var/tmp/client.pcapng"
        with open(path, "rb") as file:
            data = file.read()
        assert data.startswith(b"\x0a\x0d\x0d\x0a") and len(data) > 1000, len(data)  # a section of pcapng
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        os.unlink(path)
        scene.run("sh", "-c", scene.substitute(start).replace(CLIENT, "192.0.2.8"))
        scene.run("penstock", "ls", scene.local("/data", "rdma"))
        scene.command(17, stop)
        assert os.path.getsize(path) < 1000


def t18_top(scratch):
    """The client that copies is in the list, with its export and its operations."""
    with Scene(PAGE, scratch, "data") as scene:
        scene.begin("data")
        [[line]] = scene.blocks(18)
        _, handle = mount(scene, b"/data", CLIENT)
        client, is_over = Client(scene.tcp, CLIENT), threading.Event()

        def ask():
            while not is_over.is_set():
                client.call(rpc.GETATTR, opaque(handle))

        busy = threading.Thread(target=ask)
        busy.start()

        def shows():
            # On a busy machine the client may have made no call between two looks.
            shown = scene.command(18, line)
            return all(word in shown for word in ("CLIENT", CLIENT, "EXPORT", "/data", "OPERATION", "NFS 3 GETATTR"))

        try:
            wait_until(shows, "the client is not in the list")
        finally:
            is_over.set()
            busy.join()
            client.close()


def t19_stop(scratch):
    """A server that drains takes no new clients. A restart with sockets refuses no connection, and a client keeps its lock."""
    with Scene(PAGE, scratch, "data") as scene:
        make_mailbox(scene)
        scene.write({"monitoring": {"metrics": f'"{scene.metrics}"'}})
        scene.begin("data")
        leave, stay, again, [status] = scene.blocks(19)
        with scene.upload("/data/big") as copy:
            on, shown, connections, stop = leave
            scene.command(19, on)
            assert "draining" in scene.command(19, shown) and CLIENT in scene.command(19, connections)
            with socket.socket() as web:
                web.connect((CLIENT, scene.metrics))
                web.sendall(f"GET /readyz HTTP/1.1\r\nHost: localhost:{scene.metrics}\r\n\r\n".encode())
                assert b" 503 " in web.recv(100)
            with socket.socket() as other:
                other.bind((BESIDE, 0))
                other.connect((CLIENT, scene.tcp))
                assert other.recv(1) == b"", "the server has accepted a new client"
            copy.finish()
        wait_until(lambda: scene.command(19, connections) == "no connections\n", "the client is still there")
        scene.command(19, stop)
        assert scene.process.poll() == 0
        for line in stay:
            scene.command(19, line)
        waiting = []
        scene.between = lambda: waiting.append(Client(scene.tcp, CLIENT))
        with scene.upload("/data/big2") as copy:
            [opened] = scene.ctl("opens")["states"]
            scene.command(19, *again)
            copy.finish()
        assert digest(f"{scratch}/srv/data/big2") == digest(f"{scratch}/big") and opened["path"] == "/data/big2"
        [client] = waiting
        client.call(rpc.NULL)
        client.close()
        assert "\nready\n" in scene.command(19, status)


def t20_second(scratch):
    """The copy has the state. A second server beside the first has its own files and its own control socket."""
    with Scene(PAGE, scratch, "data", "more") as scene:
        open(f"{scratch}/srv/more/file", "w").close()
        scene.begin("data")
        _, handle = mount(scene, b"/data", CLIENT)
        back_up, [listing], move, further, start, both = scene.blocks(20)
        for line in back_up:
            scene.command(20, line)
        names = scene.command(20, listing)
        for name in ("etc/penstock/penstock.toml", "var/lib/penstock/server-id"):
            assert name in names, names
        path = scene.substitute(further[0].removeprefix("# "))
        with open(path, "w") as out:
            out.write("".join(scene.substitute(line) + "\n" for line in further))
        PAGE.executed.update((20, line) for line in further)
        for line in start:
            scene.command(20, line)
        shown = [scene.command(20, line) for line in both]
        [process] = scene.further.values()
        assert all("\nready\n" in each for each in shown) and f"process {process.pid}" in shown[1], shown
        assert scene.run("penstock", "ls", f"nfs://{CLIENT}:{scene.numbers['3049']}/more") == "file\n"
        assert scene.stop_further("second") == 0
        # A server with the state of the first one takes its file handles.
        assert scene.stop() == 0
        shutil.rmtree(f"{scratch}/var/lib/penstock")
        os.unlink(scene.config)
        assert stat.S_IMODE(os.stat(f"{scratch}/var/tmp/penstock.tar").st_mode) == 0o600
        for line in move:
            scene.command(20, line)
        client = Client(scene.tcp, CLIENT)
        assert client.call(rpc.GETATTR, opaque(handle)).word() == 0
        client.close()


def every_task(scratch):
    """Each task of the page has a case, and the links lead somewhere."""
    assert sorted(PAGE.tasks) == list(range(1, len(PAGE.tasks) + 1)), sorted(PAGE.tasks)
    checked = {int(case.__name__[1:3]) for case in CASES if case is not every_task}
    assert checked == set(PAGE.tasks), f"without a case, or without a task: {sorted(checked ^ set(PAGE.tasks))}"
    assert all(blocks for _, blocks in PAGE.tasks.values()), "a task without commands"
    for link in re.findall(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)", PAGE.text):
        assert os.path.exists(os.path.join(os.path.dirname(PAGE.path), link)), link


CASES = [t01_read_only, t02_read_write, t03_check, t04_reload, t05_exports, t06_clients, t07_locks, t08_evict, t09_revoke, t10_refused,
         t11_root, t12_kerberos, t13_tls, t14_addresses, t15_watch, t16_audit, t17_trace, t18_top, t19_stop, t20_second, every_task]


def whole(case):
    """The case must execute every line of its task."""
    def run(scratch):
        case(scratch)
        number = int(case.__name__[1:3])
        left = PAGE.left(number)
        assert not left, f"lines of task {number} that the case leaves out: {left}"
    return run


if __name__ == "__main__":
    main({case.__name__: case if case is every_task else whole(case) for case in CASES})
