// nfs://host[:port]/path?vers=3|4.0|4.1|4.2&proto=rdma|tcp — where a file is, and how to get there; in the manner of
// libnfs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace penstock::client {

enum class Protocol : uint8_t { kTcp, kRdma };
enum class Version : uint8_t { k3, k40, k41, k42 };
// "3", "4" (which is 4.1), "4.0", "4.1", "4.2"
std::optional<Version> ParseVersion(std::string_view text);

struct Url {
  std::string host;  // a name or an address; IPv6 without its brackets
  uint16_t port = 2049;
  std::string path = "/";  // absolute, percent-decoded
  Protocol protocol = Protocol::kTcp;
  // Absent: 4.1 where the server speaks it, otherwise 3.
  std::optional<Version> version;
  uint16_t mount_port = 20048;
  // The identity to present (AUTH_SYS); the process's own where absent.
  std::optional<uint32_t> uid;
  std::optional<uint32_t> gid;
  // Over iWARP: ask for check values. Without them, and with a server that does without, data is sent without a copy.
  bool crc = true;
  // Connect from ports below 1024 where this process may and one is free, else from any: a server may insist on it. RDMA
  // devices choose ports themselves.
  bool reserved_port = true;

  // How many seconds a call is tried, over as many connections as it takes.
  uint32_t timeout = 600;

  static bool LooksLikeOne(std::string_view text) { return text.starts_with("nfs://"); }

  // Options: vers, proto, port or nfsport, mountport, uid, gid, crc=on|off, resvport or noresvport (as in nfs(5)), timeout
  // (seconds). Ports are by default 2049 over TCP, 20049 over RDMA (RFC 8267 §4), 20048 for MOUNT. The error says what is
  // wrong with the text.
  static SetupResult<Url> Parse(std::string_view text);
};

}  // namespace penstock::client
