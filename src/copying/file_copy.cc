#include "copying/file_copy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/result.h"
#include "client/pieces.h"

namespace penstock::copying {
namespace {

constexpr uint64_t kSmall = 256 << 10;
// Zeros of this size or more at such an offset become a hole.
constexpr uint64_t kHole = 64 << 10;
constexpr int kMostPasses = 5;

std::unexpected<Error> Shorter(uint64_t size, uint64_t now) {
  return std::unexpected(Error{fmt::format("the source became shorter while it was copied: {} octets when the copy "
                                           "began, {} at most now",
                                           size, now),
                               std::nullopt});
}

std::unexpected<Error> Cancelled() { return std::unexpected(Error{"cancelled", std::nullopt, ECANCELED}); }

bool IsZero(ConstBytes octets) {
  return octets.empty() ||
         (octets[0] == std::byte{0} && std::memcmp(octets.data(), octets.data() + 1, octets.size() - 1) == 0);
}

// Whether the file has fewer blocks than its size needs.
bool LooksSparse(const Attributes& attributes) {
  constexpr uint64_t kBlock = 4096;
  return attributes.size > kBlock && attributes.used < attributes.size / kBlock * kBlock;
}

NewFile NewFileFor(const Options& options, const FileToCopy& file, const Attributes& source) {
  NewFile made;
  made.attributes = KeptAttributes(options, source);
  // Until the data are complete, a file whose mode is kept belongs to its owner alone.
  made.mode = options.keep_modes ? 0600 : source.mode & 0777;
  if (file.replaces && !options.keep_modes) made.like = file.name;
  return made;
}

// Returns the octets of the range. They lie in memory that the slice keeps.
Task<Result<Slice>> ReadFully(Run& run, File& file, Extent range) {
  const BufferRef buffer = run.loop.buffers().Allocate(range.size());
  const Bytes into = buffer->bytes().first(range.size());
  for (size_t done = 0; done < into.size();) {
    const Bytes rest = into.subspan(done);
    PENSTOCK_CO_TRY(Slice octets, co_await file.Read(range.begin + done, rest));
    if (octets.empty()) co_return Shorter(file.attributes().size, range.begin + done);
    if (octets.owner() && octets.size() == into.size()) co_return octets;
    if (octets.data() != rest.data()) CopyBytes(rest, octets.bytes());
    done += octets.size();
  }
  co_return Slice(buffer, into);
}

Task<Result<void>> WriteFully(File& file, ConstBytes from, uint64_t offset) {
  for (size_t done = 0; done < from.size();) {
    PENSTOCK_CO_TRY(const uint32_t count, co_await file.Write(offset + done, from.subspan(done)));
    done += count;
  }
  co_return Result<void>();
}

// Compares a range of two files.
Task<Result<bool>> Compare(Run& run, File& one, File& other, Extent range) {
  const Budget::Share share =
      co_await run.memory.Take((one.buffers_per_read() + other.buffers_per_read()) * range.size());
  PENSTOCK_CO_TRY(const Slice first, co_await ReadFully(run, one, range));
  PENSTOCK_CO_TRY(const Slice second, co_await ReadFully(run, other, range));
  co_return std::memcmp(first.data(), second.data(), range.size()) == 0;
}

Task<Result<bool>> CompareAll(Run& run, File& one, File& other, uint64_t size) {
  bool same = true;
  const auto compare = [&](uint64_t offset, uint32_t count) -> Task<Result<void>> {
    if (!same) co_return Result<void>();
    if (run.stopping) co_return Cancelled();
    PENSTOCK_CO_TRY(const bool equal, co_await Compare(run, one, other, {offset, offset + count}));
    same = same && equal;
    co_return Result<void>();
  };
  PENSTOCK_CO_CHECK(co_await client::MovePieces(size, kPiece, run.options.in_flight, compare));
  co_return same;
}

// Opens two files and compares their contents.
Task<Result<bool>> OpenAndCompare(Run& run, Directory& one, const Entry& first, Directory& other, const Entry& second,
                                  bool reads_back) {
  PENSTOCK_CO_TRY(const auto a, co_await one.Open(first));
  Result<bool> same = false;
  auto b = co_await other.Open(second);
  if (!b) {
    same = std::unexpected(std::move(b).error());
  } else {
    const uint64_t size = a->attributes().size;
    Result<void> ready;
    if (reads_back) ready = co_await (*b)->ForgetCached();
    if (!ready) {
      same = std::unexpected(std::move(ready).error());
    } else if (size == (*b)->attributes().size) {
      same = co_await CompareAll(run, *a, **b, size);
    }
    (void)co_await (*b)->Close();
  }
  (void)co_await a->Close();
  co_return same;
}

// Reads the copy back through another open file.
Task<Result<void>> Verify(Run& run, const FileToCopy& file, KnownTemporary& temporary, uint64_t size) {
  const Entry copy{.name = temporary.name().Text(), .attributes = {}};
  PENSTOCK_CO_TRY(const bool same, co_await OpenAndCompare(run, *file.from, file.entry, *file.to, copy, true));
  if (same) co_return Result<void>();
  co_return std::unexpected(
      Error{fmt::format("the copy of {} octets differs from its source when it is read back", size), std::nullopt});
}

// ---- small files ----

// Returns false if the file is not small any more.
Task<Result<bool>> CopySmall(Run& run, const FileToCopy& file, KnownTemporary& temporary, uint64_t& size) {
  const Attributes& known = file.entry.attributes;
  // One octet more shows that a file has grown.
  const uint64_t room = std::min(kSmall, known.size) + 1;
  const Budget::Share share = co_await run.memory.Take(file.from->buffers_per_read() * room);
  if (run.stopping) co_return Cancelled();
  const BufferRef buffer = run.loop.buffers().Allocate(room);
  PENSTOCK_CO_TRY(const Directory::Content content,
                  co_await file.from->ReadWhole(file.entry, buffer->bytes().first(room)));
  size = content.attributes.size;
  if (size >= room) co_return false;
  if (content.count < size) co_return Shorter(size, content.count);
  co_await run.rate.Wait(size);
  const NewFile made = NewFileFor(run.options, file, content.attributes);
  const std::string name = temporary.name().Text();
  PENSTOCK_CO_CHECK(co_await file.to->WriteWhole(name, made, buffer->bytes().first(size)));
  run.Count(size);
  co_return true;
}

// ---- large files ----

class LargeCopy {
 public:
  LargeCopy(Run& run, const FileToCopy& file, KnownTemporary& temporary)
      : run_(run), file_(file), temporary_(temporary) {}

  Task<Result<void>> Copy(uint64_t& size);

 private:
  Task<Result<void>> OpenTarget();
  // Opens the temporary file of an earlier copy, and begins behind what it has. Returns false if it is of no use.
  Task<bool> Resume(const TemporaryName& leftover);
  Task<Result<void>> CopyAll();
  // Moves a part and, with `syncs`, makes those before it stable meanwhile. Returns false if octets are lost, of this
  // part or of those before it.
  Task<Result<bool>> MoveWhileSyncing(Extent part, bool syncs);
  // Copies the range again, until it is on stable storage.
  Task<Result<void>> CopyAgain(Extent part);
  Task<Result<void>> Move(Extent part, bool counts_holes);
  Task<Result<void>> MoveExtents(const std::vector<Extent>& extents);
  Task<Result<void>> MovePiece(Extent piece);
  Task<Result<void>> WriteData(ConstBytes octets, uint64_t offset);
  // Records that the octets before `complete` are stable.
  Task<Result<void>> Record(uint64_t complete);

  Run& run_;
  const FileToCopy& file_;
  KnownTemporary& temporary_;
  std::unique_ptr<File> source_;
  std::unique_ptr<File> target_;
  NewFile made_;
  uint64_t size_ = 0;
  uint64_t begin_ = 0;      // an earlier copy has written the octets before
  bool is_sparse_ = false;  // look for zeros
  bool copies_ = true;      // the two trees can copy without this process
};

Task<Result<void>> LargeCopy::Copy(uint64_t& size) {
  PENSTOCK_CO_TRY(source_, co_await file_.from->Open(file_.entry));
  size_ = size = source_->attributes().size;
  is_sparse_ = LooksSparse(source_->attributes());
  made_ = NewFileFor(run_.options, file_, source_->attributes());
  Result<void> result = co_await OpenTarget();
  if (result) {
    temporary_.file() = target_->attributes();
    result = co_await CopyAll();
    Result<void> closed = co_await target_->Close();
    if (result && !closed) result = std::move(closed);
  }
  Result<void> closed = co_await source_->Close();
  if (result && !closed) result = std::move(closed);
  co_return result;
}

Task<Result<void>> LargeCopy::OpenTarget() {
  for (const TemporaryName& leftover : file_.leftovers) {
    if (leftover.version != temporary_.name().version || leftover.complete == 0 || leftover.complete > size_) continue;
    if (co_await Resume(leftover)) co_return Result<void>();
  }
  const std::string name = temporary_.name().Text();
  PENSTOCK_CO_TRY(target_, co_await file_.to->Create(name, made_));
  co_return Result<void>();
}

Task<bool> LargeCopy::Resume(const TemporaryName& leftover) {
  // If another copy still writes to the file, it loses its name, and fails to finish it. One of several takes it.
  temporary_.name().complete = leftover.complete;
  const std::string old_name = leftover.Text(), name = temporary_.name().Text();
  auto taken = co_await file_.to->Rename(old_name, name);
  if (taken) {
    auto opened = co_await file_.to->OpenForWriting(name);
    if (opened) {
      target_ = *std::move(opened);
      // A check, in case that the record is wrong: the last octets before it.
      const Extent last{leftover.complete - std::min<uint64_t>(leftover.complete, kPiece), leftover.complete};
      const auto same = co_await Compare(run_, *source_, *target_, last);
      if (same && *same) {
        begin_ = leftover.complete;
        run_.Count(begin_);
        co_return true;
      }
      (void)co_await target_->Close();
      target_.reset();
    }
    (void)co_await file_.to->Remove(name);
  }
  temporary_.name().complete = 0;
  temporary_.name().Renew();
  co_return false;
}

Task<Result<void>> LargeCopy::CopyAll() {
  uint64_t stable = begin_;  // the octets before are on stable storage
  for (uint64_t at = begin_; at < size_;) {
    const uint64_t end = size_ - at <= run_.options.checkpoint ? size_ : at + run_.options.checkpoint;
    PENSTOCK_CO_TRY(const bool holds, co_await MoveWhileSyncing({at, end}, at > stable));
    const uint64_t was_stable = stable;
    if (holds) {
      stable = at;
    } else {
      // Octets of both parts may be lost.
      PENSTOCK_CO_CHECK(co_await CopyAgain({stable, end}));
      stable = end;
    }
    if (stable > was_stable && stable < size_) PENSTOCK_CO_CHECK(co_await Record(stable));
    at = end;
  }
  if (stable < size_) {
    PENSTOCK_CO_TRY(const bool holds, co_await target_->Sync());
    if (!holds) PENSTOCK_CO_CHECK(co_await CopyAgain({stable, size_}));
  }
  co_return co_await target_->SetAttributes(made_.attributes);
}

Task<Result<bool>> LargeCopy::MoveWhileSyncing(Extent part, bool syncs) {
  Result<bool> holds = true;
  const auto work = [&](uint64_t index, uint32_t) -> Task<Result<void>> {
    if (index == 0) co_return co_await Move(part, true);
    holds = co_await target_->Sync();
    co_return Result<void>();
  };
  const uint64_t works = syncs ? 2 : 1;
  Result<void> moved = co_await client::MovePieces(works, 1, 2, work);
  if (moved) co_return holds;
  // A later copy goes on behind the parts before.
  if (syncs && holds && *holds) (void)co_await Record(part.begin);
  co_return std::unexpected(std::move(moved).error());
}

Task<Result<void>> LargeCopy::Record(uint64_t complete) {
  TemporaryName next = temporary_.name();
  next.complete = complete;
  const std::string old_name = temporary_.name().Text(), new_name = next.Text();
  Result<void> renamed = co_await file_.to->Rename(old_name, new_name);
  if (!renamed && renamed.error().status == Status::kNotFound) {
    // A server that has restarted may have renamed it and lost the reply.
    const auto found = co_await file_.to->Find(new_name);
    if (found) renamed = Result<void>();
  }
  if (!renamed) co_return renamed;
  temporary_.name() = std::move(next);
  co_return Result<void>();
}

Task<Result<void>> LargeCopy::CopyAgain(Extent part) {
  for (int pass = 0; pass < kMostPasses; ++pass) {
    PENSTOCK_CO_CHECK(co_await Move(part, false));
    PENSTOCK_CO_TRY(const bool holds, co_await target_->Sync());
    if (holds) co_return Result<void>();
  }
  co_return std::unexpected(Error{"the server keeps losing uncommitted data", std::nullopt});
}

Task<Result<void>> LargeCopy::Move(Extent part, bool counts_holes) {
  PENSTOCK_CO_TRY(const std::vector<Extent> extents, co_await source_->DataIn(part));
  if (counts_holes) {
    uint64_t data = 0;
    for (const Extent& extent : extents) data += extent.size();
    run_.Count(part.size() - data);
  }
  PENSTOCK_CO_CHECK(co_await MoveExtents(extents));
  // The last octets may be a hole.
  if (part.end == size_) PENSTOCK_CO_CHECK(co_await target_->SetSize(size_));
  co_return Result<void>();
}

Task<Result<void>> LargeCopy::MoveExtents(const std::vector<Extent>& extents) {
  std::vector<Extent> pieces;
  for (const Extent& extent : extents) {
    for (uint64_t at = extent.begin; at < extent.end;) {
      const uint64_t end = std::min(extent.end, at / kPiece * kPiece + kPiece);
      pieces.push_back({at, end});
      at = end;
    }
  }
  const auto move = [this, &pieces](uint64_t index, uint32_t) { return MovePiece(pieces[index]); };
  co_return co_await client::MovePieces(pieces.size(), 1, run_.options.in_flight, move);
}

Task<Result<void>> LargeCopy::MovePiece(Extent piece) {
  const uint64_t count = piece.size();
  while (copies_ && piece.size() > 0) {
    if (run_.stopping) co_return Cancelled();
    co_await run_.rate.Wait(piece.size());
    PENSTOCK_CO_TRY(const auto copied, co_await target_->CopyFrom(*source_, piece));
    if (!copied) copies_ = false;
    if (copied) piece.begin += *copied;
  }
  if (piece.size() > 0) {
    const Budget::Share share = co_await run_.memory.Take(source_->buffers_per_read() * piece.size());
    if (run_.stopping) co_return Cancelled();
    co_await run_.rate.Wait(piece.size());
    PENSTOCK_CO_TRY(const Slice octets, co_await ReadFully(run_, *source_, piece));
    PENSTOCK_CO_CHECK(co_await WriteData(octets.bytes(), piece.begin));
  }
  run_.Count(count);
  co_return Result<void>();
}

// In a new file, zeros that are not written are a hole.
Task<Result<void>> LargeCopy::WriteData(ConstBytes octets, uint64_t offset) {
  if (!is_sparse_) co_return co_await WriteFully(*target_, octets, offset);
  size_t begin = 0;  // of the octets to write
  for (size_t at = 0; at < octets.size();) {
    const size_t end = std::min<size_t>(octets.size(), ((offset + at) / kHole + 1) * kHole - offset);
    if (IsZero(octets.subspan(at, end - at))) {
      PENSTOCK_CO_CHECK(co_await WriteFully(*target_, octets.subspan(begin, at - begin), offset + begin));
      begin = end;
    }
    at = end;
  }
  co_return co_await WriteFully(*target_, octets.subspan(begin), offset + begin);
}

}  // namespace

Task<void> KnownTemporary::Discard() {
  // What is not complete anywhere is of no use to a later copy.
  if (run_.options.keep_partial && name().complete > 0) co_return;
  const std::string text = name().Text();
  (void)co_await directory().Remove(text);
}

NewAttributes KeptAttributes(const Options& options, const Attributes& of) {
  NewAttributes kept;
  if (options.keep_owners) kept.owner = of.owner;
  if (options.keep_groups) kept.group = of.group;
  // The set-user-ID and set-group-ID bits would have another meaning for another owner.
  if (options.keep_modes) kept.mode = options.keep_owners && options.keep_groups ? of.mode & 07777 : of.mode & 01777;
  // The list sets the other permissions. Without it, those of the group would be its mask, which may allow more.
  if (options.keep_acls && kept.mode && of.type != FileType::kSymlink) kept.mode = *kept.mode & 07700;
  if (options.keep_times) {
    kept.accessed = of.accessed;
    kept.modified = of.modified;
  }
  return kept;
}

void KeepPermissions(NewAttributes& kept, uint32_t now) {
  if (!kept.mode) return;
  kept.mode = (*kept.mode & 07000) | (now & 0777);
  if (*kept.mode == now) kept.mode.reset();
}

Task<Result<bool>> HaveSameContents(Run& run, Directory& one, const Entry& first, Directory& other,
                                    const Entry& second) {
  return OpenAndCompare(run, one, first, other, second, false);
}

Task<Result<void>> CopyFile(Run& run, const FileToCopy& file, KnownTemporary& temporary, uint64_t& size) {
  const Attributes& known = file.entry.attributes;
  bool copied = false;
  if (known.size <= kSmall && !LooksSparse(known)) {
    PENSTOCK_CO_TRY(copied, co_await CopySmall(run, file, temporary, size));
  }
  if (!copied) {
    LargeCopy copy(run, file, temporary);
    PENSTOCK_CO_CHECK(co_await copy.Copy(size));
  }
  if (run.options.verify) PENSTOCK_CO_CHECK(co_await Verify(run, file, temporary, size));
  co_return Result<void>();
}

}  // namespace penstock::copying
