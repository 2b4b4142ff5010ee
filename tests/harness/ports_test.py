#!/usr/bin/python3
"""Tests that concurrent processes get different ports."""

import os
import socket
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import ports  # noqa: E402

# Reserves ports, prints them, and keeps them until its input ends.
OTHER = f"import sys; sys.path.insert(0, {HERE!r}); import ports; print(*ports.free_ports(200), flush=True); sys.stdin.read()"


def other():
    return subprocess.Popen([sys.executable, "-B", "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class PortsTest(unittest.TestCase):
    def test_concurrent_processes_get_different_ports(self):
        processes = [other() for _ in range(4)]
        taken = [port for process in processes for port in process.stdout.readline().split()]
        for process in processes:
            process.communicate()
        self.assertEqual(len(taken), 800)
        self.assertEqual(len(set(taken)), 800)

    def test_a_port_is_free_again_when_its_process_has_ended(self):
        process = other()
        taken = [int(port) for port in process.stdout.readline().split()]
        self.assertFalse(any(map(ports.reserve, taken)))
        process.communicate()
        self.assertTrue(any(map(ports.reserve, taken)))  # another test may have reserved some of them by now

    def test_a_port_stays_reserved_without_a_listener(self):
        (port,) = ports.free_ports(1)
        self.assertFalse(ports.reserve(port))

    def test_a_child_process_does_not_keep_the_port(self):
        process = subprocess.Popen([sys.executable, "-B", "-c", OTHER.replace(
            "sys.stdin.read()", "import subprocess; child = subprocess.Popen(['sleep', '60']); print(child.pid, flush=True)")],
            stdout=subprocess.PIPE, text=True)
        taken, child = [int(port) for port in process.stdout.readline().split()], int(process.stdout.readline())
        process.wait()
        try:
            self.assertTrue(any(map(ports.reserve, taken)))
        finally:
            os.kill(child, 9)
            process.stdout.close()

    def test_a_port_in_use_on_any_address_is_not_taken(self):
        for family, kind, address in ((socket.AF_INET, socket.SOCK_STREAM, "127.0.0.1"), (socket.AF_INET, socket.SOCK_STREAM, "0.0.0.0"),
                                      (socket.AF_INET, socket.SOCK_STREAM, "127.0.0.2"), (socket.AF_INET6, socket.SOCK_STREAM, "::1"),
                                      (socket.AF_INET6, socket.SOCK_STREAM, "::"), (socket.AF_INET, socket.SOCK_DGRAM, "127.0.0.1")):
            with self.subTest(address=address, kind=kind), socket.socket(family, kind) as somebody:
                try:
                    somebody.bind((address, 0))
                except OSError:
                    self.skipTest("no such address here")
                if kind == socket.SOCK_STREAM:
                    somebody.listen()
                self.assertFalse(ports.reserve(somebody.getsockname()[1]))

    def test_leaves_out_the_default_ports_of_nfs(self):
        self.assertFalse({20048, 20049, 2049} & set(ports.free_ports(1000)))


if __name__ == "__main__":
    unittest.main()
