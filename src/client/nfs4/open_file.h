// A file that is open at a server of NFSv4: by a stateid of its own, or under a delegation alone. Here is how it is
// opened, and how it is had again when the server has lost it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/signal.h"
#include "client/mount.h"
#include "client/nfs4/compound_caller.h"
#include "client/nfs4/delegations.h"
#include "client/nfs4/file_locks.h"
#include "client/nfs4/state_owner.h"
#include "client/nfs4/turn.h"

namespace penstock::client::v4 {

class OpenFile;

// RFC 8881 §8.2.3: every server refuses it.
inline constexpr nfs4::stateid4 kInvalidStateid{.seqid = UINT32_MAX, .other = {}};

// How often something is tried again because the server did not know the stateid.
inline constexpr int kMostOpens = 3;
// Whether the server does not know, or does not honour, the stateid any more (RFC 8881 §15.1.5, §8.4).
bool IsStateLost(std::optional<Status> status);

// What open files need of their mount.
class FileOwner {
 public:
  virtual CompoundCaller& caller() = 0;
  virtual Delegations& delegations() = 0;
  virtual const TransferSizes& transfer_sizes() const = 0;
  // That nobody has had before.
  virtual StateOwner NewOwner(std::string_view name) = 0;
  // Those that are open, and so are to be reclaimed.
  virtual void Add(OpenFile& file) = 0;
  virtual void Remove(OpenFile& file) = 0;

 protected:
  ~FileOwner() = default;
};

// An OPEN without its claim, of a file that exists. Refers to `owner`.
nfs4::OPEN4args MakeOpen(const CompoundCaller& caller, const StateOwner& owner, Access access, bool may_delegate);

// Shared with the tasks that keep it open: whoever has it open may let go of it meanwhile. The mount outlives it.
class OpenFile final : public std::enable_shared_from_this<OpenFile> {
 public:
  // Each has an owner of its own, so that two opens of the same file have two stateids (RFC 8881 §9.10).
  OpenFile(FileOwner& mount, Node node, std::string_view name, Access access, StateOwner owner)
      : mount_(mount), node_(std::move(node)), name_(name), access_(access), owner_(std::move(owner)) {
    mount_.Add(*this);
  }
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const Node& node() const { return node_; }
  const std::string& name() const { return name_; }

  // Under a delegation, where there is one that lets it; else at the server, by its handle, in minor version 0 by its name.
  Task<Result<void>> Open();
  // Handles the result of an OPEN that was sent under the client id of `epoch`. `opened` is the file that the OPEN has opened,
  // with these attributes: by name it may be another file than node(). Sends OPEN_CONFIRM if the server asks for it.
  Task<Result<void>> HandleOpened(const Delegations::Asking& asking, const nfs4::OPEN4resok& result, uint64_t epoch,
                                  const Handle& opened, const Attributes& attributes);
  // Opens at the server what is open under this delegation alone, which is to be given back (RFC 8881 §10.4.4).
  Task<Result<void>> Claim(Delegation& delegation);
  // Within the server's grace period: RFC 8881 §8.4.2.1. What fails is opened anew when it is used next.
  Task<void> Reclaim();
  // With its locks.
  Task<Result<void>> Close();

  // Executes PUTFH and the operation that `make(stateid)` gives, an access of that kind, with the file open. Status::kExpired while an owner
  // of lost locks has not been told.
  template <class Make>
  auto Do(Access kind, Make make, Bytes destination = {})
      -> Task<Result<CompoundReply<nfs4::PUTFH4args, decltype(make(std::declval<const nfs4::stateid4&>()))>>>;

  FileOwner& mount() const { return mount_; }
  CompoundCaller& caller() const { return mount_.caller(); }
  FileLocks& locks() { return locks_; }

  // For its locks: it is to be open by a stateid of its own.
  Task<Result<void>> EnsureOwnOpen();
  const nfs4::stateid4& stateid() const { return stateid_; }
  StateOwner& owner() { return owner_; }
  StateOwner NewOwner(std::string_view name) { return mount_.NewOwner(name); }
  // Whoever uses an owner, which counts, takes a turn.
  Turn& turn() { return turn_; }
  // The server does not honour `used`: where that is our stateid still, the file is to be opened anew, without its locks.
  void HandleLost(const nfs4::stateid4& used);

 private:
  Task<Result<void>> EnsureOpen();
  // Opens it at the server; by right of `delegation`, or where that is null by our own.
  Task<Result<void>> OpenAtServer(const Delegation* delegation);
  // Closes the open of this file. See HandleOpened().
  Task<Result<void>> CloseAtServer(const Handle& opened);
  Task<Reclaimed> ReclaimOpen();
  Task<Result<void>> Confirm(const Handle& opened);
  // Executes a COMPOUND whose second operation counts for the owner.
  template <class Build>
  auto CallAsOwner(Build build) -> Task<Result<ReplyOf<decltype(build())>>>;
  void SetDelegation(Delegations::Pointer delegation);
  Error LocksLost() const;
  // The stateid that I/O of that kind is to name.
  const nfs4::stateid4& StateidFor(Access kind) const;
  bool has_own_open() const { return own_epoch_ == caller().epoch(); }
  bool is_open() const { return has_own_open() || (delegation_ && !delegation_->gone()); }

  FileOwner& mount_;
  const Node node_;
  const std::string name_;
  const Access access_;
  StateOwner owner_;
  nfs4::stateid4 stateid_;
  uint64_t own_epoch_ = 0;           // of stateid_; zero: it has none
  Delegations::Pointer delegation_;  // that it is open under while it has none
  Turn turn_;
  FileLocks locks_{*this};
  bool opening_ = false;
  Signal opened_;
};

// ---- templates ----

template <class Make>
auto OpenFile::Do(Access kind, Make make, Bytes destination)
    -> Task<Result<CompoundReply<nfs4::PUTFH4args, decltype(make(std::declval<const nfs4::stateid4&>()))>>> {
  for (int tries = 1;; ++tries) {
    PENSTOCK_CO_CHECK(co_await EnsureOpen());
    if (locks_.has_lost()) co_return std::unexpected(LocksLost());
    nfs4::stateid4 used;
    const auto build = [&] {
      // Where they are found lost on the way, the server refuses the call.
      used = locks_.has_lost() ? kInvalidStateid : StateidFor(kind);
      return std::tuple(nfs4::PUTFH4args{node_.handle}, make(used));
    };
    auto reply = co_await caller().Call(build, name_, destination);
    if (reply || !IsStateLost(reply.error().status) || tries == kMostOpens) co_return reply;
    // Where more than this has been lost, it is reclaimed now.
    PENSTOCK_CO_CHECK(co_await caller().Ready(name_));
    HandleLost(used);
  }
}

}  // namespace penstock::client::v4
