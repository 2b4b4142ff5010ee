"""The page about performance, made from the results of one run of bench/run and from nothing else. bench/page writes it."""

import json
import re
import statistics
import textwrap

import plots
from measuring import middle

PAGE, DATA = "performance.md", "plots/performance.json"
PLOTS = "plots/performance-"
NAMES = {"null": "NULL", "getattr": "GETATTR", "read4k": "READ 4 KiB", "write4k": "WRITE 4 KiB", "read1m": "READ 1 MiB", "write1m": "WRITE 1 MiB",
         "lookup": "LOOKUP", "readdir": "READDIR", "create": "create", "remove": "REMOVE", "rename": "RENAME"}
LARGE = "read1m 1", "read1m 8", "write1m 1", "write1m 8"
SMALL_ONE, SMALL_MANY = ([f"{operation} {depth}" for operation in ("null", "getattr", "read4k", "write4k")] for depth in (1, 32))
LOOKS = "lookup 16", "readdir 16"
OF_NAMES = "lookup 16", "readdir 16", "create 16", "remove 16", "rename 16"
# A plot has the oldest version and the newest one; the tables have all.
PLOTTED = "3", "4.2"
TCP, GANESHA = "Penstock, TCP", "nfs-ganesha, TCP"
TRANSPORTS = {"tcp": "TCP", "rdma": "iWARP"}
COUNTED = "instructions", "system calls", "allocations", "locks"


def name_of(key):
    """Returns a name such as "READ 1 MiB, depth 8" of "read1m 8"."""
    operation, depth = key.split()
    return f"{NAMES[operation]}, depth {depth}"


def way_of(key):
    """Returns a name such as "version 4.2, TCP" of "4.2 tcp" or of a longer key."""
    version, transport, *_ = key.split()
    return f"version {version}, {TRANSPORTS[transport]}"


def ratio(ours, theirs):
    """Returns the ratio of the medians of rounds, and half of the distance between the quartiles of the ratios within the rounds."""
    return statistics.median(ours) / statistics.median(theirs), middle([mine / other for mine, other in zip(ours, theirs)])[1]


def cell(value_and_spread):
    return "{:.2f} ±{:.2f}".format(*value_and_spread)


def number(values):
    """Returns the median, with about three digits."""
    value = statistics.median(values)
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(values):
    """Returns half of the distance between the quartiles, as a part of the median."""
    median, half = middle(values)
    return f"±{100 * half / median:.0f} %"


def table(*rows):
    head, *rest = ("| " + " | ".join(map(str, row)) + " |" for row in rows)
    return "\n".join([head, "|---" * len(rows[0]) + "|", *rest])


class Report:
    """Collects the text of the page and the plots."""

    def __init__(self, results):
        self.results, self.paragraphs, self.plots = results, [], {}

    def say(self, *paragraphs):
        self.paragraphs += paragraphs

    def plot(self, name, what, title, x_label, groups, base=1):
        """`what` says in one sentence what the plot shows. Ratios are beside a line at 1."""
        self.plots[f"{PLOTS}{name}.svg"] = plots.bars(title, x_label, groups, base)
        self.say(f"![{title}]({PLOTS}{name}.svg)", what)

    def lacks(self, *parts):
        """Says which of the parts, that a section needs, this run does not have."""
        missing = [part for part in parts if part in self.results["left_out"]]
        for part in missing:
            self.say(f"**Left out.** This run did not have the part `{part}`: {self.results['left_out'][part]}.")
        return missing

    # ---- sections ----

    def machine(self):
        facts = self.results["facts"]
        self.say("## The machine and the programs", table(
            ("what", "is"), ("date", facts["when"]), ("processors", f"{facts['processors']} × {facts['model']}"), ("memory", f"{facts['memory_gib']} GiB"),
            ("kernel", f"Linux {facts['kernel']}"), ("file system of the servers", facts["file_system"]),
            *((program, version) for program, version in facts["programs"].items())),
            "Servers and clients share these processors, and speak over loopback, by software iWARP where it says iWARP. Each client has one connection.",
            f"There were {facts['rounds']} rounds. Each measurement took {facts['seconds']:g} s, and that of iperf3 whole seconds.")
        for part, why in self.results["left_out"].items():
            self.say(f"Left out: `{part}`: {why}.")

    def meanings(self):
        self.say(
            "## What the numbers mean",
            "- **Depth** is the number of operations that are under way. READ and WRITE work on a file of "
            f"{self.results['facts']['file_mib']} MiB, which stays in the page cache; "
            "those of 1 MiB go through it in order, those of 4 KiB go to random places. WRITE is unstable, so that the server need not wait for a disk.\n"
            "- **A rate or a time** is the median of the rounds.\n"
            "- **A ratio** is that of two medians. Both sides were measured in every round, in an order that changes, so that other load of the machine "
            "affects both.\n"
            "- **±** is half of the distance between the quartiles: of the ratios within the rounds, or of a value in the rounds.\n"
            "- **server us** is the time of the processors that the server needed for one operation: user and kernel, all threads.\n"
            "- **client us** is the same of the client.\n"
            "- Compare ratios, not rates, from machine to machine.")

    def limits(self):
        self.say("## The limits of the machine")
        if self.lacks("limits"):
            return
        limits = self.results["limits"]
        rows = [("iperf3", "one TCP stream, whose only copies are the kernel's", "MiB/s", limits["iperf3"]["mib_per_second"]),
                ("ping-pong", "128 octets to another process and back, one at a time, over TCP", "/s", limits["ping-pong"]["per_second"]),
                ("memcpy", "one copy of as many octets as the file has", "MiB/s", limits["memcpy"]["mib_per_second"]),
                ("pread", "1 MiB at a time of such a file, from the page cache", "MiB/s", limits["pread"]["mib_per_second"])]
        self.say("The sections below compare operations of 1 MiB with iperf3, and others with the ping-pong.",
                 table(("limit", "what it is", "median", "±"),
                       *((name, what, f"{number(values)} {unit}", spread(values)) for name, what, unit, values in rows)))

    def ways(self, keys, limit, unit):
        """A table of all ways in all versions, with ratios to a limit."""
        head = ["version", "server and transport"]
        for key in keys:
            head += [f"{name_of(key)}: {unit} (of the limit)", "server us"]
        rows = []
        for version in self.results["ways"][TCP]:
            for way, versions in self.results["ways"].items():
                row = [version, way]
                for key in keys:
                    measured = versions[version][key]
                    row += [f"{number(measured['per_second'])} ({cell(ratio(measured['per_second'], limit))})", number(measured["server_cpu_us"])]
                rows.append(row)
        self.say(table(head, *rows))

    def plot_of_ways(self, name, what, title, x_label, keys, limit):
        self.plot(name, what, title, x_label, {
            f"{name_of(key)}, v{version}": {way: ratio(versions[version][key]["per_second"], limit) for way, versions in self.results["ways"].items()}
            for key in keys for version in PLOTTED})

    def large(self):
        self.say("## Large READs and WRITEs")
        if self.lacks("limits", "penstock"):
            return
        limit = self.results["limits"]["iperf3"]["mib_per_second"]
        self.plot_of_ways("large", "Each bar is the throughput of READs or WRITEs of 1 MiB, as a part of that of one iperf3 stream in the same rounds.",
                          "READ and WRITE of 1 MiB", "throughput, iperf3 = 1", LARGE, limit)
        self.ways(LARGE, limit, "MiB/s")
        self.say("NFS must also find or store the data, while iperf3 sends the same few pages again and again.",
                 "iWARP without check values has them off on both sides (`serve --crc off`, `crc=off` in the client's URL).")

    def small(self):
        self.say("## Small operations")
        if self.lacks("limits", "penstock"):
            return
        limit = self.results["limits"]["ping-pong"]["per_second"]
        self.plot_of_ways("small", "Each bar is the number of operations per second with 32 of them under way, as a multiple of the round trips of the "
                                   "ping-pong.",
                          "Small operations, depth 32", "operations per second, ping-pong = 1", SMALL_MANY, limit)
        self.say("One at a time, as the ping-pong does:")
        self.ways(SMALL_ONE, limit, "/s")
        self.say("With 32 under way, so that one system call can carry many messages:")
        self.ways(SMALL_MANY, limit, "/s")

    def names(self):
        self.say("## Names")
        if self.lacks("limits", "penstock"):
            return
        limit = self.results["limits"]["ping-pong"]["per_second"]
        self.plot_of_ways("names", "Each bar is the number of operations on names per second with 16 of them under way, as a multiple of the round trips "
                                   "of the ping-pong.",
                          "Operations on names, depth 16", "operations per second, ping-pong = 1", OF_NAMES, limit)
        self.ways(OF_NAMES, limit, "/s")
        self.say("A READDIR lists a whole folder with attributes. Sessions of 4.1 and 4.2 are persistent at Penstock: a change waits until its reply is "
                 "in the state directory, which is in the same file system here.")

    def ganesha(self):
        self.say("## Beside nfs-ganesha")
        if self.lacks("penstock", "ganesha"):
            return
        self.say("The client is `penstock bench` for both servers, over TCP.")
        ours, theirs = self.results["ways"][TCP], self.results["ways"][GANESHA]
        keys = (*LARGE, *SMALL_ONE, *SMALL_MANY, *OF_NAMES)
        for name, quantity, what, x_label in (
                ("ganesha-rate", "per_second", "Each bar is Penstock's rate as a multiple of that of nfs-ganesha: beyond 1 Penstock is faster.",
                 "rate, nfs-ganesha = 1"),
                ("ganesha-cpu", "server_cpu_us", "Each bar is the processors' time of Penstock's server as a multiple of that of nfs-ganesha: below 1 "
                 "Penstock needs less.", "server us, nfs-ganesha = 1")):
            self.plot(name, what, f"Penstock beside nfs-ganesha: {x_label.partition(',')[0]}", x_label, {
                name_of(key): {f"version {version}": ratio(ours[version][key][quantity], theirs[version][key][quantity]) for version in ours} for key in keys})
        self.say(self.beside(ours, theirs, keys))
        self.say("nfs-ganesha remembers attributes for a minute, and does not see what programs of the host change meanwhile. Penstock asks the file system each "
                 "time. So does nfs-ganesha with `Attr_Expiration_Time = 0`:", self.beside(ours, self.results["looking"], LOOKS))

    @staticmethod
    def beside(ours, theirs, keys):
        """A table of the rates and of the servers' time, as {version: {key: measurement}}."""
        rows = []
        for version in ours:
            for key in keys:
                mine, other = ours[version][key], theirs[version][key]
                rows.append((version, name_of(key), number(other["per_second"]), cell(ratio(mine["per_second"], other["per_second"])),
                             number(other["server_cpu_us"]), cell(ratio(mine["server_cpu_us"], other["server_cpu_us"]))))
        return table(("version", "operation", "nfs-ganesha, /s", "Penstock, ratio", "nfs-ganesha, server us", "Penstock, ratio"), *rows)

    def libnfs(self):
        self.say("## libnfs as the client")
        if self.lacks("penstock", "libnfs"):
            return
        self.say("libnfs and `penstock bench` at the same servers, in version 3 over TCP. libnfs has no RDMA.")
        ways = {name: self.results["ways"][f"{name}, TCP"]["3"] for name in self.results["libnfs"]}
        keys = (*LARGE, *SMALL_ONE, *SMALL_MANY)
        self.plot("libnfs", "Each bar is the rate that libnfs gets as a multiple of that of `penstock bench` at the same server: beyond 1 libnfs is faster.",
                  "libnfs beside penstock bench", "rate, penstock bench = 1", {
                      name_of(key): {f"at {server}": ratio(self.results["libnfs"][server][key]["per_second"], measured[key]["per_second"])
                                     for server, measured in ways.items()} for key in keys})
        rows = []
        for server, measured in ways.items():
            for key in keys:
                theirs, ours = self.results["libnfs"][server][key], measured[key]
                rows.append((server, name_of(key), number(ours["per_second"]), cell(ratio(theirs["per_second"], ours["per_second"])),
                             number(ours["client_cpu_us"]), cell(ratio(theirs["client_cpu_us"], ours["client_cpu_us"]))))
        self.say(table(("server", "operation", "penstock bench, /s", "libnfs, ratio", "penstock bench, client us", "libnfs, ratio"), *rows))

    def guest(self):
        self.say("## The kernel's client")
        if self.lacks("guest"):
            return
        guest = self.results["guest"]
        rates = guest["rates"]
        self.say(f"The NFS client of Linux {guest['kernel']} mounts Penstock and the kernel's own server (knfsd), in one guest, over the guest's loopback. "
                 "Both servers have a tmpfs. Over iWARP all of them use the kernel's software device (siw), without check values. Before a file is read, the client's "
                 "page cache is dropped for it. `bench/mounts/compare` measures, and what the mounts cache of names and attributes counts as it is.")
        if guest["is_emulated"]:
            self.say("QEMU emulated the processors of this guest, because KVM was not available. Emulation does not slow everything down alike, so that the "
                     "ratios may differ from those of real processors.")
        self.plot("guest", "Each bar is the rate of the kernel's client at Penstock as a multiple of its rate at the kernel's server: beyond 1 it is faster "
                           "at Penstock.",
                  "The kernel's client at Penstock", "rate, kernel's server = 1", {
                      what: {way_of(key): ratio(servers["Penstock"][what], servers["knfsd"][what]) for key, servers in rates.items()}
                      for what in next(iter(rates.values()))["knfsd"]})
        head, rows = ["what"], []
        for key in rates:
            head += [f"{way_of(key)}: knfsd", "Penstock, ratio"]
        for what in next(iter(rates.values()))["knfsd"]:
            row = [what]
            for servers in rates.values():
                row += [f"{number(servers['knfsd'][what])} {'MiB/s' if '1 MiB' in what else '/s'}",
                        cell(ratio(servers["Penstock"][what], servers["knfsd"][what]))]
            rows.append(row)
        self.say(table(head, *rows))

    def costs(self):
        self.say("## What one operation costs the server")
        if self.lacks("costs"):
            return
        measured, budget = self.results["costs"]["measured"], self.results["costs"]["budget"]
        self.say("`bench/costs` counts by callgrind what does not depend on the machine's load: the server's instructions in user space for one operation, its "
                 "system calls, its allocations of memory, and the mutexes that it locks. `make test-all PARTS=costs` fails if one of them exceeds its budget "
                 "in [costs.toml](../bench/costs.toml) by more than 5 %.")
        plotted = [key for key in measured if key.endswith(" 32")]
        self.plot("costs", "Each bar is the number of instructions of the server for one operation, with 32 of them under way.",
                  "Instructions of one operation, depth 32", "instructions", {
                      NAMES[operation]: {way_of(key): (measured[key]["instructions"], 0)
                                         for key in plotted if key.split()[2] == operation}
                      for operation in dict.fromkeys(key.split()[2] for key in plotted)}, base=None)
        rows = []
        for key, one in measured.items():
            version, transport, operation, depth = key.split()
            allowed = budget.get(key, {}).get("instructions")
            rows.append((version, TRANSPORTS[transport], NAMES[operation], depth, f"{one['instructions']:,}", "-" if allowed is None else f"{allowed:,}",
                         *(f"{one[what]:.2f}" for what in COUNTED[1:])))
        self.say(table(("version", "transport", "operation", "depth", "instructions", "budget", *COUNTED[1:]), *rows))


INTRODUCTION = (
    "How fast Penstock is, beside the limits of the machine and beside other servers and clients. `make bench` measures all of it in one run, and makes this "
    "page and its plots of the results, which are in [performance.json](plots/performance.json). Do not edit it by hand: change `bench/report.py`, and run "
    "`bench/page`. [bench/README.md](../bench/README.md) tells how to measure, and has other measurements.")


def wrapped(paragraph):
    """Returns the paragraph with lines that are not too long, unless they are those of a table."""
    return "\n".join(line if line.startswith("|") else textwrap.fill(line, 160, subsequent_indent="  " * line.startswith("- "), break_long_words=False,
                                                                     break_on_hyphens=False) for line in paragraph.splitlines())


def files_of(results):
    """Returns {path below docs/: text} of the page, its plots and its data."""
    report = Report(results)
    report.say("# Performance", INTRODUCTION)
    for section in (report.machine, report.meanings, report.limits, report.large, report.small, report.names, report.ganesha, report.libnfs, report.guest,
                    report.costs):
        section()
    return {PAGE: "\n\n".join(map(wrapped, report.paragraphs)) + "\n", DATA: data(results)} | report.plots


def data(results):
    """Returns the results as JSON, with each list of numbers in one line, so that a difference can be read."""
    text = json.dumps(results, indent=1, ensure_ascii=False)
    return re.sub(r"\[[^\[\]{}]*\]", lambda each: " ".join(each[0].split()).replace("[ ", "[").replace(" ]", "]"), text) + "\n"
