// The descriptors that file systems keep open between calls, as the server sees them. A server asks for some of them
// back when it has no descriptor left for a connection, and has unused ones closed from time to time.
#pragma once

#include <cstddef>

namespace penstock::fs {

// One object stands for all file systems of a process that share a limit of descriptors. Any thread.
class OpenFiles {
 public:
  virtual ~OpenFiles() = default;

  // The number of open descriptors.
  virtual size_t descriptors() const = 0;
  // Closes up to `count` descriptors that no call uses, and returns how many it closed. May block shortly, so the
  // server calls it on a thread of the pool.
  virtual size_t GiveUp(size_t count) = 0;
  // Closes descriptors for writing that no call has used since this was called before, and after a while the objects
  // that another program has removed, so that their space becomes free. The server calls it some times a second, on a
  // thread of the pool.
  virtual void CloseIdle() = 0;
};

}  // namespace penstock::fs
