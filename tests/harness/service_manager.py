"""Stands in for systemd: holds listening sockets, starts the real server with them, and hears what it tells."""

import fcntl
import os
import signal
import socket
import subprocess
import threading
import time

from patience import wait_until
from penstock import ADDRESS, PENSTOCK, Server
from ports import free_ports

# LISTEN_PID and WATCHDOG_PID name the process that exec() makes the program.
SHELL = 'export LISTEN_PID=$$ WATCHDOG_PID=$$; exec "$@"'


def listening(port, kind=socket.SOCK_STREAM, address=ADDRESS):
    held = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((address, port))
    if kind == socket.SOCK_STREAM:
        held.listen(64)
    return held


class Service(Server):
    """A server that a service manager starts. `held` is [(name, socket)]; None: the usual sockets, on the server's ports. `under` is
        a command that executes the program."""

    def __init__(self, exports, scratch, options=(), held=None, watchdog=None, under=()):
        tcp, rdma, mount = free_ports(3)
        super().__init__(exports, options, ports=(tcp, rdma, mount))
        if held is None:
            held = [("nfs-tcp", listening(tcp)), ("nfs-rdma", listening(rdma)), ("mount", listening(mount)),
                    ("mount-udp", listening(mount, socket.SOCK_DGRAM))]
            # Where the server must not listen, since it has sockets.
            self.arguments = [each for each in self.arguments if not each.startswith(("--tcp-port", "--rdma-port", "--mount-port"))]
            others = free_ports(3)
            self.arguments += [f"--tcp-port={others[0]}", f"--rdma-port={others[1]}", f"--mount-port={others[2]}"]
        self.held, self.watchdog, self.under = held, watchdog, under
        self.messages = []  # (when, {variable: value})
        self.path = f"{scratch}/notify"
        self.ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.ear.bind(self.path)
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self):
        while True:
            text = self.ear.recv(4096).decode()
            self.messages.append((time.monotonic(), dict(line.split("=", 1) for line in text.splitlines())))
            print("told|", text.replace("\n", " "), flush=True)

    def environment_of(self):
        environment = {**os.environ, "NOTIFY_SOCKET": self.path}
        if self.held:
            environment |= {"LISTEN_FDS": str(len(self.held)), "LISTEN_FDNAMES": ":".join(name for name, _ in self.held)}
        if self.watchdog:
            environment["WATCHDOG_USEC"] = str(int(self.watchdog * 1e6))
        return environment

    def popen(self, *arguments, **how):
        def place():  # the sockets become the descriptors from 3 on
            high = [fcntl.fcntl(held.fileno(), fcntl.F_DUPFD, 100) for _, held in self.held]
            for number, each in enumerate(high, 3):
                os.dup2(each, number)
                os.close(each)
        return subprocess.Popen(["/bin/sh", "-c", SHELL, "sh", *self.under, PENSTOCK, *arguments], stdin=subprocess.DEVNULL, env=self.environment_of(),
                                close_fds=False, preexec_fn=place, text=True, errors="replace", **how)

    def start(self):
        before = len(self.messages)
        self.process = self.popen(*self.arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.is_ready = threading.Event()
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()
        self.expect("READY", "1", before)

    def refused(self, scratch):
        """The server must not start; returns what it says."""
        done = self.popen(*self.arguments, f"--state-dir={scratch}/state", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        _, said = done.communicate(timeout=60)
        assert done.returncode == 1 and len(said.strip().splitlines()) == 1, (done.returncode, said)
        print("refused|", said, flush=True)
        return said

    def find(self, variable, value, since=0):
        for number, (_, message) in enumerate(self.messages[since:], since):
            if variable in message and value in message[variable]:
                return number
        return None

    def expect(self, variable, value, since=0):
        """Waits for a message after the first `since` ones; returns its number."""
        wait_until(lambda: self.find(variable, value, since) is not None or self.process.poll() is not None, f"no {variable}={value}")
        found = self.find(variable, value, since)
        assert found is not None, f"the server has ended without {variable}={value}:\n" + "\n".join(self.lines)
        return found

    def status(self):
        """The last status."""
        return next((message["STATUS"] for _, message in reversed(self.messages) if "STATUS" in message), "")

    def reload(self):
        """Returns the message about the end of the reload."""
        before = len(self.messages)
        self.process.send_signal(signal.SIGHUP)
        begin = self.expect("RELOADING", "1", before)
        return self.messages[self.expect("READY", "1", begin)][1], self.messages[begin][1]
