// The client::File of version 4: it reads and writes the data of an open file. OpenFile manages the state at the
// server.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "client/mount.h"
#include "client/nfs4/open_file.h"

namespace penstock::client::v4 {

// Returns the data of a READ for `count` octets, or nothing if the reply contradicts itself: more data than requested,
// or none before the end of the file.
std::optional<client::File::FetchReply> DataOf(const nfs4::READ4resok& read, size_t count);

class File final : public client::File {
 public:
  explicit File(std::shared_ptr<OpenFile> open) : client::File(open->node(), open->name()), open_(std::move(open)) {}

  const OpenFile& open() const { return *open_; }
  OpenFile& open() { return *open_; }

  Task<Result<FetchReply>> Fetch(uint64_t offset, Bytes into) override;
  Task<Result<WriteReply>> Write(uint64_t offset, ConstBytes from, Stability stability) override;
  Task<Result<Verifier>> Commit() override;
  Task<Result<void>> SetSize(uint64_t size) override;
  std::optional<Attributes> attributes_at_open() const override { return open_->attributes_at_open(); }
  Task<Result<std::optional<uint64_t>>> Seek(uint64_t offset, Content content) override;
  Task<Result<void>> Allocate(uint64_t offset, uint64_t length) override;
  Task<Result<void>> Deallocate(uint64_t offset, uint64_t length) override;
  Task<Result<CopyReply>> CopyFrom(client::File& source, uint64_t from, uint64_t to, uint64_t length) override;
  Task<Result<void>> CloneFrom(client::File& source, uint64_t from, uint64_t to, uint64_t length) override;
  Task<Result<void>> Lock(std::string owner, ByteRange range, LockKind kind, Duration patience,
                          Cancellation* impatience) override {
    return open_->locks().Lock(std::move(owner), range, kind, patience, impatience);
  }
  Task<Result<void>> Widen(Node now) override { return open_->Widen(std::move(now)); }
  Task<Result<void>> Unlock(std::string owner, ByteRange range) override {
    return open_->locks().Unlock(std::move(owner), range);
  }
  Task<Result<std::optional<LockConflict>>> TestLock(std::string owner, ByteRange range, LockKind kind) override {
    return open_->locks().Test(std::move(owner), range, kind);
  }
  Task<Result<void>> Close() override { return open_->Close(); }

 private:
  bool has_files_of_version_42() const { return open_->caller().dialect().has_files_of_version_42; }
  // Executes an operation that changes the file, and has no results.
  template <class Make>
  Task<Result<void>> Change(Make make);
  // Returns `source` if it is a file of the same mount that this dialect can copy.
  File* Copyable(client::File& source) const;

  const std::shared_ptr<OpenFile> open_;
};

}  // namespace penstock::client::v4
