// The operator's settings for NFSv3. File systems provide the rest.
#pragma once

#include <cstdint>

namespace penstock::nfs::v3 {

// The limits that FSINFO reports (RFC 1813 §3.3.19). The server enforces them.
struct Settings {
  uint32_t max_read = 1 << 20;
  uint32_t max_write = 1 << 20;
  uint32_t max_directory = 1 << 20;  // READDIR and READDIRPLUS
};

}  // namespace penstock::nfs::v3
