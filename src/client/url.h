// nfs://host[:port]/path?vers=3|4.0|4.1|4.2&proto=rdma|tcp names a file on a server and the way to reach it. The form
// follows libnfs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock::client {

enum class Protocol : uint8_t { kTcp, kRdma };
enum class Version : uint8_t { k3, k40, k41, k42 };
// Parses "3", "4" (which means 4.1), "4.0", "4.1" or "4.2".
std::optional<Version> ParseVersion(std::string_view text);

struct Url {
  std::string host;  // a name or an address; an IPv6 address without its brackets
  uint16_t port = 2049;
  std::string path = "/";  // absolute, percent-decoded
  Protocol protocol = Protocol::kTcp;
  // Absent: 4.1 if the server speaks it, otherwise 3.
  std::optional<Version> version;
  uint16_t mount_port = 20048;
  // The AUTH_SYS identity to present. Absent: the identity of the process.
  std::optional<uint32_t> uid;
  std::optional<uint32_t> gid;
  // Over iWARP, whether to ask for check values (CRC). If both sides do without them, data is sent without a copy.
  bool crc = true;
  // Connect from a port below 1024 if this process may and one is free, otherwise from any port: some servers insist on
  // such a port. RDMA devices choose ports themselves.
  bool reserved_port = true;

  // The time limit of a call in seconds, over any number of connections.
  uint32_t timeout = 600;

  static bool LooksLikeOne(std::string_view text) { return text.starts_with("nfs://"); }

  // Options: vers, proto, port or nfsport, mountport, uid, gid, crc=on|off, resvport or noresvport (as in nfs(5)),
  // timeout (seconds). The default ports are 2049 over TCP, 20049 over RDMA (RFC 8267 §4) and 20048 for MOUNT. The
  // error names the text and its mistake.
  static SetupResult<Url> Parse(std::string_view text);
};

}  // namespace penstock::client
