"""A clean system of Debian with the package and a real systemd, as a guest: Debian's kernel, and the system as its initramfs."""

import os
import subprocess
import sys

from debian import make

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../harness"))
import guest_image  # noqa: E402
from guest import Guest  # noqa: E402

MEMORY_MIB = 3000
PACKAGES = ["systemd", "systemd-sysv", "dbus", "iproute2", "kmod", "e2fsprogs", "netbase", "nfs-common", "procps"]
# Not needed here, and large.
LEFT_OUT = ["/usr/share/doc", "/usr/share/locale", "/usr/share/man", "/usr/share/info", "/var/cache/apt", "/var/lib/apt/lists"]

# The kernel starts it as the first process.
INIT = """#!/bin/sh
mount -t proc proc /proc
while read m; do insmod /mods/$m || echo "insmod $m failed"; done </mods/order
umount /proc
exec /lib/systemd/systemd
"""
# Runs the script of the test, on the console.
UNIT = """[Unit]
Description=The script of the test
After=multi-user.target

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'echo "==== guest ready"; bash -u /guest-script; echo "==== guest exit $?"; sync; systemctl poweroff -ff'
StandardInput=tty-force
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
TimeoutStartSec=infinity

[Install]
WantedBy=default.target
"""
FILES = {
    "init": INIT,
    "etc/systemd/system/test-script.service": UNIT,
    "etc/systemd/system.conf": "[Manager]\nShowStatus=no\n",
    "etc/hostname": "server\n",
    "etc/fstab": "",
}
# Getty would take the console, and the others wait for what this system does not have.
MASKED = ["serial-getty@ttyS0.service", "getty.target", "console-getty.service", "systemd-timesyncd.service", "apt-daily.timer",
          "apt-daily-upgrade.timer", "systemd-networkd-wait-online.service"]


def make_system(codename, package, scratch, more=()):
    """Makes the system, with the package installed as apt installs it. Files of the host in `more` are in its folder /test. Returns its
    kernel and its initramfs, for Guest(image=...)."""
    kernel, _ = guest_image.ensure()
    root = f"{scratch}/system"
    hooks = ['mkdir "$1/test"', *(f"copy-in {path} /test" for path in (package, *more)),
             'chroot "$1" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends '
             f"/test/{os.path.basename(package)}"]
    make(codename, hooks, root, packages=PACKAGES)
    for path in LEFT_OUT:
        subprocess.run(f"rm -rf {root}{path}/*", shell=True, check=True)
    for name, text in FILES.items():
        with open(f"{root}/{name}", "w") as out:
            out.write(text)
    os.chmod(f"{root}/init", 0o755)
    units = f"{root}/etc/systemd/system"
    for name in MASKED:
        os.symlink("/dev/null", f"{units}/{name}")
    os.makedirs(f"{units}/default.target.wants", exist_ok=True)
    os.symlink("../test-script.service", f"{units}/default.target.wants/test-script.service")
    release = guest_image.kernel_release()
    guest_image.copy_modules(guest_image.kernel_folder(release), release, root)
    archive = f"{scratch}/system.cpio"
    guest_image.pack(root, archive, owners=None)
    subprocess.run(["rm", "-rf", "--one-file-system", root], check=True)
    return kernel, archive


def boot(image, script, **how):
    return Guest(script, image=image, memory=MEMORY_MIB, **how)
