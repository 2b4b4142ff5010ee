#include "fuse/session.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "base/data.h"
#include "base/log.h"
#include "fuse/request.h"

namespace penstock::fuse {
namespace {

// The data of one READ or WRITE of the kernel.
constexpr unsigned kLargest = 1 << 20;
// The octets that the kernel may read ahead of a program.
constexpr unsigned kReadAhead = 4 * kLargest;
// The memory for a request. Its head needs far less than is left.
constexpr size_t kMessage = kLargest + (64 << 10);
// Requests that are read in one turn of the loop.
constexpr int kAtOnce = 32;

using Pointer = FileSystem::RequestPointer;

// What libfuse gives back with each request.
struct Context {
  FileSystem* files;
  // The memory that the present request lies in.
  BufferRef* buffer;
  uint64_t first = 0;    // the number of the kernel's first request, FUSE_INIT
  uint32_t offered = 0;  // the capabilities that it offers
  int device = -1;
};

Context& ContextOf(fuse_req_t request) { return *static_cast<Context*>(fuse_req_userdata(request)); }
FileSystem& FilesOf(fuse_req_t request) { return *ContextOf(request).files; }
Pointer Own(fuse_req_t request) { return FilesOf(request).Own(request); }

void Initialize(void* context, fuse_conn_info* connection) {
  const auto want = [connection](unsigned capability, bool wanted) {
    if (wanted && (connection->capable & capability)) {
      connection->want |= capability;
    } else {
      connection->want &= ~capability;
    }
  };
  const FileSystemOptions& options = static_cast<Context*>(context)->files->options();
  connection->max_write = kLargest;
  connection->max_readahead = kReadAhead;
  connection->max_background = 64;
  connection->congestion_threshold = 48;
  want(FUSE_CAP_ASYNC_READ, true);
  want(FUSE_CAP_ASYNC_DIO, true);
  want(FUSE_CAP_READDIRPLUS, true);
  want(FUSE_CAP_READDIRPLUS_AUTO, true);
  want(FUSE_CAP_AUTO_INVAL_DATA, true);
  want(FUSE_CAP_CACHE_SYMLINKS, true);
  want(FUSE_CAP_POSIX_LOCKS, options.posix_locks);
  want(FUSE_CAP_FLOCK_LOCKS, options.flock_locks);
  // The kernel sets the size by a request of its own when a program opens a file with O_TRUNC.
  want(FUSE_CAP_ATOMIC_O_TRUNC, false);
  // The kernel would be the only one to know the sizes of files, and other clients could not change them.
  want(FUSE_CAP_WRITEBACK_CACHE, false);
  // Requests are read into memory that goes to the network as it is.
  want(FUSE_CAP_SPLICE_READ, false);
  want(FUSE_CAP_SPLICE_WRITE, false);
  want(FUSE_CAP_SPLICE_MOVE, false);
}

// Capabilities that libfuse 3.14 does not tell the kernel of.
constexpr uint32_t kMoreCapabilities =
    // Requests for names in one directory need not wait for one another.
    FUSE_PARALLEL_DIROPS |
    // The server takes the set-user-id and set-group-id bits, and capabilities, away when another user writes,
    // truncates or changes the owner. Otherwise the kernel would ask for the attribute security.capability before each
    // write.
    FUSE_HANDLE_KILLPRIV | FUSE_HANDLE_KILLPRIV_V2;

// Sends a reply of libfuse, on any thread.
ssize_t Send(int, iovec* parts, int count, void* context) {
  const Context& at = *static_cast<Context*>(context);
  const auto& head = *static_cast<const fuse_out_header*>(parts[0].iov_base);
  const bool has_flags = count > 1 && parts[1].iov_len >= offsetof(fuse_init_out, flags) + sizeof(uint32_t);
  if (head.unique == at.first && at.first != 0 && head.error == 0 && has_flags) {
    static_cast<fuse_init_out*>(parts[1].iov_base)->flags |= at.offered & kMoreCapabilities;
  }
  return ::writev(at.device, parts, count);
}

// libfuse wants this function, and does not call it: see Session::Device::Read().
ssize_t Receive(int device, void* buffer, size_t size, void*) { return ::read(device, buffer, size); }

constexpr fuse_custom_io kInputOutput{
    .writev = Send, .read = Receive, .splice_receive = nullptr, .splice_send = nullptr};

fuse_lowlevel_ops Operations() {
  fuse_lowlevel_ops ops{};
  ops.init = Initialize;
  ops.lookup = [](fuse_req_t r, fuse_ino_t parent, const char* name) {
    Spawn(FilesOf(r).Lookup(Own(r), parent, name));
  };
  ops.forget = [](fuse_req_t r, fuse_ino_t inode, uint64_t count) {
    FilesOf(r).Forget(inode, count);
    fuse_reply_none(r);
  };
  ops.forget_multi = [](fuse_req_t r, size_t count, fuse_forget_data* all) {
    for (size_t i = 0; i < count; ++i) FilesOf(r).Forget(all[i].ino, all[i].nlookup);
    fuse_reply_none(r);
  };
  ops.getattr = [](fuse_req_t r, fuse_ino_t inode, fuse_file_info*) { Spawn(FilesOf(r).GetAttributes(Own(r), inode)); };
  ops.setattr = [](fuse_req_t r, fuse_ino_t inode, struct stat* attributes, int to_set, fuse_file_info* info) {
    std::optional<fuse_file_info> file;
    if (info) file = *info;
    Spawn(FilesOf(r).SetAttributes(Own(r), inode, *attributes, to_set, file));
  };
  ops.readlink = [](fuse_req_t r, fuse_ino_t inode) { Spawn(FilesOf(r).ReadLink(Own(r), inode)); };
  ops.mknod = [](fuse_req_t r, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
    Spawn(FilesOf(r).MakeNode(Own(r), parent, name, mode, device));
  };
  ops.mkdir = [](fuse_req_t r, fuse_ino_t parent, const char* name, mode_t mode) {
    Spawn(FilesOf(r).MakeDirectory(Own(r), parent, name, mode));
  };
  ops.unlink = [](fuse_req_t r, fuse_ino_t parent, const char* name) {
    Spawn(FilesOf(r).Unlink(Own(r), parent, name));
  };
  ops.rmdir = [](fuse_req_t r, fuse_ino_t parent, const char* name) {
    Spawn(FilesOf(r).RemoveDirectory(Own(r), parent, name));
  };
  ops.symlink = [](fuse_req_t r, const char* target, fuse_ino_t parent, const char* name) {
    Spawn(FilesOf(r).MakeSymlink(Own(r), target, parent, name));
  };
  ops.rename = [](fuse_req_t r, fuse_ino_t from_parent, const char* from, fuse_ino_t to_parent, const char* to,
                  unsigned flags) { Spawn(FilesOf(r).Rename(Own(r), from_parent, from, to_parent, to, flags)); };
  ops.link = [](fuse_req_t r, fuse_ino_t inode, fuse_ino_t parent, const char* name) {
    Spawn(FilesOf(r).Link(Own(r), inode, parent, name));
  };
  ops.open = [](fuse_req_t r, fuse_ino_t inode, fuse_file_info* info) { Spawn(FilesOf(r).Open(Own(r), inode, *info)); };
  ops.create = [](fuse_req_t r, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* info) {
    Spawn(FilesOf(r).Create(Own(r), parent, name, mode, *info));
  };
  ops.read = [](fuse_req_t r, fuse_ino_t inode, size_t size, off_t offset, fuse_file_info* info) {
    Spawn(FilesOf(r).Read(Own(r), inode, size, static_cast<uint64_t>(offset), *info));
  };
  ops.write_buf = [](fuse_req_t r, fuse_ino_t inode, fuse_bufvec* data, off_t offset, fuse_file_info* info) {
    // Without splice, the data are in the memory of the request.
    const fuse_buf& buffer = data->buf[data->idx];
    const Bytes octets(static_cast<std::byte*>(buffer.mem) + data->off, buffer.size - data->off);
    Spawn(FilesOf(r).Write(Own(r), inode, static_cast<uint64_t>(offset), *ContextOf(r).buffer, octets, *info));
  };
  ops.flush = [](fuse_req_t r, fuse_ino_t inode, fuse_file_info* info) {
    Spawn(FilesOf(r).Flush(Own(r), inode, *info));
  };
  ops.release = [](fuse_req_t r, fuse_ino_t inode, fuse_file_info* info) {
    Spawn(FilesOf(r).Release(Own(r), inode, *info));
  };
  ops.fsync = [](fuse_req_t r, fuse_ino_t inode, int, fuse_file_info* info) {
    Spawn(FilesOf(r).Fsync(Own(r), inode, *info));
  };
  ops.opendir = [](fuse_req_t r, fuse_ino_t inode, fuse_file_info* info) {
    Spawn(FilesOf(r).OpenDirectoryAt(Own(r), inode, *info));
  };
  ops.readdir = [](fuse_req_t r, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) {
    Spawn(FilesOf(r).ReadDirectory(Own(r), size, static_cast<uint64_t>(offset), *info, false));
  };
  ops.readdirplus = [](fuse_req_t r, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) {
    Spawn(FilesOf(r).ReadDirectory(Own(r), size, static_cast<uint64_t>(offset), *info, true));
  };
  ops.releasedir = [](fuse_req_t r, fuse_ino_t, fuse_file_info* info) {
    Spawn(FilesOf(r).ReleaseDirectory(Own(r), *info));
  };
  // The server changes directories before it answers (RFC 1813 §4.8).
  ops.fsyncdir = [](fuse_req_t r, fuse_ino_t, int, fuse_file_info*) { fuse_reply_err(r, 0); };
  ops.statfs = [](fuse_req_t r, fuse_ino_t inode) { Spawn(FilesOf(r).GetRoom(Own(r), inode)); };
  ops.setxattr = [](fuse_req_t r, fuse_ino_t inode, const char* name, const char* value, size_t size, int flags) {
    const auto* const octets = reinterpret_cast<const std::byte*>(value);
    Spawn(FilesOf(r).SetXattr(Own(r), inode, name, std::vector<std::byte>(octets, octets + size), flags));
  };
  ops.getxattr = [](fuse_req_t r, fuse_ino_t inode, const char* name, size_t size) {
    Spawn(FilesOf(r).GetXattr(Own(r), inode, name, size));
  };
  ops.listxattr = [](fuse_req_t r, fuse_ino_t inode, size_t size) {
    Spawn(FilesOf(r).ListXattrs(Own(r), inode, size));
  };
  ops.removexattr = [](fuse_req_t r, fuse_ino_t inode, const char* name) {
    Spawn(FilesOf(r).RemoveXattr(Own(r), inode, name));
  };
  ops.access = [](fuse_req_t r, fuse_ino_t inode, int mask) { Spawn(FilesOf(r).CheckAccess(Own(r), inode, mask)); };
  ops.getlk = [](fuse_req_t r, fuse_ino_t inode, fuse_file_info* info, struct flock* lock) {
    Spawn(FilesOf(r).TestLock(Own(r), inode, *info, *lock));
  };
  ops.setlk = [](fuse_req_t r, fuse_ino_t inode, fuse_file_info* info, struct flock* lock, int waits) {
    Spawn(FilesOf(r).SetLock(Own(r), inode, *info, *lock, waits != 0));
  };
  ops.flock = [](fuse_req_t r, fuse_ino_t inode, fuse_file_info* info, int operation) {
    Spawn(FilesOf(r).Flock(Own(r), inode, *info, operation));
  };
  ops.fallocate = [](fuse_req_t r, fuse_ino_t inode, int mode, off_t offset, off_t length, fuse_file_info* info) {
    Spawn(
        FilesOf(r).Allocate(Own(r), inode, mode, static_cast<uint64_t>(offset), static_cast<uint64_t>(length), *info));
  };
  ops.copy_file_range = [](fuse_req_t r, fuse_ino_t from_inode, off_t from, fuse_file_info* from_info,
                           fuse_ino_t to_inode, off_t to, fuse_file_info* to_info, size_t length, int) {
    Spawn(FilesOf(r).CopyRange(Own(r), from_inode, static_cast<uint64_t>(from), *from_info, to_inode,
                               static_cast<uint64_t>(to), *to_info, length));
  };
  ops.lseek = [](fuse_req_t r, fuse_ino_t inode, off_t offset, int whence, fuse_file_info* info) {
    Spawn(FilesOf(r).Seek(Own(r), inode, static_cast<uint64_t>(offset), whence, *info));
  };
  return ops;
}

}  // namespace

// Reads requests when there are some.
class Session::Device final : public KernelCache {
 public:
  Device(Loop& loop, FileSystem& files, std::function<void()> ended)
      : loop_(loop), context_{.files = &files, .buffer = &buffer_}, ended_(std::move(ended)) {
    files.set_kernel_cache(this);
  }
  ~Device() override {
    context_.files->set_kernel_cache(nullptr);
    Unmount();
    if (session_) fuse_session_destroy(session_);
  }

  SetupResult<void> Mount(const std::string& directory, const SessionOptions& options);
  void Unmount() {
    if (std::exchange(mounted_, false)) fuse_session_unmount(session_);
  }

 private:
  // KernelCache
  void DropFile(uint64_t inode) override { Notify(inode, 0); }
  void DropAttributes(uint64_t inode) override { Notify(inode, -1); }

  void Notify(uint64_t inode, int64_t offset) const;
  void Wait();
  void Read();
  void HandleFirst(ConstBytes request);
  bool Refuse(ConstBytes request);
  void End();

  Loop& loop_;
  BufferRef buffer_;
  Context context_;
  const std::function<void()> ended_;
  fuse_session* session_ = nullptr;
  bool mounted_ = false;
  // The device. libfuse closes its own descriptor when it unmounts the tree, but programs may still use files that they
  // have open, and requests may still be answered.
  std::optional<asio::posix::stream_descriptor> descriptor_;
};

// Drops the attributes, and the octets from `offset` on, if it is not negative. libfuse has a function for this, which
// must not run while the loop unmounts.
void Session::Device::Notify(uint64_t inode, int64_t offset) const {
  struct {
    fuse_out_header header;
    fuse_notify_inval_inode_out inval;
  } notice{};
  notice.header.len = sizeof notice;
  notice.header.error = FUSE_NOTIFY_INVAL_INODE;
  notice.inval.ino = inode;
  notice.inval.off = offset;
  (void)!::write(context_.device, &notice, sizeof notice);
}

namespace {

// The kernel reads 128 KiB ahead of a program, each by a request. Only root may let it read more.
void RaiseReadAhead(const std::string& directory) {
  struct statx stat{};
  // Without a request for the attributes, which nobody would answer now.
  if (::statx(AT_FDCWD, directory.c_str(), AT_STATX_DONT_SYNC, 0, &stat) != 0) return;
  const std::string path = fmt::format("/sys/class/bdi/{}:{}/read_ahead_kb", stat.stx_dev_major, stat.stx_dev_minor);
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return;
  const std::string text = std::to_string(kReadAhead >> 10);
  (void)!::write(file.get(), text.data(), text.size());
}

}  // namespace

SetupResult<void> Session::Device::Mount(const std::string& directory, const SessionOptions& options) {
  std::vector<std::string> words = {"penstock", "-o", "fsname=" + options.source, "-o", "subtype=penstock"};
  for (const std::string& option : options.options) {
    words.emplace_back("-o");
    words.push_back(option);
  }
  if (context_.files->options().checks_modes) {
    words.emplace_back("-o");
    words.emplace_back("default_permissions");
  }
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  fuse_args arguments = FUSE_ARGS_INIT(static_cast<int>(pointers.size()), pointers.data());
  const fuse_lowlevel_ops operations = Operations();
  session_ = fuse_session_new(&arguments, &operations, sizeof operations, &context_);
  fuse_opt_free_args(&arguments);
  if (!session_) return std::unexpected(SetupError{directory + ": libfuse refuses an option", EINVAL});
  if (fuse_session_mount(session_, directory.c_str()) != 0) {
    return std::unexpected(SetupError{fmt::format("{}: cannot mount it by FUSE", directory), EPERM});
  }
  mounted_ = true;
  RaiseReadAhead(directory);
  if (fuse_session_custom_io(session_, &kInputOutput, fuse_session_fd(session_)) != 0) {
    return std::unexpected(SetupError{directory + ": libfuse has no memory", ENOMEM});
  }
  const int device = ::fcntl(fuse_session_fd(session_), F_DUPFD_CLOEXEC, 0);
  if (device < 0) return std::unexpected(SetupError{directory + ": " + DescribeErrno(errno), errno});
  ::fcntl(device, F_SETFL, ::fcntl(device, F_GETFL) | O_NONBLOCK);
  descriptor_.emplace(loop_.context(), device);
  context_.device = device;
  Wait();
  return {};
}

void Session::Device::Wait() {
  descriptor_->async_wait(asio::posix::stream_descriptor::wait_read, [this](const std::error_code& error) {
    if (error) return;
    Read();
  });
}

void Session::Device::Read() {
  for (int i = 0; i < kAtOnce; ++i) {
    // A WRITE keeps the memory.
    if (!buffer_.unique()) buffer_ = loop_.buffers().Allocate(kMessage);
    // Not by libfuse, which does not tell how much memory it expects.
    const ssize_t size = ::read(context_.device, buffer_->data(), buffer_->capacity());
    if (size < 0) {
      // ENOENT: the request was interrupted before it was read.
      if (errno == EINTR || errno == ENOENT) continue;
      if (errno == EAGAIN) break;
      if (errno != ENODEV) log::warn("FUSE: cannot read a request: {}", std::generic_category().message(errno));
      End();
      return;
    }
    const ConstBytes request = buffer_->bytes().first(static_cast<size_t>(size));
    if (!mounted_ && Refuse(request)) continue;
    HandleFirst(request);
    fuse_buf message{};
    message.mem = buffer_->data();
    message.size = request.size();
    fuse_session_process_buf(session_, &message);
    if (fuse_session_exited(session_)) {
      End();
      return;
    }
  }
  Wait();
}

// Takes what the kernel offers from its first request.
void Session::Device::HandleFirst(ConstBytes request) {
  fuse_in_header head{};
  fuse_init_in offer{};
  if (context_.first != 0 || request.size() < sizeof head) return;
  std::memcpy(&head, request.data(), sizeof head);
  const ConstBytes rest = request.subspan(sizeof head);
  if (head.opcode != FUSE_INIT || rest.size() < offsetof(fuse_init_in, flags2)) return;
  std::memcpy(&offer, rest.data(), std::min(rest.size(), sizeof offer));
  context_.first = head.unique;
  context_.offered = offer.flags;
}

// The tree has ended. Without an answer, a program that still has a file of it open would wait for the end of the
// process. Returns false for a signal to a program whose request is under way.
bool Session::Device::Refuse(ConstBytes request) {
  fuse_in_header head{};
  if (request.size() >= sizeof head) std::memcpy(&head, request.data(), sizeof head);
  if (head.opcode == FUSE_INTERRUPT) return false;
  if (head.opcode == FUSE_FORGET || head.opcode == FUSE_BATCH_FORGET) return true;
  const fuse_out_header reply{.len = sizeof reply, .error = -ENOTCONN, .unique = head.unique};
  (void)!::write(context_.device, &reply, sizeof reply);
  return true;
}

void Session::Device::End() {
  if (!mounted_) return;
  Unmount();
  ended_();
}

Session::Session(std::unique_ptr<Device> device) : device_(std::move(device)) {}
Session::~Session() = default;

SetupResult<std::unique_ptr<Session>> Session::Mount(Loop& loop, FileSystem& files, const std::string& directory,
                                                     const SessionOptions& options, std::function<void()> ended) {
  auto device = std::make_unique<Device>(loop, files, std::move(ended));
  PENSTOCK_CHECK(device->Mount(directory, options));
  return std::unique_ptr<Session>(new Session(std::move(device)));
}

void Session::Unmount() { device_->Unmount(); }

}  // namespace penstock::fuse
