"""The host on which an operator executes the commands of docs/tasks.md: its directories, its configuration, and its service.

The commands are those of the page. Only what a test cannot use has a substitute: directories of the system, ports,
names and addresses of hosts, and the programs of systemd."""

import json
import os
import re
import socket
import subprocess
import threading

from files import make
from held_copy import SIZE, HeldCopy
from patience import SECONDS, wait_until
from penstock import PENSTOCK
from ports import free_ports
from service_manager import Service, listening

UNITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "packaging", "systemd")
# The client of the page is the program on this host. Others are beyond its network, or beside it.
CLIENT, BESIDE, BEYOND = "127.0.0.1", "127.0.0.9", "127.0.1.9"
FIRST, SIXTH = "127.0.0.2", "::1"  # the server's addresses in the page
ADDRESSES = {"192.0.2.0/24": "127.0.0.0/24", "192.0.2.7": CLIENT, "192.0.2.1": FIRST, "2001:db8::1": SIXTH}
SOCKETS = {"penstock-tcp.socket": "nfs-tcp", "penstock-rdma.socket": "nfs-rdma", "penstock-mount.socket": "mount",
           "penstock-mount-udp.socket": "mount-udp"}

PROGRAMS = {
    # The places of an installed program are in the scratch folder.
    "penstock": """#!/bin/sh
case $1 in
ctl) export PENSTOCK_CONTROL="$SCRATCH/var/lib/penstock/control" ;;
serve) export PENSTOCK_CONFIG="$SCRATCH/etc/penstock/penstock.toml" ;;
check-config) case "$*" in *--config*) ;; *) set -- "$@" --config "$SCRATCH/etc/penstock/penstock.toml" ;; esac ;;
esac
exec "$PROGRAM" "$@"
""",
    # The test plays the service manager.
    "systemctl": """#!/bin/sh
echo "$*" > "$SCRATCH/manager/asked"
read -r code < "$SCRATCH/manager/answer"
exit "$code"
""",
    "journalctl": """#!/bin/sh
cat "$SCRATCH/manager/journal"
""",
    # kadmin -q 'ktadd -k FILE PRINCIPAL': the key is that of the test's realm, which has the principal.
    "kadmin": """#!/bin/sh
set -- $2
test "$1" != ktadd || cp "$KEYTAB" "$3"
""",
}


class Scene(Service):
    """A host: its directories, its configuration, and its service, which the commands of the page start."""

    host = CLIENT  # the name of the server in URLs

    def __init__(self, page, scratch, *names, environment=()):
        """`page` has the tasks. `names` are directories in /srv that every user may write to."""
        self.page, self.scratch = page, scratch
        for path in ("etc/penstock", "var/lib/penstock", "var/tmp", "var/log/penstock", "srv", "manager", "bin"):
            os.makedirs(f"{scratch}/{path}")
        os.chmod(f"{scratch}/var/lib/penstock", 0o700)
        for name in names:
            os.mkdir(f"{scratch}/srv/{name}")
            os.chmod(f"{scratch}/srv/{name}", 0o777)
        for name, text in PROGRAMS.items():
            with open(f"{scratch}/bin/{name}", "w") as out:
                out.write(text)
            os.chmod(f"{scratch}/bin/{name}", 0o755)
        open(f"{scratch}/manager/journal", "w").close()
        for name in ("asked", "answer"):
            os.mkfifo(f"{scratch}/manager/{name}")
        super().__init__({}, f"{scratch}/manager", held=[])
        self.config = f"{scratch}/etc/penstock/penstock.toml"
        self.arguments = ["serve", f"--config={self.config}"]
        self.more = dict(environment)  # of the service as well
        self.metrics, *second = free_ports(4)
        self.numbers = {"9469": self.metrics} | dict(zip(("3049", "30049", "30048"), second))
        self.environment = os.environ | {"PATH": f"{scratch}/bin:{os.environ['PATH']}:/usr/sbin:/sbin", "SCRATCH": scratch,
                                         "PROGRAM": os.path.abspath(PENSTOCK)} | self.more
        self.tables, self.process = {}, None
        self.further = {}  # {name: process} of penstock@NAME.service
        # What the page leaves to the defaults, which a test cannot use.
        self.write({"listen": {"tcp-port": self.tcp, "rdma-port": self.rdma, "mount-port": self.mount, "rpcbind": '"off"'},
                    "server": {"state-dir": f'"{scratch}/var/lib/penstock"'}})
        threading.Thread(target=self._manage, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        codes = [self.stop_further(name) for name in list(self.further)]
        assert failure or not any(codes), f"further servers ended with {codes}"
        if self.process and self.process.poll() is None:
            code = self.stop()
            assert failure or code == 0, f"the server ended with {code}"

    # The service manager

    def _read(self, process):
        with open(f"{self.scratch}/manager/journal", "a") as journal:
            for line in process.stdout:
                self.lines.append(line.rstrip("\n"))
                print("server|", line, end="", flush=True)
                journal.write(line)
                journal.flush()

    def _manage(self):
        while True:
            with open(f"{self.scratch}/manager/asked") as asked:
                line = asked.read().strip()
            try:
                self.manage(*line.split())
                code = 0
            except Exception as why:  # the command fails, and the test with it
                print(f"systemctl {line}|", why, flush=True)
                code = 1
            with open(f"{self.scratch}/manager/answer", "w") as answer:
                answer.write(f"{code}\n")

    def manage(self, verb, *units):
        runs = self.process is not None and self.process.poll() is None
        units = [each for each in units if each != "--now"]
        if all(each in SOCKETS for each in units):
            assert verb == "enable" and not runs, "sockets cannot start while the service has their ports"
            for unit in units:
                kind = socket.SOCK_DGRAM if unit == "penstock-mount-udp.socket" else socket.SOCK_STREAM
                port = {"nfs-tcp": self.tcp, "nfs-rdma": self.rdma}.get(SOCKETS[unit], self.mount)
                self.held.append((SOCKETS[unit], listening(port, kind)))
            return
        if units and units[0].startswith("penstock@"):
            assert verb == "enable" and len(units) == 1, (verb, units)
            self.start_further(units[0].removeprefix("penstock@"))
            return
        assert units == ["penstock"], units
        if verb == "reload":
            assert runs, "the service does not run"
            self.reload()
            return
        assert verb in ("enable", "start", "stop", "restart"), verb
        if verb in ("stop", "restart") and runs:
            assert self.stop() == 0
        if verb == "restart":
            self.between()
        if verb == "restart" or verb != "stop" and not runs:
            self.start()

    def start_further(self, name):
        """Starts a server of the template, and waits until it is there."""
        with open(f"{UNITS}/penstock@.service") as unit:
            [line] = re.findall("^ExecStart=(.*)$", unit.read(), re.M)
        command = self.substitute(line.replace("%i", name))
        self.further[name] = process = subprocess.Popen(["sh", "-c", f"exec {command}"], stdin=subprocess.DEVNULL, env=self.environment)
        control = f"{self.scratch}/var/lib/penstock-{name}/control"
        wait_until(lambda: os.path.exists(control) or process.poll() is not None, f"no server {name}")
        assert process.poll() is None, f"the server {name} ended with {process.returncode}"

    def stop_further(self, name):
        """Returns the exit code."""
        process = self.further.pop(name)
        process.terminate()
        return process.wait(SECONDS)

    def environment_of(self):
        return super().environment_of() | self.more

    def between(self):
        """Is called when the service is down during a restart."""

    # The page

    def substitute(self, text, values=()):
        for name, value in dict(values).items():
            text = re.sub(rf"\b{name}\b", value, text)

        def at(url):
            port = self.rdma if "proto=rdma" in url[0] else self.tcp
            return f"nfs://{self.host}:{port}/"
        text = re.sub(r"nfs://server\.example/", at, text)
        for address, mine in ADDRESSES.items():
            text = re.sub(rf"(?<![\w.:]){re.escape(address)}(?![\w.:/])", mine, text)
        text = re.sub(r"(?<![\w./])/(?=(etc|srv|var)\b)", f"{self.scratch}/", text)
        for number, mine in self.numbers.items():
            text = re.sub(rf"(?<![\w/.-]){number}\b", str(mine), text)
        return text

    def write(self, tables):
        """Writes the configuration file with these keys, {table: {key: value}}, beside those of before."""
        for name, keys in tables.items():
            self.tables.setdefault(name, {}).update(keys)
        with open(self.config, "w") as out:
            for name, keys in self.tables.items():
                out.write(f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items()))

    def blocks(self, number):
        return self.page.blocks(number)

    def configure(self, lines):
        """Writes the keys of a block into the configuration file, in place of those of the same name."""
        tables = {}
        for line in lines:
            if line.startswith("["):
                table = tables.setdefault(line.strip("[]"), {})
            else:
                key, value = self.substitute(line).split(" = ", 1)
                table[key] = value
        self.write(tables)

    def command(self, number, line, values=(), code=0):
        """Executes a command of the page; returns its output, or what it says on stderr if it must fail."""
        made = self.substitute(line, values)
        self.page.executed.add((number, line))
        print(f"task {number}|", line, flush=True)
        done = subprocess.run(["sh", "-c", made], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=self.environment, cwd=self.scratch, timeout=SECONDS)
        assert done.returncode == code, f"task {number}: {line}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    def do(self, number, last=None):
        """Executes the blocks of a task up to `last`; returns the output of each command by its line in the page."""
        said = {}
        for block in self.blocks(number)[:last]:
            if block[0].startswith("["):
                self.configure(block)
                self.page.executed.update((number, line) for line in block)
            else:
                for line in block:
                    said[line] = self.command(number, line)
        return said

    def begin(self, name):
        """Starts the service with an export, for a task that needs one."""
        self.write({"exports": {"export": f'["/{name}={self.scratch}/srv/{name}:no_root_squash"]'}})
        self.start()

    def ctl(self, *words):
        return json.loads(self.run("penstock", "ctl", "--json", *words))

    def run(self, *command, code=0):
        """Executes a command that the page does not have; returns its output, or what it says on stderr if it must fail."""
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=self.environment, cwd=self.scratch, timeout=SECONDS)
        assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    def local(self, path, transport="tcp", version="4.1", port=None):
        port = port or (self.rdma if transport == "rdma" else self.tcp)
        return f"nfs://{self.host}:{port}{path}?proto={transport}&vers={version}&mountport={self.mount}"

    def upload(self, path, transport="tcp"):
        """An upload to `path` that is held in the middle."""
        make(f"{self.scratch}/big", SIZE)
        at = self.rdma if transport == "rdma" else self.tcp
        return HeldCopy(at, lambda port: self.local(path, transport, port=port), f"{self.scratch}/big", upload=True)
