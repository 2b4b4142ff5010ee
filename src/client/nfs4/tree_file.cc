#include "client/nfs4/tree_file.h"

#include "base/log.h"
#include "base/mix.h"

namespace penstock::client::v4 {

// ---- moves ----

Error TreeFile::Explain(Error error, const FileAtServer& at) {
  return at.place.part == 0 ? error : WithTrouble(std::move(error), at.server->trouble());
}

template <class T, class Call>
Task<Result<T>> TreeFile::Do(Call call) {
  for (unsigned moves = 0;; ++moves) {
    const Pointer at = this->at();
    Result<T> result = co_await call(*at);
    if (result) co_return result;
    if (result.error().status != Status::kMoved || moves == kMostMoves) {
      co_return std::unexpected(Explain(std::move(result).error(), *at));
    }
    Result<void> moved = co_await moving_->MoveOn(at);
    if (moved) continue;
    if (moved.error().status == Status::kMoved) co_return result;  // nobody knows where the file is
    co_return std::unexpected(std::move(moved).error());
  }
}

Task<Result<void>> MovingFile::MoveOn(Pointer from) {
  ++calls_;
  const bool has_waited = moving_;
  while (moving_) co_await moved_;
  Result<void> moved;
  if (at_ == from) {
    // All who have waited for an attempt have its result.
    if (has_waited) {
      moved = std::unexpected(failure_);
    } else {
      moved = co_await Move(shared_from_this(), from);
    }
  }
  --calls_;
  moved_.Notify();
  co_return moved;
}

Task<void> MovingFile::Follow(std::weak_ptr<MovingFile> file, std::weak_ptr<const FileAtServer> from) {
  FileTree* tree = nullptr;
  {
    // The tree may end when this function has told it that it needs the file no more.
    std::shared_ptr<MovingFile> moving = file.lock();
    if (!moving) co_return;
    tree = &moving->tree_;
    tree->BeginFollowing();
    while (moving->moving_) co_await moving->moved_;
    Pointer at = from.lock();
    if (at && at == moving->at_ && !moving->closed_) {
      const Result<void> moved = co_await Move(std::move(moving), std::move(at));
      if (!moved) log::debug("{}", moved.error().message);
    }
  }
  tree->EndFollowing();
}

Task<Result<void>> MovingFile::Move(std::shared_ptr<MovingFile> file, Pointer from) {
  MovingFile& self = *file;
  self.moving_ = true;
  auto reopened = co_await self.tree_.Reopen(self.known_, *from);
  Result<void> moved;
  if (reopened) {
    self.tree_.HandleReopened(*from, *reopened);
    self.at_ = std::make_shared<const FileAtServer>(*std::move(reopened));
    if (self.closed_) (void)co_await self.at_->file->Close();
  } else {
    self.failure_ = reopened.error();
    moved = std::unexpected(std::move(reopened).error());
  }
  self.moving_ = false;
  self.moved_.Notify();
  co_return moved;
}

Task<MovingFile::Pointer> MovingFile::HandleClosing() {
  while (calls_ > 0) co_await moved_;
  closed_ = true;
  co_return at_;
}

namespace {

// RFC 8881 §11.11.6: verifiers of two servers differ, even if their octets are the same.
Verifier Mark(Verifier verifier, const FileAtServer& at) {
  const uint32_t part = at.place.part;
  if (part != 0) StoreBig<uint64_t>(verifier.data(), LoadBig<uint64_t>(verifier.data()) ^ Mix(0, part));
  return verifier;
}

Task<Result<File::WriteReply>> WriteAt(const FileAtServer& at, uint64_t offset, ConstBytes from,
                                       File::Stability stability) {
  auto written = co_await at.file->Write(offset, from, stability);
  if (written) written->verifier = Mark(written->verifier, at);
  co_return written;
}

Task<Result<Verifier>> CommitAt(const FileAtServer& at) {
  auto committed = co_await at.file->Commit();
  if (committed) committed = Mark(*committed, at);
  co_return committed;
}

Task<Result<void>> WidenAt(FileTree& tree, const FileAtServer& at, Node now) {
  Node bare = co_await tree.Bare(std::move(now), at.place);
  co_return co_await at.file->Widen(std::move(bare));
}

}  // namespace

// ---- calls ----

Task<Result<File::FetchReply>> TreeFile::Fetch(uint64_t offset, Bytes into) {
  return Do<FetchReply>([=](const FileAtServer& at) { return at.file->Fetch(offset, into); });
}

Task<Result<File::WriteReply>> TreeFile::Write(uint64_t offset, ConstBytes from, Stability stability) {
  return Do<WriteReply>([=](const FileAtServer& at) { return WriteAt(at, offset, from, stability); });
}

Task<Result<Verifier>> TreeFile::Commit() { return Do<Verifier>(CommitAt); }

Task<Result<void>> TreeFile::SetSize(uint64_t size) {
  return Do<void>([=](const FileAtServer& at) { return at.file->SetSize(size); });
}

std::optional<Attributes> TreeFile::attributes_at_open() const {
  auto attributes = at()->file->attributes_at_open();
  if (attributes) attributes = moving_->tree().Distinct(*std::move(attributes), *at()->server);
  return attributes;
}

Task<Result<std::optional<uint64_t>>> TreeFile::Seek(uint64_t offset, Content content) {
  return Do<std::optional<uint64_t>>([=](const FileAtServer& at) { return at.file->Seek(offset, content); });
}

Task<Result<void>> TreeFile::Allocate(uint64_t offset, uint64_t length) {
  return Do<void>([=](const FileAtServer& at) { return at.file->Allocate(offset, length); });
}

Task<Result<void>> TreeFile::Deallocate(uint64_t offset, uint64_t length) {
  return Do<void>([=](const FileAtServer& at) { return at.file->Deallocate(offset, length); });
}

template <class T, class Call>
Task<Result<T>> TreeFile::Between(Pointer at, client::File& source, Call call) {
  auto* const other = dynamic_cast<TreeFile*>(&source);
  if (!other) co_return NotSupported();
  const Pointer from = other->at();
  Result<T> result = co_await call(*at->file, *from->file);
  if (result) co_return result;
  // The user reads and writes instead, which follows the files.
  if (result.error().status == Status::kMoved) co_return NotSupported();
  co_return std::unexpected(Explain(std::move(result).error(), *at));
}

Task<Result<File::CopyReply>> TreeFile::CopyFrom(client::File& source, uint64_t from, uint64_t to, uint64_t length) {
  const Pointer at = this->at();
  auto copied = co_await Between<CopyReply>(
      at, source, [=](client::File& file, client::File& other) { return file.CopyFrom(other, from, to, length); });
  if (copied && copied->verifier) copied->verifier = Mark(*copied->verifier, *at);
  co_return copied;
}

Task<Result<void>> TreeFile::CloneFrom(client::File& source, uint64_t from, uint64_t to, uint64_t length) {
  return Between<void>(
      at(), source, [=](client::File& file, client::File& other) { return file.CloneFrom(other, from, to, length); });
}

Task<Result<void>> TreeFile::Lock(std::string owner, ByteRange range, LockKind kind, Duration patience,
                                  Cancellation* impatience) {
  Pointer locked_at;
  const auto lock = [&](const FileAtServer& at) {
    locked_at = this->at();
    return at.file->Lock(owner, range, kind, patience, impatience);
  };
  Result<void> locked = co_await Do<void>(lock);
  // The reply may come when another call has found out that the file has moved: the lock is lost.
  if (locked && locked_at != at()) co_return std::unexpected(client::ErrorOf(Status::kExpired, name()));
  co_return locked;
}

Task<Result<void>> TreeFile::Widen(Node now) {
  return Do<void>([this, now = std::move(now)](const FileAtServer& at) { return WidenAt(moving_->tree(), at, now); });
}

Task<Result<void>> TreeFile::Unlock(std::string owner, ByteRange range) {
  return Do<void>([range, owner = std::move(owner)](const FileAtServer& at) { return at.file->Unlock(owner, range); });
}

Task<Result<std::optional<LockConflict>>> TreeFile::TestLock(std::string owner, ByteRange range, LockKind kind) {
  return Do<std::optional<LockConflict>>([range, kind, owner = std::move(owner)](const FileAtServer& at) {
    return at.file->TestLock(owner, range, kind);
  });
}

// A server that the file system has left has no state of the file any more.
Task<Result<void>> TreeFile::Close() {
  const Pointer at = co_await moving_->HandleClosing();
  Result<void> closed = co_await at->file->Close();
  if (closed || closed.error().status == Status::kMoved) co_return Result<void>();
  co_return std::unexpected(Explain(std::move(closed).error(), *at));
}

}  // namespace penstock::client::v4
