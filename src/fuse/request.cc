#include "fuse/request.h"

#include <sys/uio.h>

#include <cerrno>
#include <utility>

#include "base/log.h"

namespace penstock::fuse {

Request::Request(fuse_req_t request, Interrupts& interrupts, UnderWay& under_way)
    : request_(request),
      interrupts_(interrupts),
      under_way_(under_way),
      uid_(fuse_req_ctx(request)->uid),
      gid_(fuse_req_ctx(request)->gid),
      pid_(fuse_req_ctx(request)->pid) {
  under_way_.Begin();
  // libfuse calls this on the loop, while it reads the kernel's requests.
  const auto interrupted = [](fuse_req_t, void* self) {
    auto* const at = static_cast<Request*>(self);
    at->interrupts_.HandleInterrupt(*at);
  };
  fuse_req_interrupt_func(request, interrupted, this);
}

Request::~Request() {
  Status(EIO);
  under_way_.End();
}

std::vector<gid_t> Request::groups() const {
  if (!request_) return {};
  std::vector<gid_t> groups(32);
  for (;;) {
    const int count = fuse_req_getgroups(request_, static_cast<int>(groups.size()), groups.data());
    if (count < 0) return {};
    const bool fits = static_cast<size_t>(count) <= groups.size();
    groups.resize(static_cast<size_t>(count));
    if (!fits) continue;
    std::erase(groups, gid_);
    return groups;
  }
}

bool Request::End(int result) {
  interrupts_.Remove(*this);
  return result == 0;
}

namespace {

// Takes the request, so that it is answered once.
fuse_req_t Take(fuse_req_t& request) {
  const fuse_req_t taken = std::exchange(request, nullptr);
  if (taken) fuse_req_interrupt_func(taken, nullptr, nullptr);
  return taken;
}

}  // namespace

bool Request::Status(int error) {
  const fuse_req_t request = Take(request_);
  return request && End(fuse_reply_err(request, error));
}

namespace {

// Programs expect no errors of connections from a file: a tree with `soft` fails with EIO (nfs(5)).
int NumberFor(const client::Error& error) {
  return error.number > 0 && !client::IsOfConnection(error.number) ? error.number : EIO;
}

}  // namespace

bool Request::Fail(const client::Error& error) {
  const int number = NumberFor(error);
  // A program shows EIO to its user without any reason.
  if (number == EIO) {
    log::warn("{}", error.message);
  } else {
    log::debug("{}", error.message);
  }
  return Status(number);
}

bool Request::Entry(const fuse_entry_param& entry) {
  const fuse_req_t request = Take(request_);
  return request && End(fuse_reply_entry(request, &entry));
}

bool Request::Created(const fuse_entry_param& entry, const fuse_file_info& file) {
  const fuse_req_t request = Take(request_);
  return request && End(fuse_reply_create(request, &entry, &file));
}

bool Request::Attributes(const struct stat& attributes, double timeout) {
  const fuse_req_t request = Take(request_);
  return request && End(fuse_reply_attr(request, &attributes, timeout));
}

bool Request::Link(const char* target) {
  const fuse_req_t request = Take(request_);
  return request && End(fuse_reply_readlink(request, target));
}

bool Request::Opened(const fuse_file_info& file) {
  const fuse_req_t request = Take(request_);
  return request && End(fuse_reply_open(request, &file));
}

bool Request::Written(size_t count) {
  const fuse_req_t request = Take(request_);
  return request && End(fuse_reply_write(request, count));
}

bool Request::Octets(ConstBytes octets) {
  const fuse_req_t request = Take(request_);
  return request && End(fuse_reply_buf(request, reinterpret_cast<const char*>(octets.data()), octets.size()));
}

namespace {

int Reply(fuse_req_t request, std::span<const Slice> pieces) {
  std::vector<iovec> places;
  for (const Slice& each : pieces) places.push_back({const_cast<std::byte*>(each.data()), each.size()});
  return fuse_reply_iov(request, places.data(), static_cast<int>(places.size()));
}

}  // namespace

bool Request::Octets(std::span<const Slice> pieces) {
  const fuse_req_t request = Take(request_);
  return request && End(Reply(request, pieces));
}

std::move_only_function<bool()> Request::AnswerWith(std::vector<Slice> pieces) {
  const fuse_req_t request = Take(request_);
  if (!request) return {};
  interrupts_.Remove(*this);
  return [request, pieces = std::move(pieces)] { return Reply(request, pieces) == 0; };
}

bool Request::FileSystem(const struct statvfs& room) {
  const fuse_req_t request = Take(request_);
  return request && End(fuse_reply_statfs(request, &room));
}

bool Request::XattrSize(size_t size) {
  const fuse_req_t request = Take(request_);
  return request && End(fuse_reply_xattr(request, size));
}

bool Request::Lock(const struct flock& lock) {
  const fuse_req_t request = Take(request_);
  return request && End(fuse_reply_lock(request, &lock));
}

bool Request::Offset(uint64_t offset) {
  const fuse_req_t request = Take(request_);
  return request && End(fuse_reply_lseek(request, static_cast<off_t>(offset)));
}

void Request::HandleSignal() {
  if (wait_) wait_->Cancel();
}

void Request::HandleKill() { Status(EINTR); }

}  // namespace penstock::fuse
