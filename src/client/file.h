// An open regular file of a mount.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/cancellation.h"
#include "base/task.h"
#include "base/timer.h"
#include "client/error.h"
#include "client/node.h"

namespace penstock::client {

// The write verifier of WRITE and COMMIT replies. If it changes, the server has restarted and may have lost uncommitted
// data.
using Verifier = std::array<std::byte, 8>;

enum class Access : uint8_t { kRead = 1, kWrite = 2, kBoth = 3 };

// What CreateFile() does with a regular file that has the name already.
enum class CreateMode : uint8_t {
  kTruncate,   // truncates it to zero octets
  kKeep,       // leaves it as it is
  kExclusive,  // fails with Status::kExists, also if the name belongs to another object
};

enum class LockKind : uint8_t { kShared, kExclusive };
// A range of octets of a file. It may reach beyond the end of the file. The default is the whole file.
struct ByteRange {
  static constexpr uint64_t kToEnd = ~uint64_t{0};
  uint64_t offset = 0;
  uint64_t length = kToEnd;
  bool operator==(const ByteRange&) const = default;
};
// A lock of another owner that conflicts with a request.
struct LockConflict {
  ByteRange range;
  LockKind kind = LockKind::kShared;
};

// An open regular file. Calls may run at the same time. The mount outlives the file.
class File {
 public:
  virtual ~File() = default;

  const Node& node() const { return node_; }
  // The name in errors.
  const std::string& name() const { return name_; }

  struct ReadReply {
    uint32_t count = 0;
    bool eof = false;
  };
  // Reads up to into.size() octets, but at most sizes().read, into `into`. The transport places them there directly if
  // it can.
  Task<Result<ReadReply>> Read(uint64_t offset, Bytes into);
  struct FetchReply {
    // Either the beginning of `into`, borrowed, or memory that the slice keeps.
    Slice octets;
    bool eof = false;

    // Copies the octets to `into`, unless they are there.
    ReadReply CopyTo(Bytes into) const;
  };
  // The same, without a copy: the octets lie where the transport has received them, in `into` or in memory of its own.
  virtual Task<Result<FetchReply>> Fetch(uint64_t offset, Bytes into) = 0;

  enum class Stability : uint8_t { kUnstable, kStable };
  struct WriteReply {
    uint32_t count = 0;
    Verifier verifier{};
    bool stable = false;  // the octets are on stable storage
  };
  // Writes at most sizes().write octets. Unless the reply says that they are stable, call Commit() afterwards, and
  // write again if its verifier differs. A server should obey kStable, which saves the COMMIT of a single WRITE. `from`
  // must stay valid until the task is done.
  virtual Task<Result<WriteReply>> Write(uint64_t offset, ConstBytes from,
                                         Stability stability = Stability::kUnstable) = 0;
  virtual Task<Result<Verifier>> Commit() = 0;

  // Truncates the file, or extends it with zeros. Unlike Mount::SetAttributes(), this needs only the right to write
  // that the file was opened with.
  virtual Task<Result<void>> SetSize(uint64_t size) = 0;
  // The attributes that the file had when it was opened; its time of the last access may be older. Absent: the server
  // has not given them.
  virtual std::optional<Attributes> attributes_at_open() const { return std::nullopt; }

  // ---- version 4.2; in others Status::kNotSupported ----

  enum class Content : uint8_t { kData, kHole };
  // Returns the offset of the next data or hole at or behind `offset` (RFC 7862 §15.11). There is a hole at the end of
  // the file. Returns nothing if no data follows. An offset at or behind the end is an error, ENXIO.
  virtual Task<Result<std::optional<uint64_t>>> Seek(uint64_t offset, Content content);
  // Gives the range storage, so that writes to it do not fail for lack of space, and extends the file to its end.
  virtual Task<Result<void>> Allocate(uint64_t offset, uint64_t length);
  // Makes the range a hole. Does not change the size.
  virtual Task<Result<void>> Deallocate(uint64_t offset, uint64_t length);

  struct CopyReply {
    uint64_t count = 0;  // octets
    // Absent: the octets are on stable storage.
    std::optional<Verifier> verifier{};
  };
  // The server copies a range of `source`, a file of the same mount, into this file (RFC 7862 §15.2). It may copy less
  // than `length`, and answers when that is done. A range that reaches beyond the end of the source is an error,
  // EINVAL. Otherwise the same rules as for Write().
  virtual Task<Result<CopyReply>> CopyFrom(File& source, uint64_t from, uint64_t to, uint64_t length);
  // The same for storage that both files share until one of them is written (RFC 7862 §15.13). Offsets and `length` are
  // multiples of the file system's blocks; a `length` of zero means up to the end of the source.
  virtual Task<Result<void>> CloneFrom(File& source, uint64_t from, uint64_t to, uint64_t length);

  // Advisory byte-range locks. In version 3 the server's lock manager (NLM) has them. `owner` names a lock-owner within
  // this open file. The locks of one owner conflict with those of other owners and of other open files. A new lock
  // replaces older locks of its owner in the range. A lock needs the access of its kind.
  //
  // After a restart of the server the client reclaims the locks together with the file. If that fails, for example
  // because the lease has expired, or in version 3 because another client has got the lock, the owner's next call fails
  // once with Status::kExpired. Until then all reads and writes of the file fail in the same way, because another
  // client may have locked and changed it. After the error the owner can lock again.
  //
  // Fails with Status::kDenied if the lock is not available before `patience` has passed, or before `impatience`, which
  // may be null and outlives the call, is cancelled. A request that is under way then is not cancelled.
  virtual Task<Result<void>> Lock(std::string owner, ByteRange range, LockKind kind,
                                  Duration patience = Duration::zero(), Cancellation* impatience = nullptr) = 0;
  // Opens the file for more, so that an owner who has shared locks can get exclusive ones, and the other way round. The
  // locks stay. `now`: the file with the name that it has now, because minor version 0 opens files by names. If the
  // name leads elsewhere all the same, it fails with Status::kNotSupported.
  virtual Task<Result<void>> Widen(Node now);
  // Succeeds also if the owner has not locked the range.
  virtual Task<Result<void>> Unlock(std::string owner, ByteRange range) = 0;
  // Returns a conflicting lock, or nothing if the lock is available now.
  virtual Task<Result<std::optional<LockConflict>>> TestLock(std::string owner, ByteRange range, LockKind kind) = 0;

  // Also releases the locks. Call it once, when no other call is under way. Without it the server keeps the file open
  // until the mount ends.
  virtual Task<Result<void>> Close() = 0;

 protected:
  File(Node node, std::string_view name) : node_(std::move(node)), name_(name) {}

  // Makes the error for a reply that contradicts itself.
  Error Contradiction(std::string_view operation) const;
  std::unexpected<Error> NotSupported() const { return std::unexpected(ErrorOf(Status::kNotSupported, name_)); }

 private:
  const Node node_;
  const std::string name_;
};

}  // namespace penstock::client
