#include "fuse/write_behind.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace penstock::fuse {
namespace {

using State = DirtyRange::State;
using client::Result;
using Stability = client::File::Stability;

// WRITEs of one file at the same time.
constexpr size_t kMostSending = 16;
// Ranges that wait for more octets.
constexpr size_t kMostFilling = 16;
// The memory for a range that continues no other.
constexpr size_t kSmallRange = 64 << 10;
// The memory of a request is kept if at least one octet in so many is data.
constexpr size_t kLeastUse = 4;
// A range that gets no more octets is sent after this time.
constexpr Duration kIdle = std::chrono::milliseconds(500);
// How often data are written again, because the server restarts each time.
constexpr int kMostPasses = 10;

}  // namespace

WriteBehind::WriteBehind(Loop& loop, WriteMemory& memory, uint32_t largest_write, std::function<void()> handle_loss)
    : loop_(loop),
      memory_(memory),
      largest_write_(largest_write),
      handle_loss_(std::move(handle_loss)),
      idle_(loop.MakeTimer([this] { BeginFilling(); })) {}

WriteBehind::~WriteBehind() { assert(ranges_.empty()); }

void WriteBehind::HandleFailure(client::Error error) {
  handle_loss_();
  // Nobody has been told of the last one: all open files will be.
  if (failure_ && !was_told_) return;
  log::warn("{}: data that a program has written are lost", error.message);
  failure_ = std::move(error);
  was_told_ = false;
  ++failures_;
}

Result<void> WriteBehind::Failure(FailuresTold told) const {
  if (told == failures_) return {};
  return std::unexpected(*failure_);
}

// ---- writes ----

Task<Result<void>> WriteBehind::Write(std::shared_ptr<client::File> file, uint64_t offset, BufferRef buffer,
                                      Bytes octets, const FailuresTold& told) {
  const std::shared_ptr<WriteBehind> self = shared_from_this();
  while (told == failures_ && used_ > 0 && memory_.used_ + octets.size() > memory_.most_) {
    for (WriteBehind* const each : memory_.files_) each->CommitSoon();
    co_await memory_.freed_;
  }
  if (told != failures_) co_return Failure(told);
  if (!Append(*file, offset, octets)) Add(std::move(file), offset, std::move(buffer), octets);
  idle_->ExpireAfter(kIdle);
  co_return Result<void>();
}

// Adds the octets to the last range if they continue it, or replaces octets of it.
bool WriteBehind::Append(const client::File& file, uint64_t offset, ConstBytes octets) {
  if (ranges_.empty()) return false;
  const Range& last = ranges_.back();
  if (last->state != State::kFilling || last->file.get() != &file) return false;
  if (offset < last->offset || offset > last->end()) return false;
  const size_t at = offset - last->offset;
  if (at + octets.size() > last->capacity) return false;
  CopyBytes(Bytes(last->octets + at, octets.size()), octets);
  last->size = std::max(last->size, at + octets.size());
  if (last->size == last->capacity) Begin(last);
  return true;
}

void WriteBehind::Add(std::shared_ptr<client::File> file, uint64_t offset, BufferRef buffer, Bytes octets) {
  const bool continues = !ranges_.empty() && ranges_.back()->end() == offset;
  auto range = std::make_shared<DirtyRange>();
  range->number = ++last_number_;
  range->offset = offset;
  range->size = octets.size();
  range->file = std::move(file);
  const size_t least = continues ? largest_write_ : std::min<size_t>(kSmallRange, largest_write_);
  if (octets.size() >= least && octets.size() >= buffer->capacity() / kLeastUse) {
    range->buffer = std::move(buffer);
    range->octets = octets.data();
    range->capacity = range->size;
  } else {
    range->capacity = std::max(least, octets.size());
    range->buffer = loop_.buffers().Allocate(range->capacity);
    range->octets = range->buffer->data();
    CopyBytes(range->buffer->bytes(), octets);
  }
  range->memory = range->buffer->capacity();
  used_ += range->memory;
  memory_.used_ += range->memory;
  size_t filling = 0;
  for (const Range& each : ranges_) {
    if (each->state != State::kFilling) continue;
    // These octets replace some of an earlier range, which must reach the server first.
    if (each->Overlaps(offset, offset + octets.size()) || ++filling >= kMostFilling) Begin(each);
  }
  ranges_.push_back(range);
  memory_.files_.insert(this);
  if (range->size == range->capacity) Begin(range);
}

// ---- sending ----

void WriteBehind::Begin(const Range& range) {
  range->state = State::kSending;
  // A range that octets were added to may have grown over an earlier one.
  for (const Range& each : ranges_) {
    const bool is_earlier = each->number < range->number && each->Overlaps(range->offset, range->end());
    if (is_earlier && each->state == State::kFilling) Begin(each);
  }
  Spawn(SendRange(shared_from_this(), range));
}

void WriteBehind::BeginFilling() {
  for (const Range& each : ranges_) {
    if (each->state == State::kFilling) Begin(each);
  }
}

// A range waits for earlier ones that it overlaps, because the server may execute WRITEs in any order.
bool WriteBehind::MustWait(const DirtyRange& range) const {
  if (sending_ >= kMostSending || writing_again_) return true;
  return std::ranges::any_of(ranges_, [&](const Range& each) {
    return each->number < range.number && each->state == State::kSending && each->Overlaps(range.offset, range.end());
  });
}

Task<void> WriteBehind::SendRange(std::shared_ptr<WriteBehind>, Range range) {
  // The caller goes through the ranges.
  co_await NextTurn(loop_);
  while (MustWait(*range)) co_await changed_;
  ++sending_;
  Result<void> written = co_await WriteAll(*range);
  --sending_;
  if (written) {
    range->state = State::kUnstable;
    // So that later writes need not wait for memory.
    if (memory_.used_ > memory_.most_ / 2) CommitSoon();
  } else {
    HandleFailure(std::move(written).error());
    Remove(range);
  }
  changed_.Notify();
}

Task<Result<void>> WriteBehind::WriteAll(DirtyRange& range) {
  range.verifier.reset();
  range.mixed = false;
  range.stable = true;
  const Stability stability = range.alone && range.size <= largest_write_ ? Stability::kStable : Stability::kUnstable;
  for (size_t at = 0; at < range.size;) {
    const ConstBytes rest(range.octets + at, range.size - at);
    PENSTOCK_CO_TRY(const client::File::WriteReply reply,
                    co_await range.file->Write(range.offset + at, rest, stability));
    range.stable = range.stable && reply.stable;
    if (range.verifier && *range.verifier != reply.verifier) range.mixed = true;
    range.verifier = reply.verifier;
    at += reply.count;
  }
  co_return Result<void>();
}

void WriteBehind::Remove(const Range& range) {
  range->state = State::kGone;
  range->file.reset();
  used_ -= range->memory;
  memory_.used_ -= range->memory;
  const Range keep = range;  // it may be the element of the list
  ranges_.remove(keep);
  if (ranges_.empty()) memory_.files_.erase(this);
  memory_.freed_.Notify();
}

bool WriteBehind::IsUnsent(uint64_t up_to) const {
  return std::ranges::any_of(ranges_, [&](const Range& each) {
    return each->number <= up_to && (each->state == State::kSending || each->state == State::kFilling);
  });
}

Task<void> WriteBehind::Send() {
  const std::shared_ptr<WriteBehind> self = shared_from_this();
  const uint64_t up_to = last_number_;
  BeginFilling();
  while (IsUnsent(up_to)) co_await changed_;
}

// ---- stable storage ----

Task<void> WriteBehind::Settle() {
  const std::shared_ptr<WriteBehind> self = shared_from_this();
  Result<void> committed = co_await CommitUpTo(last_number_);
  if (!committed) HandleFailure(std::move(committed).error());
}

Task<Result<void>> WriteBehind::Commit(const FailuresTold& told) {
  co_await Settle();
  co_return Failure(told);
}

Task<Result<void>> WriteBehind::CommitUpTo(uint64_t number) {
  for (int passes = 0; passes < kMostPasses; ++passes) {
    if (ranges_.size() == 1) ranges_.front()->alone = true;
    BeginFilling();
    while (committing_ || IsUnsent(number)) co_await changed_;
    std::vector<Range> unstable;
    for (const Range& each : ranges_) {
      if (each->state == State::kUnstable) unstable.push_back(each);
    }
    if (unstable.empty() || unstable.front()->number > number) co_return Result<void>();
    // A server may store data at once that it need not. They stay here until all are stable: if it loses earlier ones,
    // those that overlap them must be written again as well.
    if (std::ranges::all_of(unstable, [](const Range& each) { return each->stable; })) {
      for (const Range& each : unstable) Remove(each);
      continue;
    }
    committing_ = true;
    const std::shared_ptr<client::File> file = unstable.back()->file;
    auto committed = co_await file->Commit();
    const auto holds = [&](const Range& each) {
      return each->stable || (each->verifier == *committed && !each->mixed);
    };
    if (!committed || std::ranges::all_of(unstable, holds)) {
      for (const Range& each : unstable) Remove(each);
    } else {
      co_await WriteAgain();
    }
    committing_ = false;
    changed_.Notify();
    if (!committed) co_return std::unexpected(std::move(committed).error());
  }
  while (committing_) co_await changed_;
  // What is left is lost. Its file may be closed next, and with it the mount.
  std::vector<Range> left;
  for (const Range& each : ranges_) {
    if (each->number <= number && each->state == State::kUnstable) left.push_back(each);
  }
  if (left.empty()) co_return Result<void>();
  for (const Range& each : left) Remove(each);
  changed_.Notify();
  co_return std::unexpected(client::Error{"the server restarts again and again, and loses data", std::nullopt, EIO});
}

// The server has restarted, and may have lost data. All ranges are written again, also later ones that it has: they may
// overlap earlier ones.
Task<void> WriteBehind::WriteAgain() {
  writing_again_ = true;
  while (sending_ > 0) co_await changed_;
  std::vector<Range> unstable;
  for (const Range& each : ranges_) {
    if (each->state == State::kUnstable) unstable.push_back(each);
  }
  for (const Range& each : unstable) {
    Result<void> written = co_await WriteAll(*each);
    if (written) continue;
    HandleFailure(std::move(written).error());
    Remove(each);
  }
  writing_again_ = false;
}

void WriteBehind::CommitSoon() {
  if (clean() || std::exchange(commits_in_background_, true)) return;
  Spawn(CommitInBackground(shared_from_this()));
}

Task<void> WriteBehind::CommitInBackground(std::shared_ptr<WriteBehind>) {
  co_await NextTurn(loop_);
  Result<void> committed = co_await CommitUpTo(last_number_);
  if (!committed) HandleFailure(std::move(committed).error());
  commits_in_background_ = false;
  memory_.freed_.Notify();
}

// ---- reading ----

WriteBehind::Ranges WriteBehind::Within(uint64_t offset, size_t size) const {
  Ranges within;
  for (const Range& each : ranges_) {
    if (each->Overlaps(offset, offset + size)) within.push_back(each);
  }
  return within;
}

size_t WriteBehind::Overlay(const Ranges& before, uint64_t offset, Bytes into, size_t count) const {
  Ranges all = before;
  for (const Range& each : ranges_) {
    const bool is_new = std::ranges::find(before, each) == before.end();
    if (is_new && each->Overlaps(offset, offset + into.size())) all.push_back(each);
  }
  std::ranges::sort(all, {}, [](const auto& each) { return each->number; });
  for (const auto& each : all) {
    const uint64_t from = std::max(each->offset, offset);
    const uint64_t to = std::min(each->end(), offset + into.size());
    const size_t at = from - offset;
    if (at > count) std::memset(into.data() + count, 0, at - count);
    CopyBytes(into.subspan(at), ConstBytes(each->octets + (from - each->offset), to - from));
    count = std::max<size_t>(count, to - offset);
  }
  return count;
}

uint64_t WriteBehind::unsent_end() const {
  uint64_t end = 0;
  for (const Range& each : ranges_) {
    if (each->state == State::kFilling || each->state == State::kSending) end = std::max(end, each->end());
  }
  return end;
}

}  // namespace penstock::fuse
