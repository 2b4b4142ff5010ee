// One request of the kernel, which gets exactly one reply.
#pragma once

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/cancellation.h"
#include "base/under_way.h"
#include "client/error.h"
#include "fuse/interrupts.h"

namespace penstock::fuse {

// Belongs to the loop. If the process that waits is killed, the request is answered with EINTR at once, so that a
// server that is silent holds no process. What the request has begun goes on, and nobody hears of its result: a reply
// then returns false.
class Request final : public Interrupted {
 public:
  // Counts itself in `under_way`, also after it has been answered. Both outlive it.
  Request(fuse_req_t request, Interrupts& interrupts, UnderWay& under_way);
  // Answers EIO if nothing was answered.
  ~Request() override;
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  uid_t uid() const { return uid_; }
  gid_t gid() const { return gid_; }
  // The groups of the process besides gid().
  std::vector<gid_t> groups() const;
  bool answered() const { return request_ == nullptr; }

  // The process may be ending, in which case no signal is told.
  void WatchProcess() { interrupts_.Watch(*this); }
  // Also for signals that do not kill: cancels `wait`, and not the whole request.
  void InterruptBy(Cancellation* wait) { wait_ = wait; }

  // Zero: success without results.
  bool Status(int error);
  bool Fail(const client::Error& error);
  bool Entry(const fuse_entry_param& entry);
  bool Created(const fuse_entry_param& entry, const fuse_file_info& file);
  bool Attributes(const struct stat& attributes, double timeout);
  bool Link(const char* target);
  bool Opened(const fuse_file_info& file);
  bool Written(size_t count);
  bool Octets(ConstBytes octets);
  bool Octets(std::span<const Slice> pieces);
  // Answers like Octets(pieces) when the result is called: once, by any thread. Returns nothing if the request has been
  // answered.
  std::move_only_function<bool()> AnswerWith(std::vector<Slice> pieces);
  bool FileSystem(const struct statvfs& room);
  bool XattrSize(size_t size);
  bool Lock(const struct flock& lock);
  bool Offset(uint64_t offset);

  // Interrupted
  void HandleSignal() override;
  void HandleKill() override;
  pid_t pid() const override { return pid_; }

 private:
  bool End(int result);

  fuse_req_t request_;
  Interrupts& interrupts_;
  UnderWay& under_way_;
  const uid_t uid_;
  const gid_t gid_;
  const pid_t pid_;
  Cancellation* wait_ = nullptr;
};

// Answers `error`, and returns true, if the result has one.
template <class T>
bool Failed(Request& request, const client::Result<T>& result) {
  if (result) return false;
  request.Fail(result.error());
  return true;
}

}  // namespace penstock::fuse
