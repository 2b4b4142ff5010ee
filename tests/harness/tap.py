"""A network between the namespaces of a test (namespaces.py) and its guest. Unlike in QEMU's user-mode network, both sides have
addresses of their own, so that servers can use their default ports and can call the guest."""

import os
import subprocess

import namespaces
from cases import Skip

TAP = "tap0"  # pass it to Guest as one of `taps`; it is eth1 in the guest
GUEST = "10.9.0.2"
# Shell commands for the guest.
UP = f"ip addr add {GUEST}/24 dev eth1 && ip link set eth1 up || exit 1\n"
RDMA = "rdma link add siw1 type siw netdev eth1 || exit 1\n"


def make(*addresses):
    """Makes the device, with these addresses of 10.9.0.0/24 on the test's side, or skips the test."""
    namespaces.require()
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise Skip("no /dev/net/tun")
    for command in (f"tuntap add dev {TAP} mode tap", *(f"addr add {address}/24 dev {TAP}" for address in addresses), f"link set {TAP} up"):
        subprocess.run(["ip", *command.split()], check=True)
