"""What bench/run measures in each of its rounds: the limits of the machine, and servers with their clients. Each has measure(seconds), which
returns a dictionary of the same shape in every round."""

import json
import mmap
import os
import time

from measuring import Failure, Server, bench, free_ports, output_of, running

# Operations, and how many of them are under way at a time.
LARGE = ("read1m", "write1m"), (1, 8)
SMALL = ("null", "getattr", "read4k", "write4k"), (1, 32)
NAMES = ("lookup", "readdir", "create", "remove", "rename"), (16,)
LOOKS = ("lookup", "readdir"), (16,)
FILE_MIB = 64
VERSIONS = "3", "4.0", "4.1", "4.2"

GANESHA = """
NFS_CORE_PARAM {{ NFS_Port = {tcp}; MNT_Port = {mount}; NLM_Port = {nlm}; Rquota_Port = {rquota};
                 Protocols = 3, 4; Enable_NLM = false; Enable_RQUOTA = false; }}
NFSV4 {{ Grace_Period = 1; RecoveryBackend = fs; }}
EXPORT {{ Export_Id = 1; Path = {export}; Pseudo = /export; Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Protocols = 3, 4;
         {more} FSAL {{ Name = {fsal}; }} }}
"""


# ---- the limits ----

class Iperf:
    """The throughput of one TCP stream."""

    def __init__(self, stack, setting):
        (self.port,) = free_ports(1)
        stack.enter_context(running(["iperf3", "-s", "-B", "127.0.0.1", "-p", self.port], self.port, setting.out / "iperf3.log"))

    def measure(self, seconds):
        whole_seconds = max(1, round(seconds))
        text = output_of(["iperf3", "-c", "127.0.0.1", "-p", self.port, "-t", whole_seconds, "-J"], seconds + 30)
        return {"mib_per_second": json.loads(text)["end"]["sum_received"]["bits_per_second"] / 8 / 2**20}


class PingPong:
    """128 octets over one TCP connection to another process and back, one at a time."""

    def __init__(self, setting):
        self.program = setting.build / "bench/tcp_pingpong"

    def measure(self, seconds):
        per_second, cpu = output_of([self.program, seconds], seconds + 30).split()
        return {"per_second": float(per_second), "cpu_us": float(cpu)}


def rate_of(work, mib, seconds):
    """Calls `work`, which moves so many MiB, until the time is over."""
    work()
    count, began = 0, time.monotonic()
    while count == 0 or time.monotonic() - began < seconds:
        work()
        count += 1
    return {"mib_per_second": count * mib / (time.monotonic() - began)}


class Copy:
    """memcpy() of as many octets as the files have: Python's assignment of a slice is one call."""

    def measure(self, seconds):
        with mmap.mmap(-1, FILE_MIB << 20) as source, mmap.mmap(-1, FILE_MIB << 20) as target:
            for page in range(0, len(source), mmap.PAGESIZE):
                source[page] = 1
            with memoryview(source) as octets, memoryview(target) as copy:
                def work():
                    copy[:] = octets
                return rate_of(work, FILE_MIB, seconds)


class Pread:
    """pread() of 1 MiB from a file of the same size in the same file system, in order and again and again: from the page cache."""

    def __init__(self, setting):
        self.path = setting.scratch / "pread"
        self.path.write_bytes(os.urandom(1 << 20) * FILE_MIB)

    def measure(self, seconds):
        octets = bytearray(1 << 20)
        with open(self.path, "rb", buffering=0) as file:
            def work():
                for number in range(FILE_MIB):
                    if os.preadv(file.fileno(), [octets], number << 20) != len(octets):
                        raise Failure("a short pread()")
            return rate_of(work, FILE_MIB, seconds)


# ---- servers ----

class PenstockServer:
    """A Penstock with check values of iWARP or without, for every version and transport."""

    def __init__(self, stack, setting, crc, export=None):
        self.crc, name = crc, f"penstock-crc-{crc}"
        self.server = Server(stack, setting, name, f"{name}.log", options=("--crc", crc), export=export)
        self.process = self.server.process

    def url(self, version, transport="tcp"):
        return self.server.url(version, transport, f"&crc={self.crc}" if transport == "rdma" else "")

    def url_of_libnfs(self):
        return f"nfs://127.0.0.1/?version=3&nfsport={self.server.tcp}&mountport={self.server.mount}"


class GaneshaServer:
    """Debian's nfs-ganesha. It needs rpcbind and folders below /run, and so namespaces of its own. By default it remembers
    attributes for a minute, and does not see what programs of the host change meanwhile. It serves a new directory of this
    host, or the directory `export` of the CephFS with the configuration `ceph_conf`."""

    def __init__(self, stack, setting, remembers=True, export=None, ceph_conf=None):
        name = "ganesha" if remembers else "ganesha-that-looks"
        self.export = export or setting.scratch / f"export-{name}"
        if not export:
            self.export.mkdir()
        for folder in "/run/ganesha", "/run/dbus":
            os.makedirs(folder, exist_ok=True)
        self.tcp, self.mount, nlm, rquota = free_ports(4)
        configuration = setting.scratch / f"{name}.conf"
        configuration.write_text(GANESHA.format(tcp=self.tcp, mount=self.mount, nlm=nlm, rquota=rquota, export=self.export,
                                                fsal="CEPH" if ceph_conf else "VFS", more="" if remembers else "Attr_Expiration_Time = 0;"))
        if ceph_conf:
            with configuration.open("a") as file:
                file.write(f'CEPH {{ Ceph_Conf = "{ceph_conf}"; }}\n')
        self.process = stack.enter_context(running(
            ["ganesha.nfsd", "-F", "-f", configuration, "-L", setting.out / f"{name}-own.log", "-p", setting.scratch / f"{name}.pid"],
            self.tcp, setting.out / f"{name}.log"))

    def url(self, version, transport="tcp"):
        path = self.export if version == "3" else "/export"
        return f"nfs://127.0.0.1:{self.tcp}{path}?vers={version}&proto={transport}&mountport={self.mount}"

    def url_of_libnfs(self):
        return f"nfs://127.0.0.1{self.export}?version=3&nfsport={self.tcp}&mountport={self.mount}"


# ---- clients at servers ----

def kept(measurements):
    """Returns what the page needs of {(operation, depth): measurement}."""
    return {f"{operation} {depth}": {"per_second": each["per_second"],
                                     "client_cpu_us": each["client_cpu_us"], "server_cpu_us": each["server_cpu_us"]}
            for (operation, depth), each in measurements.items()}


class PenstockClient:
    """`penstock bench` at a server."""

    def __init__(self, setting, server, version, transport="tcp", groups=(LARGE, SMALL, NAMES)):
        self.setting, self.server, self.url, self.groups = setting, server, server.url(version, transport), groups

    def measure(self, seconds):
        results = {}
        for operations, depths in self.groups:
            results |= bench(self.setting, self.url, operations, depths, seconds, self.server.process.pid, f"{FILE_MIB}MiB")
        return kept(results)


class LibnfsClient:
    """libnfs at a server, in version 3 over TCP."""

    def __init__(self, setting, server):
        self.program, self.server = setting.build / "bench/libnfs_bench", server

    def measure(self, seconds):
        results = {}
        for operations, depths in LARGE, SMALL:
            text = output_of([self.program, self.server.url_of_libnfs(), ",".join(operations), ",".join(map(str, depths)), seconds,
                              self.server.process.pid], 60 + 10 * seconds * len(operations) * len(depths))
            results |= {(each["operation"], each["depth"]): each for each in json.loads(text)["measurements"]}
        return kept(results)
