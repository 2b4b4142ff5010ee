// nfs://host[:port]/path?vers=3|4.0|4.1|4.2|4.1-sess01&proto=rdma|tcp|rdma+tcp|stepup&sec=... names a file on a server
// and the way to reach it. The form follows libnfs, and the names of the options follow nfs(5).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "client/transport_security.h"
#include "client/url_options.h"
#include "nfs_protocol/security_flavors.h"

namespace penstock::client {

// kStepUp: the client connects over TCP, and turns the connection into an RDMA connection in place if the server grants
// that (draft-talpey-nfsv4-rdma-sess-01 §2.3.2). Only with Version::kSess01.
enum class Protocol : uint8_t { kTcp, kRdma, kStepUp };
// kSess01: minor version 1 as the sessions draft of 2004 proposed it (docs/sessions-2004.md).
enum class Version : uint8_t { k3, k40, k41, k42, kSess01 };
// Parses "3", "4" (which means 4.1), "4.0", "4.1", "4.2" or "4.1-sess01".
std::optional<Version> ParseVersion(std::string_view text);

// Parses flavors that are separated by colons: "none", "sys", "krb5", "krb5i" or "krb5p". The error says what the text
// must be.
Result<nfs_protocol::SecurityFlavors, std::string> ParseSecurity(std::string_view text);

// Where the server's calls to a client with a session of 2004 arrive (draft-talpey-nfsv4-rdma-sess-01 §2.6).
enum class BackChannelPlace : uint8_t {
  kOwn,     // over a connection of their own
  kShared,  // over the connection of the first operations channel
  kOff,     // nowhere, so that the server grants no delegations
};

// The choices of a client with a session of 2004.
struct BoundSessionOptions {
  uint32_t channels = 1;  // operations channels, each over a connection of its own: 1 to 16
  BackChannelPlace back = BackChannelPlace::kOwn;
  // Ask the server to keep replies, so that it executes each request once (§6.1). Also in versions 4.1 and 4.2, where
  // it concerns a restart of the server (RFC 8881 §2.10.6.5).
  bool persist = true;
  uint32_t padding = 0;  // over RDMA, ask to align the data of WRITEs on this boundary (§2.8): 0 or 64 to 4096
  bool chain = true;     // split a COMPOUND that is larger than the channel's sizes into chained requests (§2.7)
  bool operator==(const BoundSessionOptions&) const = default;
};

struct Url {
  std::string host;  // a name or an address; an IPv6 address without its brackets
  // Of the addresses of a name. kIpv4 also takes an IPv6 address that stands in the URL itself.
  AddressFamily family = AddressFamily::kAny;
  uint16_t port = 2049;
  // Nobody has named the port: if nothing listens there, the server's rpcbind may know another one.
  bool finds_port = false;
  std::string path = "/";  // absolute, percent-decoded
  Protocol protocol = Protocol::kTcp;
  // proto=rdma+tcp: of the `nconnect` connections of a mount, which are at least two, the last one is over TCP to this
  // port, and the others are over `protocol`, which is kRdma. Only in versions 4.1 and 4.2, whose sessions may have
  // connections of several transports (RFC 8881 §2.10.3.1). Absent: all are over `protocol`.
  std::optional<uint16_t> tcp_port;
  // Absent: 4.1 if the server speaks it, otherwise 3.
  std::optional<Version> version;
  // For MOUNT, which version 3 uses. Without a port, the client looks for it: at the port of NFS, at 20048, and by
  // rpcbind.
  std::optional<uint16_t> mount_port;
  std::string mount_host;  // empty: `host`
  bool mount_over_udp = false;
  std::optional<AddressFamily> mount_family;  // absent: `family`
  // The security flavor of all calls: none, sys, krb5, krb5i or krb5p. Absent: the first one of `flavors` that the
  // server accepts. If these are empty, the first flavor of the server's preference that the client can use, which is
  // AUTH_SYS if the server does not say.
  std::optional<nfs_protocol::SecurityFlavor> security;
  // The flavors that the user accepts, if there are several, in the order of preference.
  nfs_protocol::SecurityFlavors flavors;
  // The AUTH_SYS identity to present. Absent: the identity of the process.
  std::optional<uint32_t> uid;
  std::optional<uint32_t> gid;
  // The supplementary groups to present. Absent: those of the process if it presents its own identity, otherwise none.
  std::optional<std::vector<uint32_t>> groups;
  // Over iWARP, whether to ask for check values (CRC). If both sides do without them, data is sent without a copy.
  bool crc = true;
  // Connect from a port below 1024 if this process may and one is free, otherwise from any port: some servers insist on
  // such a port. RDMA devices choose ports themselves.
  bool reserved_port = true;

  // Over RDMA: data of up to this many octets are part of the message, if the server takes messages of that size.
  // Longer data move by RDMA Read and Write. From 1 to 114688; absent: what suits the provider.
  std::optional<uint32_t> inline_data;

  // Only over TCP. It holds for every connection of the mount, also to MOUNT and to servers of referrals.
  TransportSecurity transport_security = TransportSecurity::kNone;
  // Copies of the URL share it. Never null.
  std::shared_ptr<TlsClient> tls = std::make_shared<TlsClient>();

  RecoveryOptions recovery;

  // The most octets of a READ and of a WRITE. Zero: as many as the server and the client support.
  uint32_t read_size = 0;
  uint32_t write_size = 0;
  // Calls that would change files fail with Status::kReadOnly, and are not sent.
  bool read_only = false;
  // The most connections of a mount to each of its servers, 1 to 16.
  uint32_t nconnect = 1;
  // The same to several addresses of one server. A mount uses one address.
  uint32_t max_connect = 1;

  // For a file system that programs see (`penstock mount`). Other users of a mount need none of them.
  CacheOptions cache;
  LockOptions locks;
  // Options of mount(8) for it, such as "nosuid".
  std::vector<std::string> file_system_flags;
  bool in_background = false;                   // bg
  std::optional<uint32_t> retry_for_minutes{};  // retry=

  // Only for Version::kSess01, except `persist`.
  BoundSessionOptions session;

  // The port of a server that names none: 2049, and 20049 over RDMA (RFC 8267 §4).
  static uint16_t DefaultPort(Protocol protocol) { return protocol == Protocol::kRdma ? 20049 : 2049; }

  // The parts that URLs share compare by identity.
  bool operator==(const Url&) const = default;

  static bool LooksLikeOne(std::string_view text) { return text.starts_with("nfs://"); }

  // UrlParameters() are the options. The default port is DefaultPort(). Options of the URL replace `defaults`, and
  // `overrides` replace both; within each, later ones replace earlier ones. The error names the text and its mistake,
  // or the source of an option that stands elsewhere.
  static SetupResult<Url> Parse(std::string_view text, std::span<const UrlOption> defaults,
                                std::span<const UrlOption> overrides);
  static SetupResult<Url> Parse(std::string_view text) { return Parse(text, {}, {}); }
  // Returns the host of a URL; nothing if the text is none.
  static std::optional<std::string> HostOf(std::string_view text);
  // Splits "name,name=value,..." as mount(8) writes options. Each has the source "`flag` name=value".
  static std::vector<UrlOption> SplitOptions(std::string_view text, std::string_view flag);
};

}  // namespace penstock::client
