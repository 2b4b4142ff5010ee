/**
 * @file
 * Open files.
 */
#ifndef PENSTOCK_FILE_HPP
#define PENSTOCK_FILE_HPP

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/attributes.hpp"
#include "penstock/detail/opened.hpp"
#include "penstock/detail/operation_state.hpp"
#include "penstock/detail/runtime_core.hpp"
#include "penstock/operation.hpp"
#include "penstock/penstock.h"

namespace penstock::inline v1 {

/** A range of octets of a file. */
struct LockRange {
  uint64_t offset = 0; /**< The first octet. */
  uint64_t length = 0; /**< The number of octets, also beyond the end of the file. Zero: to the end, wherever it is. */
};

/** A lock of a range of a file. The default is an exclusive lock of the whole file, without waiting. */
struct LockRequest {
  LockRange range{};        /**< The range. */
  bool exclusive = true;    /**< False: other owners may have shared locks. True: no other locks. */
  std::string_view owner{}; /**< Within this open file: who has the lock. Copied when the operation is made. */
  /** How long to wait for other owners. Zero: not at all. kNoLimit: without a limit. */
  std::chrono::milliseconds wait{0};
};

/** A lock that conflicts with another one. */
struct LockConflict {
  LockRange range{};      /**< Its range. */
  bool exclusive = false; /**< Its kind. */
};

/**
 * An open regular file, which Mount::OpenFile() makes. Any number of operations may be under way at the same time. They
 * keep the file open.
 *
 * The destructor closes the file when its last operation has ended. Before that, it makes what was written stable. It
 * blocks for that time, at most 10 seconds if the server does not answer, except in callbacks of a runtime. Errors are
 * lost: to learn whether the data are stable, use Close() or Sync().
 */
class File {
 public:
  /** Moves the file. The other object is empty afterwards: its operations fail with EBADF. */
  File(File&&) noexcept = default;
  /** Closes the file of this object as the destructor does, and moves the other one here. */
  File& operator=(File&&) noexcept = default;
  /** Closes the file. It blocks, except in callbacks of a runtime. */
  ~File() = default;

  /**
   * Makes what was written stable, as Sync() does, and closes the file, also if that fails. This object is empty
   * afterwards. Other operations of the file must have ended: otherwise the operation fails with EBUSY, and the file is
   * closed when the last of them has ended.
   *
   * Errors: those of Sync(), or of closing.
   */
  Operation<void> Close() { return detail::OpenedFile::Close(std::move(opened_)); }

  /**
   * Reads from the file. Reads of any size are divided into READs of the size that the server takes, several at a time.
   *
   * @param offset  Where in the file.
   * @param into    Receives the octets. It must stay valid until the operation has ended. After a failure its contents
   *     are undefined.
   * @return The number of octets that were read, fewer than `into` has room for only at the end of the file.
   */
  Operation<size_t> Read(uint64_t offset, std::span<std::byte> into) const {
    return Make<size_t>(
        detail::Nothing(),
        [offset, into](penstock_file* file, detail::Nothing&, const penstock_call* call) {
          return penstock_pread(file, into.data(), into.size(), offset, call);
        },
        [](detail::Nothing&, int64_t count) { return static_cast<size_t>(count); });
  }
  /** As above, into a text. */
  Operation<size_t> Read(uint64_t offset, std::span<char> into) const {
    return Read(offset, std::as_writable_bytes(into));
  }

  /**
   * Writes to the file: all octets, or the operation fails. Writes of any size are divided into WRITEs of the size that
   * the server takes, several at a time. The data may be lost if the server restarts before Sync() or Close() has
   * succeeded; those tell. If the file was opened with O_SYNC or O_DSYNC, the data are on stable storage when the
   * operation has succeeded. After a failure, a part of the octets may have been written.
   *
   * @param offset  Where in the file.
   * @param from    The octets. They must stay valid and unchanged until the operation has ended.
   */
  Operation<void> Write(uint64_t offset, std::span<const std::byte> from) const {
    return Make<void>(
        detail::Nothing(),
        [offset, from](penstock_file* file, detail::Nothing&, const penstock_call* call) {
          return penstock_pwrite(file, from.data(), from.size(), offset, call);
        },
        [](detail::Nothing&, int64_t) {});
  }
  /** As above, from a text, which must stay valid and unchanged until the operation has ended. */
  Operation<void> Write(uint64_t offset, std::string_view from) const {
    return Write(offset, std::as_bytes(std::span(from)));
  }

  /**
   * Waits until everything that was written to this open file, by operations that have ended, is on the server's stable
   * storage (RFC 1813 §3.3.21, RFC 8881 §18.3).
   *
   * Errors: EIO if the server has restarted and may have lost data that were written since the last success: write them
   * again. Each loss is told once.
   */
  Operation<void> Sync() const {
    return Make<void>(
        detail::Nothing(),
        [](penstock_file* file, detail::Nothing&, const penstock_call* call) { return penstock_fsync(file, call); },
        [](detail::Nothing&, int64_t) {});
  }

  /** Reads the attributes of the file. */
  Operation<Attributes> GetAttributes() const {
    return Make<Attributes>(
        penstock_attributes PENSTOCK_ATTRIBUTES_INIT,
        [](penstock_file* file, penstock_attributes& attributes, const penstock_call* call) {
          return penstock_fstat(file, &attributes, call);
        },
        [](const penstock_attributes& attributes, int64_t) { return detail::FromC(attributes); });
  }

  /** Sets the size of the file in octets: cuts it, or extends it by zeros. */
  Operation<void> SetLength(uint64_t length) const {
    return Make<void>(
        detail::Nothing(),
        [length](penstock_file* file, detail::Nothing&, const penstock_call* call) {
          return penstock_ftruncate(file, length, call);
        },
        [](detail::Nothing&, int64_t) {});
  }

  /**
   * Locks a range of the file (RFC 8881 §18.10). Locks are advisory. The locks of one owner conflict with those of
   * other owners, other open files and other clients. A new lock replaces older locks of its owner in the range. It is
   * released by Unlock() and when the file is closed. An operation that is cancelled after the server has granted the
   * lock gives it back.
   *
   * Errors: EAGAIN if others have the range locked; ENOLCK once after the server has forgotten the owner's locks,
   * because the lease has expired or another client has got a lock; ENOLCK also if a server of version 3 has no lock
   * manager (NLM).
   */
  Operation<void> Lock(const LockRequest& request = {}) const { return MakeLockOperation(&penstock_lock, request); }

  /** Releases the locks of an owner in a range, if there are any (RFC 8881 §18.12). */
  Operation<void> Unlock(LockRange range = {}, std::string_view owner = {}) const {
    LockRequest request;
    request.range = range;
    request.owner = owner;
    return MakeLockOperation(&penstock_unlock, request);
  }

  /**
   * Returns a lock that conflicts with `request`, or nothing if that lock is available now (RFC 8881 §18.11). Does not
   * lock.
   */
  Operation<std::optional<LockConflict>> TestLock(const LockRequest& request = {}) const {
    using Conflict = std::optional<LockConflict>;
    if (detail::HasNul({request.owner})) return detail::Refuse<Conflict>(detail::NulError());
    return Make<Conflict>(
        penstock_lock_request PENSTOCK_LOCK_REQUEST_INIT,
        [lock = ToC(request), owner = std::string(request.owner)](penstock_file* file, penstock_lock_request& conflict,
                                                                  const penstock_call* call) mutable {
          lock.owner = owner.c_str();
          return penstock_test_lock(file, &lock, &conflict, call);
        },
        [](const penstock_lock_request& conflict, int64_t number) {
          if (number == 0) return Conflict();
          return Conflict(LockConflict{{conflict.offset, conflict.length}, conflict.exclusive != 0});
        });
  }

  /** Tells whether this object has a file. */
  bool is_open() const noexcept { return opened_ && opened_->is_open(); }

  /** Returns the file for functions of the C API, or null. It belongs to this object: do not close it. */
  penstock_file* handle() const noexcept { return opened_ ? opened_->handle : nullptr; }

  /** @cond internal */
  explicit File(std::shared_ptr<detail::OpenedFile> opened) noexcept : opened_(std::move(opened)) {}
  /** @endcond */

 private:
  template <class T, class Out, class BeginFunction, class TakeFunction>
  Operation<T> Make(Out out, BeginFunction begin, TakeFunction take) const {
    if (!opened_) return detail::Refuse<T>({EBADF, "the file is closed"});
    return detail::MakeOperation<T>(
        opened_->runtime(), opened_, std::move(out),
        [opened = opened_.get(), begin = std::move(begin)](Out& results, const penstock_call* call) mutable -> int64_t {
          return begin(opened->handle, results, call);
        },
        std::move(take));
  }

  static penstock_lock_request ToC(const LockRequest& from) noexcept {
    penstock_lock_request to = PENSTOCK_LOCK_REQUEST_INIT;
    to.offset = from.range.offset;
    to.length = from.range.length;
    to.exclusive = from.exclusive ? 1 : 0;
    to.wait_ms = detail::ToMilliseconds(from.wait);
    return to;
  }
  Operation<void> MakeLockOperation(int (*function)(penstock_file*, const penstock_lock_request*, const penstock_call*),
                                    const LockRequest& request) const {
    if (detail::HasNul({request.owner})) return detail::Refuse<void>(detail::NulError());
    return Make<void>(
        detail::Nothing(),
        [function, lock = ToC(request), owner = std::string(request.owner)](penstock_file* file, detail::Nothing&,
                                                                            const penstock_call* call) mutable {
          lock.owner = owner.c_str();
          return function(file, &lock, call);
        },
        [](detail::Nothing&, int64_t) {});
  }

  std::shared_ptr<detail::OpenedFile> opened_;
};

}  // namespace penstock::inline v1

#endif
