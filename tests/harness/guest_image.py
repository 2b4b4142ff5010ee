"""Builds, once, the temporary Linux guest that the interoperability tests boot.

The guest is Debian's kernel with its NFS/RDMA client and server, the software iWARP driver (siw, which Debian's kernel
leaves out, so it is built from Debian's kernel source), busybox, mount.nfs, and the user-space half of the kernel's NFS
server. Nothing is installed on the host: packages are only unpacked into the image's folder.
"""

import glob
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time

from kept import kept

IMAGE_DIR = os.environ.get("TEST_GUEST_DIR") or os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..", "build", "interop")
)
KERNEL_SOURCE = "/usr/src/linux-source-6.1.tar.xz"
HEADERS = "/usr/src/linux-headers-"
RELEASE = re.compile(r"6\.1\.(\d+)-(\d+)-amd64")  # not a backport of 6.12 such as 6.12.9+bpo-amd64
ATTEMPTS, PAUSE_SECONDS = 6, 10  # time limit to download a package
MODULES = ["virtio_pci", "virtio_net", "crc32c_generic", "crc32_generic", "siw", "rdma_rxe", "rpcrdma", "rdma_ucm", "nfsv2", "nfsv3",
           "nfsv4", "nfsd", "rpcsec_gss_krb5", "cts", "loop", "ext4", "quota_v2"]
# The drivers that libibverbs loads at run time, for each kind of device in the guest.
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
    """This machine lacks a part of the guest; the message names it. Any other failure is a failure of the test."""


def run(command, **kwargs):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")
    return done.stdout


def headers_there():
    """Returns {release: version of its package} of the kernels whose headers are in /usr/src."""
    releases = [path.removeprefix(HEADERS) for path in glob.glob(f"{HEADERS}*")]
    return {release: package_version(f"linux-headers-{release}") for release in releases}


def package_version(package):
    """Returns the version of an installed package, or None."""
    asked = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return asked.stdout if asked.returncode == 0 and asked.stdout else None


def image_can_be_had(release):
    return os.path.exists(kernel_folder(release)) or subprocess.run(
        ["apt-cache", "show", f"linux-image-{release}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def choose_release(headers, source, image_can_be_had):
    """Returns the release of the guest's kernel: one of the series 6.1, not a backport, the newest whose image is
    available; preferably one with the version of the kernel source. `headers` is {release: version}."""
    found = {release: tuple(map(int, matched.groups())) for release in headers if (matched := RELEASE.fullmatch(release))}
    if not found:
        others = f"; there are only those of {', '.join(sorted(headers))}" if headers else ""
        raise GuestUnavailable(f"no headers of Debian 12's kernel 6.1 in /usr/src (package linux-headers-6.1.0-*-amd64, which Debian 12's "
                               f"linux-headers-amd64 brings){others}")
    best_first = sorted(found, key=lambda release: (headers[release] == source, found[release]), reverse=True)
    chosen = next((release for release in best_first if image_can_be_had(release)), best_first[0])
    if headers[chosen] != source:
        print(f"linux-source-6.1 is {source}, and the headers of {chosen} are {headers[chosen]}: siw is built all the same", flush=True)
    return chosen


def kernel_release():
    return choose_release(headers_there(), package_version("linux-source-6.1"), image_can_be_had)


def kernel_folder(release):
    return f"{IMAGE_DIR}/linux-{release}"


def download(package, folder):
    """Returns the path of the package. It retries, because failures often pass: network errors, or another apt-get that
    renews the lists of packages."""
    for attempt in range(1, ATTEMPTS + 1):
        done = subprocess.run(["apt-get", "download", package], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, cwd=folder)
        files = glob.glob(f"{glob.escape(folder)}/*.deb")
        if done.returncode == 0 and len(files) == 1:
            return files[0]
        print(f"apt-get download {package} failed, attempt {attempt} of {ATTEMPTS}:\n{done.stdout[-1000:]}", flush=True)
        for unfinished in files:
            os.unlink(unfinished)
        if attempt < ATTEMPTS:
            time.sleep(PAUSE_SECONDS)
    raise RuntimeError(f"the package {package} cannot be downloaded (see above): is there a network, and are apt's lists fresh "
                       f"(apt-get update)?")


def unpack_package(package, target):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(target)) as scratch:
        os.chmod(scratch, 0o755)  # apt-get downloads as another user
        run(["dpkg", "-x", download(package, scratch), target])


def make_kernel(release, target):
    """Adds the kernel and its modules, including siw."""
    unpack_package(f"linux-image-{release}", target)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(target)) as scratch:
        run(["tar", "-xJf", KERNEL_SOURCE, "-C", scratch, "--strip-components=1", f"linux-source-6.1/{SIW}"])
        run(["make", "-s", "-C", f"{HEADERS}{release}", f"M={scratch}/{SIW}", "CONFIG_RDMA_SIW=m", "modules"])
        os.makedirs(f"{target}/lib/modules/{release}/extra")
        run(["strip", "--strip-debug", "-o", f"{target}/lib/modules/{release}/extra/siw.ko", f"{scratch}/{SIW}/siw.ko"])
    run(["depmod", "-b", target, release])


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
    copy_file("/lib/x86_64-linux-gnu/libgcc_s.so.1", root)  # loaded at run time by threads that end, not linked
    for program in ("/usr/sbin/mount.nfs", "/sbin/rpcbind", "/usr/sbin/rpc.statd", "/usr/sbin/sm-notify",
                    shutil.which("rdma") or "/usr/bin/rdma"):
        copy_program(program, root)
    os.symlink("/usr/sbin/mount.nfs", f"{root}/sbin/mount.nfs")
    # Functions that busybox lacks, or that are slow in it: holes, copies by the server, locks, extended attributes,
    # access control lists.
    for program in ("b2sum", "cp", "fallocate", "flock", "getfattr", "setfattr", "getfacl", "setfacl", "nfs4_getfacl", "nfs4_setfacl"):
        copy_program(f"/usr/bin/{program}", root)
    # Kerberos: tickets, and the programs that hand them to the kernel.
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


def pack(root, archive, owners="0:0"):
    """Packs the folder as an initramfs, owned by root; with `owners=None` the files keep theirs. It is not compressed,
    because unpacking would cost the guest more."""
    names = run(["find", ".", "-mindepth", "1"], cwd=root)
    with open(archive, "wb") as out:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet", *(["-R", owners] if owners else [])], input=names.encode(), stdout=out,
                       cwd=root, check=True)


def make_base(release, archive):
    kernel = kept(kernel_folder(release), lambda target: make_kernel(release, target))
    nfsd = kept(f"{IMAGE_DIR}/nfs-kernel-server", lambda target: unpack_package("nfs-kernel-server", target))
    with tempfile.TemporaryDirectory(dir=os.path.dirname(archive)) as root:
        os.chmod(root, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
        populate(root, kernel, release, nfsd)
        pack(root, archive)


def available_release():
    """Returns the release of the kernel for which a guest can be built here; otherwise GuestUnavailable gives the
    reason."""
    for program in ("qemu-system-x86_64", "busybox", "cpio", "dpkg", "apt-get", "modprobe", "depmod", "mount.nfs", "kinit"):
        if not shutil.which(program) and not os.path.exists(f"/usr/sbin/{program}"):
            raise GuestUnavailable(f"{program} is not installed")
    if not os.path.exists(KERNEL_SOURCE):
        raise GuestUnavailable("linux-source-6.1 is not installed")
    if not os.path.exists(VERBS_LIBRARIES):
        raise GuestUnavailable("ibverbs-providers is not installed")
    return kernel_release()


def ensure():
    """Returns (kernel image, base initramfs), after building the missing parts."""
    release = available_release()
    if "/usr/sbin" not in os.environ["PATH"].split(":"):
        os.environ["PATH"] += ":/usr/sbin:/sbin"
    with open(__file__, "rb") as me:
        recipe = hashlib.sha256(me.read() + release.encode()).hexdigest()[:12]
    base = kept(f"{IMAGE_DIR}/base-{recipe}.cpio", lambda archive: make_base(release, archive))
    kernel = kept(kernel_folder(release), lambda target: make_kernel(release, target))
    return f"{kernel}/boot/vmlinuz-{release}", base


if __name__ == "__main__":
    try:
        print("\n".join(ensure()))
    except GuestUnavailable as why:
        print(f"SKIPPED: {why}")
        sys.exit(77)
