// Data of one file that programs have written, and that the server does not hold safely yet. A write is done when its
// octets are in memory. They go to the server in large WRITEs, several at a time, and stay in memory until COMMIT says
// that they are on stable storage: if the server restarts before, they are written again (RFC 1813 §4.11).
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "base/buffer.h"
#include "base/loop.h"
#include "base/signal.h"
#include "base/task.h"
#include "client/file.h"

namespace penstock::fuse {

class WriteBehind;

// The memory that all files of a mount use for such data. Belongs to the loop.
class WriteMemory {
 public:
  explicit WriteMemory(size_t most) : most_(most) {}
  size_t used() const { return used_; }

 private:
  friend WriteBehind;
  const size_t most_;
  size_t used_ = 0;
  std::unordered_set<WriteBehind*> files_;  // those that have such data
  Signal freed_;
};

// A range of octets that are being written.
struct DirtyRange {
  uint64_t number = 0;  // in the order of the writes
  uint64_t offset = 0;
  BufferRef buffer;
  std::byte* octets = nullptr;
  size_t size = 0;
  size_t capacity = 0;  // of `octets`
  size_t memory = 0;    // of `buffer`
  enum class State : uint8_t { kFilling, kSending, kUnstable, kGone } state = State::kFilling;
  std::optional<client::Verifier> verifier{};
  bool mixed = false;   // several verifiers
  bool alone = false;   // no other range needs a COMMIT: the WRITE itself is to be stable
  bool stable = false;  // the server says so
  std::shared_ptr<client::File> file;

  uint64_t end() const { return offset + size; }
  bool Overlaps(uint64_t from, uint64_t to) const { return offset < to && from < end(); }
};

// How many failures an open file has been told of. Each open file is told each failure once, whoever else has been told
// of it: a child that closes the file by ending does not take the failure from its parent.
using FailuresTold = uint64_t;

// Belongs to the loop. Held by shared_ptr. It must be clean() when the last owner releases it.
class WriteBehind : public std::enable_shared_from_this<WriteBehind> {
 public:
  // `loop` and `memory` outlive this object. `handle_loss` is called when data of a program are lost.
  WriteBehind(Loop& loop, WriteMemory& memory, uint32_t largest_write, std::function<void()> handle_loss);
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  // Takes `octets`, which lie in `buffer`. Waits while the mount has too much of such data, unless this file has none.
  // `file` is open for writing; it stays open until Settle() has ended. Returns an earlier failure that is not among
  // `told`, as Commit() does, and then takes nothing.
  Task<client::Result<void>> Write(std::shared_ptr<client::File> file, uint64_t offset, BufferRef buffer, Bytes octets,
                                   const FailuresTold& told);
  // Sends all data that was written before the call, and waits until the server has it. Does not tell failures.
  Task<void> Send();
  // The same, and waits until it is on stable storage, or is lost: nothing of it is kept. Does not tell failures.
  Task<void> Settle();
  // The same. Returns a failure that is not among `told`: then data is lost. The caller says by HandleTold() that it
  // has told a program.
  Task<client::Result<void>> Commit(const FailuresTold& told);

  // For a file that is being opened: all failures but one that no program has been told of.
  FailuresTold failures() const { return failure_ && !was_told_ ? failures_ - 1 : failures_; }
  // Returns a failure that is not among `told`.
  client::Result<void> Failure(FailuresTold told) const;
  // A program has been told of the last failure.
  void HandleTold() { was_told_ = true; }
  // The same, and its open file is not told again.
  void HandleTold(FailuresTold& told) {
    told = failures_;
    HandleTold();
  }

  // The data that overlap a range, for Overlay(). They stay valid although the server gets the data meanwhile.
  using Ranges = std::vector<std::shared_ptr<const DirtyRange>>;
  Ranges Within(uint64_t offset, size_t size) const;
  // Puts the octets of ranges over those that a READ from `offset` on has given, `count` of them; `before` are those of
  // Within() before the READ was sent. Zeros fill the rest of a hole in front of a range. Returns the new count.
  size_t Overlay(const Ranges& before, uint64_t offset, Bytes into, size_t count) const;

  bool clean() const { return ranges_.empty(); }
  // The offset behind the last octet that the server may not have yet. Zero: there is none.
  uint64_t unsent_end() const;

 private:
  using Range = std::shared_ptr<DirtyRange>;

  bool Append(const client::File& file, uint64_t offset, ConstBytes octets);
  void Add(std::shared_ptr<client::File> file, uint64_t offset, BufferRef buffer, Bytes octets);
  void Begin(const Range& range);
  void BeginFilling();
  Task<void> SendRange(std::shared_ptr<WriteBehind> self, Range range);
  Task<client::Result<void>> WriteAll(DirtyRange& range);
  bool MustWait(const DirtyRange& range) const;
  bool IsUnsent(uint64_t up_to) const;
  void Remove(const Range& range);
  Task<client::Result<void>> CommitUpTo(uint64_t number);
  Task<void> WriteAgain();
  void CommitSoon();
  Task<void> CommitInBackground(std::shared_ptr<WriteBehind> self);
  void HandleFailure(client::Error error);

  Loop& loop_;
  WriteMemory& memory_;
  const uint32_t largest_write_;
  const std::function<void()> handle_loss_;
  std::list<Range> ranges_;  // in the order of their numbers
  size_t used_ = 0;          // octets of memory
  uint64_t last_number_ = 0;
  size_t sending_ = 0;
  bool committing_ = false;
  bool writing_again_ = false;
  bool commits_in_background_ = false;
  FailuresTold failures_ = 0;
  std::optional<client::Error> failure_;  // the last one
  bool was_told_ = false;                 // the last one, to any program
  Signal changed_;
  const std::unique_ptr<Timer> idle_;
};

}  // namespace penstock::fuse
