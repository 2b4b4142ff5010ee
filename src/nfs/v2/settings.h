// The settings of NFSv2. File systems provide the rest.
#pragma once

#include <cstddef>

#include "base/timer.h"
#include "protocol/nfs2.h"

namespace penstock::nfs::v2 {

struct Settings {
  // How long a call waits for something temporary to end, such as a delegation that is being recalled: see
  // nfs/patience.h.
  Duration patience = std::chrono::seconds(30);
  // The limits of the table of directory cookies: see cookie_table.h.
  size_t cookie_clients = 64;
  size_t cookies_of_client = 8192;
};

// Version 2 limits one READ or WRITE, and the entries of one READDIR (RFC 1094 §3.5).
inline constexpr uint32_t kMaxTransfer = nfs2::NFS_MAXDATA;

}  // namespace penstock::nfs::v2
