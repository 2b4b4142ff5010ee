"""Builds, once, the throw-away Linux guest that the interoperability tests boot.

The guest is Debian's own kernel with its NFS/RDMA client and server, the software iWARP driver (siw, which Debian's
kernel leaves out, so it is built from Debian's kernel source), busybox, mount.nfs, and the user-space half of the
kernel's NFS server. Nothing is installed on the host: packages are only unpacked into the image's folder.
"""

import glob
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile

IMAGE_DIR = os.environ.get("PENSTOCK_GUEST_DIR") or os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..", "build", "interop")
)
KERNEL_SOURCE = "/usr/src/linux-source-6.1.tar.xz"
MODULES = ["virtio_pci", "virtio_net", "crc32c_generic", "crc32_generic", "siw", "rdma_rxe", "rpcrdma", "rdma_ucm", "nfsv3", "nfsv4",
           "nfsd", "rpcsec_gss_krb5", "cts"]
# What libibverbs loads at run time, for each kind of device there is in the guest.
VERBS_LIBRARIES = "/usr/lib/x86_64-linux-gnu/libibverbs"
SIW = "drivers/infiniband/sw/siw"

INIT = """#!/bin/sh
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mount -t tmpfs -o size=80% tmp /tmp; mount -t tmpfs run /run
while read m; do insmod /mods/$m || echo "insmod $m failed"; done </mods/order
ip link set lo up; ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up; ip route add default via 10.0.2.2
rdma link add siw0 type siw netdev eth0
mkdir -p /tmp/statd /run/rpcbind
echo '==== guest ready'
sh /guest-script
echo "==== guest exit $?"
poweroff -f
"""


class GuestUnavailable(Exception):
    """This machine lacks what a guest is made of; the message says what. Anything else that fails is a failure."""


def run(command, **kwargs):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")
    return done.stdout


def kernel_release():
    headers = sorted(glob.glob("/usr/src/linux-headers-6.1*-amd64"), key=os.path.getmtime)
    if not headers:
        raise GuestUnavailable("no kernel headers (package linux-headers-amd64)")
    return os.path.basename(headers[-1]).removeprefix("linux-headers-")


def unpack_package(name, target):
    if os.path.isdir(target):
        return
    with tempfile.TemporaryDirectory(dir=IMAGE_DIR) as scratch:
        os.chmod(scratch, 0o755)
        run(["apt-get", "download", name], cwd=scratch)
        (deb,) = glob.glob(f"{scratch}/*.deb")
        run(["dpkg", "-x", deb, f"{scratch}/unpacked"])
        os.rename(f"{scratch}/unpacked", target)


def build_siw(kernel, release):
    """siw.ko against the packaged headers, into the unpacked kernel's own module tree so that modprobe finds it."""
    target = f"{kernel}/lib/modules/{release}/extra/siw.ko"
    if os.path.exists(target):
        return
    with tempfile.TemporaryDirectory(dir=IMAGE_DIR) as scratch:
        run(["tar", "-xJf", KERNEL_SOURCE, "-C", scratch, "--strip-components=1", f"linux-source-6.1/{SIW}"])
        run(["make", "-s", "-C", f"/usr/src/linux-headers-{release}", f"M={scratch}/{SIW}", "CONFIG_RDMA_SIW=m",
             "modules"])
        os.makedirs(os.path.dirname(target), exist_ok=True)
        run(["strip", "--strip-debug", "-o", target, f"{scratch}/{SIW}/siw.ko"])
    run(["depmod", "-b", kernel, release])


def copy_file(source, root, path=None):
    target = root + (path or source)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if not os.path.lexists(target):
        shutil.copy(source, target)


def shared_libraries(program):
    listed = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return [word for line in listed.splitlines() for word in line.split() if word.startswith("/")]


def copy_program(source, root, path=None):
    copy_file(source, root, path)
    for library in shared_libraries(source):
        copy_file(library, root)


def copy_modules(kernel, release, root):
    os.makedirs(f"{root}/mods")
    order = []
    for module in MODULES:
        shown = run(["modprobe", "-d", kernel, "-S", release, "--show-depends", module])
        for line in shown.splitlines():
            if not line.startswith("insmod"):
                continue
            path = line.split()[1]
            if os.path.basename(path) not in order:
                shutil.copy(path, f"{root}/mods/")
                order.append(os.path.basename(path))
    with open(f"{root}/mods/order", "w") as listing:
        listing.write("\n".join(order) + "\n")


def write(path, text):
    with open(path, "w") as out:
        out.write(text)


def populate(root, kernel, release, nfsd):
    for folder in ("bin sbin usr/bin usr/sbin proc sys dev etc tmp mnt run srv root lib64 "
                   "var/lib/nfs/rpc_pipefs usr/lib/x86_64-linux-gnu").split():
        os.makedirs(f"{root}/{folder}", exist_ok=True)
    copy_file("/bin/busybox", root)
    for applet in run(["busybox", "--list"]).split():
        if applet != "busybox":
            os.symlink("busybox", f"{root}/bin/{applet}")
    copy_file("/lib/x86_64-linux-gnu/libgcc_s.so.1", root)  # opened at run time by threads that end, not linked
    for program in ("/usr/sbin/mount.nfs", "/sbin/rpcbind", shutil.which("rdma") or "/usr/bin/rdma"):
        copy_program(program, root)
    os.symlink("/usr/sbin/mount.nfs", f"{root}/sbin/mount.nfs")
    # What busybox's own do not do: holes, copies by the server, locks, extended attributes, access control lists; or not as fast.
    for program in ("b2sum", "cp", "fallocate", "flock", "getfattr", "setfattr", "nfs4_getfacl", "nfs4_setfacl"):
        copy_program(f"/usr/bin/{program}", root)
    # Kerberos: tickets, and what gives them to the kernel.
    for program in ("/usr/bin/kinit", "/usr/bin/klist", "/usr/sbin/rpc.gssd"):
        copy_program(program, root)
    for program in ("rpc.nfsd", "rpc.mountd", "exportfs"):
        copy_program(f"{nfsd}/usr/sbin/{program}", root, f"/usr/sbin/{program}")
    for device in ("rxe", "siw"):
        copy_file(f"/etc/libibverbs.d/{device}.driver", root)
        for library in glob.glob(f"{VERBS_LIBRARIES}/lib{device}-*.so"):
            copy_program(library, root)
    for table in ("netconfig", "protocols", "services"):
        copy_file(f"/etc/{table}", root)
    write(f"{root}/etc/passwd", "root:x:0:0::/:/bin/sh\n_rpc:x:104:65534::/run/rpcbind:/bin/false\n")
    write(f"{root}/etc/group", "root:x:0:\nnogroup:x:65534:\n")
    write(f"{root}/etc/hosts", "127.0.0.1 localhost\n10.0.2.2 host\n")
    write(f"{root}/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")
    copy_modules(kernel, release, root)
    write(f"{root}/init", INIT)
    os.chmod(f"{root}/init", 0o755)


def pack(root, archive):
    """The folder as an initramfs, owned by root whoever builds it. Not compressed: unpacking costs the guest more."""
    names = run(["find", ".", "-mindepth", "1"], cwd=root)
    with open(archive + ".new", "wb") as out:
        subprocess.run(["cpio", "-o", "-H", "newc", "-R", "0:0", "--quiet"], input=names.encode(), stdout=out,
                       cwd=root, check=True)
    os.rename(archive + ".new", archive)


def unavailable_reason():
    """Why no guest can be made here, or None."""
    for program in ("qemu-system-x86_64", "busybox", "cpio", "dpkg", "apt-get", "modprobe", "depmod", "mount.nfs", "kinit"):
        if not shutil.which(program) and not os.path.exists(f"/usr/sbin/{program}"):
            return f"{program} is not installed"
    if not os.path.exists(KERNEL_SOURCE):
        return "linux-source-6.1 is not installed"
    if not os.path.exists(VERBS_LIBRARIES):
        return "ibverbs-providers is not installed"
    return None


def ensure():
    """Returns (kernel image, base initramfs), building what is missing."""
    reason = unavailable_reason()
    if reason:
        raise GuestUnavailable(reason)
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    os.makedirs(IMAGE_DIR, exist_ok=True)
    release = kernel_release()
    kernel, nfsd = f"{IMAGE_DIR}/kernel-{release}", f"{IMAGE_DIR}/nfs-kernel-server"
    with open(__file__, "rb") as me:
        recipe = hashlib.sha256(me.read() + release.encode()).hexdigest()[:12]
    base = f"{IMAGE_DIR}/base-{recipe}.cpio"
    vmlinuz = f"{kernel}/boot/vmlinuz-{release}"
    if os.path.exists(base):
        return vmlinuz, base
    unpack_package(f"linux-image-{release}", kernel)
    unpack_package("nfs-kernel-server", nfsd)
    build_siw(kernel, release)
    with tempfile.TemporaryDirectory(dir=IMAGE_DIR) as root:
        os.chmod(root, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
        populate(root, kernel, release, nfsd)
        pack(root, base)
    return vmlinuz, base


if __name__ == "__main__":
    try:
        print("\n".join(ensure()))
    except GuestUnavailable as why:
        print(f"SKIPPED: {why}")
        sys.exit(77)
