// The connection to the kernel's FUSE: mounts a tree, and reads the kernel's requests on a loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "fuse/file_system.h"

namespace penstock::fuse {

struct SessionOptions {
  std::string source;                // what `mount` shows
  std::vector<std::string> options;  // of the mount, for libfuse: allow_other, ro, ...
};

// Belongs to the loop.
class Session {
 public:
  // Mounts `files` at `directory`: as root by itself, otherwise by fusermount3. `ended` is called, on the loop, when
  // the tree has been unmounted. `loop` and `files` outlive the session.
  static SetupResult<std::unique_ptr<Session>> Mount(Loop& loop, FileSystem& files, const std::string& directory,
                                                     const SessionOptions& options, std::function<void()> ended);
  // Unmounts the tree, if it is mounted.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Unmounts the tree. Programs that use it get errors from then on.
  void Unmount();

 private:
  class Device;
  explicit Session(std::unique_ptr<Device> device);

  const std::unique_ptr<Device> device_;
};

}  // namespace penstock::fuse
