// The octets of a file in order, for commands that read files of servers and of this host alike. Several READs run
// ahead of the reader.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/task.h"
#include "cli/client_runtime.h"
#include "cli/mounts.h"
#include "client/mount.h"

namespace penstock::cli {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Returns the next octets, and none at the end of the file. They stay valid until the next call.
  virtual Task<client::Result<ConstBytes>> Next() = 0;
  // Called once, at the end, also after an error.
  virtual Task<client::Result<void>> Close() = 0;
};

struct ReadOptions {
  uint64_t offset = 0;
  unsigned ahead = 8;        // READs at the same time
  uint32_t piece = 1 << 20;  // octets of one READ, at most what the server takes
};

// Opens a regular file of a server. The source names `name` in errors.
Task<client::Result<std::unique_ptr<ByteSource>>> OpenRemote(ClientRuntime& runtime, client::Mount& mount,
                                                             client::Node node, std::string name,
                                                             ReadOptions options = {});
// Resolves and opens the file of a URL.
Task<client::Result<std::unique_ptr<ByteSource>>> OpenRemote(ClientRuntime& runtime, const Mounted& at,
                                                             ReadOptions options = {});
// Opens a file of this host, or standard input for "-".
Task<client::Result<std::unique_ptr<ByteSource>>> OpenLocal(ClientRuntime& runtime, std::string name);

// Writes to standard output on a thread of the runtime, behind what FlushOutput() has written.
Task<client::Result<void>> WriteBytes(ClientRuntime& runtime, ConstBytes octets);

}  // namespace penstock::cli
