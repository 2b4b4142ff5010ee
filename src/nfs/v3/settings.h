// What the operator may set about NFSv3; the rest is said by the file systems.
#pragma once

#include <cstdint>

namespace penstock::nfs::v3 {

// What FSINFO tells clients (RFC 1813 §3.3.19), and what is kept to when they ask for more.
struct Settings {
  uint32_t max_read = 1 << 20;
  uint32_t max_write = 1 << 20;
  uint32_t max_directory = 1 << 20;  // READDIR and READDIRPLUS
};

}  // namespace penstock::nfs::v3
