#include "client/url_parameters.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/nearest.h"
#include "client/url_setters.h"

namespace penstock::client {
namespace {

struct Setting {
  UrlParameter parameter;
  UrlSetter set;
};

constexpr Setting kSettings[] = {
    {{"proto", "tcp|tcp6|rdma|rdma6|rdma+tcp|rdma6+tcp6|stepup",
      "The transport. tcp: TCP. rdma: an RDMA device, or software iWARP. Both use an IPv4 address of the server, "
      "unless the URL itself has an IPv6 address; tcp6 and rdma6 use an IPv6 address. The default is TCP with an "
      "address of either kind. rdma+tcp: of the connections that nconnect allows, the last one is over TCP and the "
      "others are over RDMA, all of them in one session; this needs version 4.1 or 4.2, and an export with the option "
      "secure needs a client that may use ports below 1024. rdma6+tcp6: the same with an IPv6 address. stepup: TCP, "
      "until the server turns the connection into an RDMA connection; this needs vers=4.1-sess01."},
     SetProtocol},
    {{"tcp", "", "The same as proto=tcp."}, SetProtocol},
    {{"rdma", "", "The same as proto=rdma."}, SetProtocol},
    {{"vers", "3|4|4.0|4.1|4.2|4.1-sess01",
      "The version of NFS. 4 means 4.1. 4.1-sess01 means 4.1 with the sessions of draft-talpey-nfsv4-rdma-sess-01. "
      "Without it, the client uses 4.1 if the server has it, and 3 otherwise."},
     SetVersion},
    {{"nfsvers", "3|4|4.0|4.1|4.2|4.1-sess01", "The same as vers."}, SetVersion},
    {{"version", "3|4|4.0|4.1|4.2|4.1-sess01", "The same as vers."}, SetVersion},
    {{"minorversion", "0|1|2", "With vers=4, the minor version: vers=4 and minorversion=2 mean vers=4.2."},
     SetMinorVersion},
    {{"sec", "none|sys|krb5|krb5i|krb5p",
      "The security flavor of all calls. krb5: Kerberos proves who the user is. krb5i: it also protects all data from "
      "changes. krb5p: it also encrypts them. Of several flavors with ':' between them, such as krb5p:krb5i, the "
      "client uses the first one that the server accepts and for which the user has a ticket. Without it, the "
      "environment variable PENSTOCK_SEC decides, or else the server's preference."},
     SetSecurity},
    {{"xprtsec", "none|opportunistic|tls|mtls",
      "The protection of connections over TCP. tls: TLS, in which the server shows a certificate. mtls: the client "
      "shows one as well. opportunistic: TLS if the server has it. none, the default: plain text."},
     SetTransportSecurity},
    {{"port", "PORT",
      "The port of NFS, from 1 to 65535. It takes precedence over a port behind the host. The default is 2049, and "
      "20049 over RDMA. If no port is given, or 0, and nothing listens there, the client asks the server's rpcbind."},
     SetPort},
    {{"nfsport", "PORT", "The same as port."}, SetPort},
    {{"tcpport", "PORT",
      "With proto=rdma+tcp: the port of NFS over TCP, from 1 to 65535. The default is 2049. port names the RDMA port "
      "then."},
     SetTcpPort},
    {{"mountport", "PORT",
      "The port of MOUNT, which version 3 uses. If it is not given, or 0, the client looks for MOUNT at the port of "
      "NFS, then at 20048, and then asks the server's rpcbind."},
     SetMountPort},
    {{"mountproto", "tcp|tcp6|udp|udp6",
      "The transport of MOUNT: over IPv4, or over IPv6 with a 6. The default is TCP with an address as proto has it."},
     SetMountProtocol},
    {{"mounthost", "HOST", "The host of MOUNT. The default is the host of the URL."}, SetMountHost},
    {{"mountvers", "3", "The version of MOUNT, which is always 3."}, SetMountVersion},
    {{"uid", "NUMBER", "The user to present with sec=sys. The default is the user of the process."}, SetIdentity},
    {{"gid", "NUMBER", "The group to present with sec=sys. The default is the group of the process."}, SetIdentity},
    {{"timeout", "SECONDS",
      "The time limit of a call, which includes the time without a connection. The default is 600 seconds. The last "
      "one of timeout, hard, soft and softerr counts."},
     SetTimeout},
    {{"hard", "", "Repeat a call until the server answers, without a time limit. The default of penstock mount."},
     SetRecovery},
    {{"soft", "",
      "A call fails when it has been repeated retrans times without a reply: after timeo times retrans + 1, but after "
      "600 seconds at most. A program that does not expect the error may lose data."},
     SetRecovery},
    {{"softerr", "", "The same as soft."}, SetRecovery},
    {{"timeo", "TENTHS",
      "The client waits so many tenths of a second for a reply before it makes another connection and repeats the "
      "call. After each repetition it waits longer by the same time, up to 600 seconds. The default is 600."},
     SetTimeo},
    {{"retrans", "NUMBER", "With soft: the number of repetitions. The default is 2."}, SetRetrans},
    {{"rsize", "OCTETS",
      "The most octets of one READ. A multiple of 1024 up to 1048576: other numbers are rounded down, and those below "
      "1024 mean 4096. The default is what the server and the client support."},
     SetTransferSize},
    {{"wsize", "OCTETS", "The most octets of one WRITE, as rsize."}, SetTransferSize},
    {{"ro", "", "Read only: the client refuses to change files, with the error EROFS."}, SetReadOnly},
    {{"rw", "", "Read and write. This is the default."}, SetReadOnly},
    {{"nconnect", "NUMBER",
      "The most connections to the server at once, from 1 to 16. The default is 1, and 2 with proto=rdma+tcp. Calls "
      "that are under way at the "
      "same "
      "time share the connections. The client makes a further one when each of the others is busy. If one is lost, the "
      "calls of the others go on. In version 4.1 and 4.2 all of them are bound to one session. Not for "
      "vers=4.1-sess01."},
     SetConnections},
    {{"max_connect", "NUMBER",
      "The most connections to several addresses of one server, from 1 to 16, as in nfs(5). The client uses one "
      "address, "
      "so that the number changes nothing."},
     SetConnections},
    {{"inline", "OCTETS",
      "Over RDMA, data of up to so many octets are part of the message, if the server takes messages of that size. "
      "Longer data move by RDMA Read and Write. From 1 to 114688; the default is 16384 over software iWARP, and 4096 "
      "over an RDMA device, where each call that may be under way needs a receive of that size and 4 KiB. With "
      "vers=4.1-sess01 it is 4095."},
     SetInline},
    {{"crc", "on|off",
      "Whether the client asks for check values over software iWARP. The default is on. If both sides do without them, "
      "data is sent without a copy."},
     SetCrc},
    {{"resvport", "",
      "Connect from a port below 1024, if the process may and one is free. This is the default. Some servers insist on "
      "such a port. RDMA devices choose their ports themselves."},
     SetReservedPort},
    {{"noresvport", "", "Connect from any port."}, SetReservedPort},
    {{"persist", "on|off",
      "Whether the client asks for a session whose replies survive a restart of the server. The default is on. off "
      "needs vers=4.1, 4.2 or 4.1-sess01."},
     SetPersist},
    {{"channels", "NUMBER",
      "With vers=4.1-sess01: the number of operations channels, each over a connection of its own. From 1 to 16; the "
      "default is 1."},
     SetChannels},
    {{"back", "own|shared|off",
      "With vers=4.1-sess01: where the server's calls arrive. own, the default: over a connection of their own. "
      "shared: over the connection of the first operations channel. off: nowhere, so that the server grants no "
      "delegations."},
     SetBack},
    {{"pad", "OCTETS",
      "With vers=4.1-sess01 over RDMA: ask to align the data of WRITEs on this boundary. A power of two from 64 to "
      "4096; the default is 0, which asks for nothing."},
     SetPad},
    {{"chain", "on|off",
      "With vers=4.1-sess01: split a COMPOUND that is larger than the channel allows into chained requests. The "
      "default is on."},
     SetChain},

    // For penstock mount.
    {{"acregmin", "SECONDS",
      "For penstock mount: the shortest time for which it keeps attributes of a file. The default is 3."},
     SetAttributeTime},
    {{"acregmax", "SECONDS", "The longest time for that. The default is 60."}, SetAttributeTime},
    {{"acdirmin", "SECONDS",
      "For penstock mount: the shortest time for which it keeps attributes of a directory. The default is 30."},
     SetAttributeTime},
    {{"acdirmax", "SECONDS", "The longest time for that. The default is 60."}, SetAttributeTime},
    {{"actimeo", "SECONDS", "Sets acregmin, acregmax, acdirmin and acdirmax."}, SetAttributeTime},
    {{"ac", "", "For penstock mount: keep attributes. This is the default."}, SetCaching},
    {{"noac", "", "For penstock mount: keep no attributes, and write synchronously."}, SetCaching},
    {{"cto", "",
      "For penstock mount: a program that opens a file sees what another client wrote before it closed the file. This "
      "is the default."},
     SetCaching},
    {{"nocto", "", "For penstock mount: do not ask the server for that at each open."}, SetCaching},
    {{"lookupcache", "all|none|pos|positive",
      "For penstock mount: keep names that exist and names that do not exist (all, the default), only those that exist "
      "(pos, positive), or none."},
     SetLookupCache},
    {{"lock", "", "For penstock mount: locks hold for other clients, too. This is the default."}, SetLock},
    {{"nolock", "", "For penstock mount: locks hold for programs of this host only."}, SetLock},
    {{"local_lock", "none|flock|posix|all",
      "For penstock mount: the locks that hold for programs of this host only. The default is none. lock and nolock "
      "take precedence."},
     SetLocalLock},
    {{"bg", "",
      "For penstock mount: if the first attempt fails because the server does not answer, or because the directory is "
      "missing, the command succeeds, and goes on trying in the background."},
     SetBackground},
    {{"fg", "", "For penstock mount: the opposite of bg, and the default."}, SetBackground},
    {{"retry", "MINUTES",
      "For penstock mount: the time for which it tries to mount when the server does not answer. 0 means one attempt. "
      "The default is 2, and 10000 with bg. An error that does not pass, such as a path that is not exported, ends the "
      "command at once."},
     SetRetry},
    {{"nosuid", "", "For penstock mount, as for mount(8)."}, AddFlag},
    {{"suid", "", "For penstock mount, as for mount(8)."}, AddFlag},
    {{"nodev", "", "For penstock mount, as for mount(8)."}, AddFlag},
    {{"dev", "", "For penstock mount, as for mount(8)."}, AddFlag},
    {{"noexec", "", "For penstock mount, as for mount(8)."}, AddFlag},
    {{"exec", "", "For penstock mount, as for mount(8)."}, AddFlag},
    {{"noatime", "", "For penstock mount, as for mount(8)."}, AddFlag},
    {{"atime", "", "For penstock mount, as for mount(8)."}, AddFlag},
    {{"sync", "", "For penstock mount, as for mount(8)."}, AddFlag},
    {{"async", "", "For penstock mount, as for mount(8)."}, AddFlag},
    {{"dirsync", "", "For penstock mount, as for mount(8)."}, AddFlag},
    {{"allow_other", "",
      "For penstock mount: all users of this host may use the tree, and not only the one who has mounted it. With root "
      "as that user, the server sees each of them under their own identity."},
     AddFlag},
    {{"clientaddr", "ADDRESS",
      "Without effect: it names the address for calls of a server of version 4.0, of which this client asks for none."},
     IgnoreAddress},
    {{"namlen", "NUMBER", "Without effect: the server says how long names may be."}, IgnoreNumber},
    {{"rdirplus", "", "Without effect: it is a hint for the client of the kernel."}, Ignore},
    {{"nordirplus", "", "Without effect: it is a hint for the client of the kernel."}, Ignore},
    {{"sharecache", "", "Without effect: mounts never share a cache."}, Ignore},
    {{"nosharecache", "", "Without effect: mounts never share a cache."}, Ignore},
    {{"fsc", "", "Without effect: the client has no cache on a disk."}, Ignore},
    {{"nofsc", "", "Without effect: the client has no cache on a disk."}, Ignore},
    {{"intr", "", "Without effect: a signal always ends a call."}, Ignore},
    {{"nointr", "", "Without effect: a signal always ends a call."}, Ignore},
    {{"softreval", "", "Without effect: it is a hint for the client of the kernel."}, Ignore},
    {{"nosoftreval", "", "Without effect: it is a hint for the client of the kernel."}, Ignore},
    {{"migration", "", "Without effect: it is a hint for the client of the kernel."}, Ignore},
    {{"nomigration", "", "Without effect: it is a hint for the client of the kernel."}, Ignore},
    {{"acl", "", "Without effect: access control lists are available where the server has them."}, Ignore},
    {{"noacl", "", "Without effect: nothing asks for an access control list unasked."}, Ignore},
    {{"diratime", "", "Without effect: the server keeps the times of access."}, Ignore},
    {{"nodiratime", "", "Without effect: the server keeps the times of access."}, Ignore},
    {{"relatime", "", "Without effect: the server keeps the times of access."}, Ignore},
    {{"norelatime", "", "Without effect: the server keeps the times of access."}, Ignore},
    {{"strictatime", "", "Without effect: the server keeps the times of access."}, Ignore},
    {{"lazytime", "", "Without effect: the server keeps the times of access."}, Ignore},
    {{"defaults", "", "Without effect: for lines of fstab(5)."}, Ignore},
    {{"auto", "", "Without effect: for lines of fstab(5)."}, Ignore},
    {{"noauto", "", "Without effect: for lines of fstab(5)."}, Ignore},
    {{"user", "", "Without effect: for lines of fstab(5)."}, Ignore},
    {{"users", "", "Without effect: for lines of fstab(5)."}, Ignore},
    {{"nouser", "", "Without effect: for lines of fstab(5)."}, Ignore},
    {{"owner", "", "Without effect: for lines of fstab(5)."}, Ignore},
    {{"group", "", "Without effect: for lines of fstab(5)."}, Ignore},
    {{"_netdev", "", "Without effect: for lines of fstab(5)."}, Ignore},
    {{"nofail", "", "Without effect: for lines of fstab(5), as is every option that begins with x-."}, Ignore},
    {{kSloppy, "", "Ignore options that the client does not know."}, Ignore},
};

// Options with this beginning are for other programs that read fstab(5).
constexpr std::string_view kForOthers = "x-";

constexpr auto kParameters = [] {
  std::array<UrlParameter, std::size(kSettings)> parameters;
  std::ranges::transform(kSettings, parameters.begin(), &Setting::parameter);
  return parameters;
}();

}  // namespace

std::span<const UrlParameter> UrlParameters() { return kParameters; }

bool IsUrlParameter(std::string_view name) {
  return name.starts_with(kForOthers) || std::ranges::find(kParameters, name, &UrlParameter::name) != kParameters.end();
}

std::optional<std::string> SetUrlParameter(UrlParts& parts, std::string_view key, std::string_view value,
                                           bool has_value) {
  if (key.starts_with(kForOthers)) return std::nullopt;
  const auto setting = std::ranges::find(kSettings, key, [](const Setting& each) { return each.parameter.name; });
  if (setting == std::end(kSettings)) {
    std::array<std::string_view, std::size(kSettings)> names;
    std::ranges::transform(kParameters, names.begin(), &UrlParameter::name);
    const std::string_view nearest = Nearest(key, names);
    return fmt::format("unknown option '{}'{}", key, nearest.empty() ? "" : fmt::format(" (is {} meant?)", nearest));
  }
  if (has_value && setting->parameter.values.empty()) return fmt::format("{} takes no value", key);
  return setting->set(parts, key, value);
}

}  // namespace penstock::client
