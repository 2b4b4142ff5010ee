// A file that is open at a server of NFSv4: a stateid, and how to have it again when the server has lost it.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/signal.h"
#include "client/mount.h"
#include "client/nfs4/compound_caller.h"
#include "client/nfs4/file_locks.h"
#include "client/nfs4/state_owner.h"
#include "client/nfs4/turn.h"

namespace penstock::client::v4 {

class File;

// How often something is tried again because the server did not know the stateid.
inline constexpr int kMostOpens = 3;
// Whether the server does not know, or does not honour, the stateid any more (RFC 8881 §15.1.5, §8.4).
bool IsStateLost(std::optional<Status> status);

// What open files need of their mount.
class FileOwner {
 public:
  virtual CompoundCaller& caller() = 0;
  virtual const TransferSizes& transfer_sizes() const = 0;
  // That nobody has had before.
  virtual StateOwner NewOwner(std::string_view name) = 0;
  // Those that are open, and so are to be reclaimed.
  virtual void Add(File& file) = 0;
  virtual void Remove(File& file) = 0;

 protected:
  ~FileOwner() = default;
};

// An OPEN without its claim, of a file that exists. Refers to `owner`.
nfs4::OPEN4args MakeOpen(const CompoundCaller& caller, const StateOwner& owner, Access access);

class File final : public client::File {
 public:
  // Each file has an owner of its own, so that two opens of the same file have two stateids (RFC 8881 §9.10).
  File(FileOwner& mount, Node node, std::string_view name, Access access, StateOwner owner)
      : client::File(std::move(node), name), mount_(mount), access_(access), owner_(std::move(owner)) {
    mount_.Add(*this);
  }
  ~File() override { mount_.Remove(*this); }

  // By its handle; in minor version 0 by its name.
  Task<Result<void>> Open();
  // The result of an OPEN under the client id of that epoch. Confirms it where the server wants that, and gives back a
  // delegation that comes with it.
  Task<Result<void>> HandleOpened(const nfs4::OPEN4resok& result, uint64_t epoch);
  // Within the server's grace period: RFC 8881 §8.4.2.1. What fails is opened anew when it is used next.
  Task<void> Reclaim();

  Task<Result<ReadReply>> Read(uint64_t offset, Bytes into) override;
  Task<Result<WriteReply>> Write(uint64_t offset, ConstBytes from) override;
  Task<Result<Verifier>> Commit() override;
  Task<Result<void>> Lock(std::string owner, LockRange range, LockKind kind, Duration patience) override {
    return locks_.Lock(std::move(owner), range, kind, patience);
  }
  Task<Result<void>> Unlock(std::string owner, LockRange range) override {
    return locks_.Unlock(std::move(owner), range);
  }
  Task<Result<std::optional<LockConflict>>> TestLock(std::string owner, LockRange range, LockKind kind) override {
    return locks_.Test(std::move(owner), range, kind);
  }
  Task<Result<void>> Close() override;

  // For its locks.
  CompoundCaller& caller() const { return mount_.caller(); }
  const nfs4::stateid4& stateid() const { return stateid_; }
  StateOwner& owner() { return owner_; }
  StateOwner NewOwner(std::string_view name) { return mount_.NewOwner(name); }
  // Whoever uses an owner, which counts, takes a turn.
  Turn& turn() { return turn_; }
  Task<Result<void>> EnsureOpen();
  // The server does not honour `used`: where that is our stateid still, the file is to be opened anew, without its locks.
  void HandleLost(const nfs4::stateid4& used);

 private:
  // Executes PUTFH and the operation that `make(stateid)` gives, with the file open.
  template <class Make>
  auto Do(Make make, Bytes destination = {})
      -> Task<Result<CompoundReply<nfs4::PUTFH4args, decltype(make(std::declval<const nfs4::stateid4&>()))>>>;
  Task<Result<void>> OpenOnce();
  Task<Result<void>> CloseOnce();
  Task<bool> ReclaimOpen();
  Task<Result<void>> Confirm();
  Task<Result<void>> GiveBack(const nfs4::open_delegation4& delegation);
  // Executes a COMPOUND whose second operation counts for the owner.
  template <class Build>
  auto CallAsOwner(Build build) -> Task<Result<ReplyOf<decltype(build())>>>;
  bool is_open() const { return open_epoch_ == mount_.caller().epoch(); }

  FileOwner& mount_;
  const Access access_;
  StateOwner owner_;
  nfs4::stateid4 stateid_;
  uint64_t open_epoch_ = 0;  // zero: not open
  Turn turn_;
  FileLocks locks_{*this};
  bool opening_ = false;
  Signal opened_;
};

}  // namespace penstock::client::v4
