// A file that is open at a server of NFSv4, with its own stateid or only under a delegation. OpenFile opens the file,
// opens it again if the server loses the state, reclaims it after a restart, and closes it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/signal.h"
#include "client/mount.h"
#include "client/nfs4/compound_caller.h"
#include "client/nfs4/delegations.h"
#include "client/nfs4/file_locks.h"
#include "client/nfs4/state_owner.h"
#include "client/turn.h"

namespace penstock::client::v4 {

class OpenFile;

// A stateid that every server refuses (RFC 8881 §8.2.3).
inline constexpr nfs4::stateid4 kInvalidStateid{.seqid = UINT32_MAX, .other = {}};

// The limit of attempts of an operation whose stateid the server does not know.
inline constexpr int kMostOpens = 3;
// Whether the status says that the server does not know or honor the stateid any more (RFC 8881 §15.1.5, §8.4).
bool IsStateLost(std::optional<Status> status);
// Whether the server has given a later stateid of the same state (RFC 8881 §8.2.2).
bool IsStateidOld(std::optional<Status> status);

// The services of a mount that its open files use.
class FileOwner {
 public:
  virtual CompoundCaller& caller() = 0;
  virtual Delegations& delegations() = 0;
  virtual const TransferSizes& transfer_sizes() const = 0;
  // Makes an owner that has never been used.
  virtual StateOwner NewOwner(std::string_view name) = 0;
  // Registers open files, which the mount reclaims after a restart of the server.
  virtual void Add(OpenFile& file) = 0;
  virtual void Remove(OpenFile& file) = 0;
  // The server has opened a file of a file system (Attributes::file_system).
  virtual void HandleOpened(const Handle& file, uint64_t file_system) = 0;
  // An open, or locks, end without CLOSE: see RevokedState::Free().
  virtual void Free(const nfs4::stateid4& stateid) = 0;

 protected:
  ~FileOwner() = default;
};

// Makes an OPEN of an existing file, without its claim. The result refers to `owner`.
nfs4::OPEN4args MakeOpen(const CompoundCaller& caller, const StateOwner& owner, Access access,
                         Delegations::Wanted wanted);

// Shared with background tasks that use it, because the user may release the file before they end. The mount outlives
// it.
class OpenFile final : public std::enable_shared_from_this<OpenFile> {
 public:
  // Each open has its own owner, so that two opens of the same file have two stateids (RFC 8881 §9.10).
  OpenFile(FileOwner& mount, Node node, std::string_view name, Access access, StateOwner owner)
      : mount_(mount), node_(std::move(node)), name_(name), access_(access), needed_(access), owner_(std::move(owner)) {
    mount_.Add(*this);
  }
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const Node& node() const { return node_; }
  const std::string& name() const { return name_; }

  // Opens the file under a delegation that allows it, otherwise at the server: by handle, or by name in minor version
  // 0.
  Task<Result<void>> Open();
  // The same for a file that has been open, here or at another server. The server may refuse that, since the mode of
  // the file gives its owner no right: a program that creates a file may use it all the same. Then the client reads and
  // writes without an open. See is_without_open().
  Task<Result<void>> OpenAgain();
  // Handles the result of an OPEN that was sent under the client id of `epoch`. `opened` is the file that the OPEN has
  // opened; after an OPEN by name it may differ from node(). Sends OPEN_CONFIRM if the server asks for it.
  Task<Result<void>> HandleOpened(const Delegations::Asking& asking, const nfs4::OPEN4resok& result, uint64_t epoch,
                                  const Handle& opened, const Attributes& attributes);
  // The file has no open but `delegation`, which the server has given instead.
  void HandleDelegatedInstead(Delegations::Pointer delegation) { SetDelegation(std::move(delegation)); }
  // Opens the file at the server if it is open only under `delegation`, before that is returned (RFC 8881 §10.4.4).
  Task<Result<void>> Claim(Delegation& delegation);
  // Reclaims the file, with its delegation and locks, during the server's grace period (RFC 8881 §8.4.2.1). If that
  // fails, the next use opens it again. kNo: something is lost.
  Task<Reclaimed> Reclaim();
  // Opens the file for reading and writing. See File::Widen().
  Task<Result<void>> Widen(Node now);
  // Also releases the locks.
  Task<Result<void>> Close();

  // Makes sure that the file is open, and executes PUTFH and the operation that `make(stateid)` returns, which accesses
  // the file as `kind` says. Fails with Status::kExpired while an owner of lost locks has not been told.
  template <class Make>
  auto Do(Access kind, Make make, Bytes destination = {})
      -> Task<Result<CompoundReply<nfs4::PUTFH4args, decltype(make(std::declval<const nfs4::stateid4&>()))>>>;

  // The same for an operation from `source`, which is the saved filehandle, to this file: make(stateid of the source,
  // stateid of this file).
  template <class Make>
  auto DoBetween(OpenFile& source, Make make) -> Task<Result<
      CompoundReply<nfs4::PUTFH4args, SaveHandle, nfs4::PUTFH4args,
                    decltype(make(std::declval<const nfs4::stateid4&>(), std::declval<const nfs4::stateid4&>()))>>>;

  // The attributes that came with the last OPEN, or those of the delegation that made it unnecessary.
  const std::optional<Attributes>& attributes_at_open() const { return attributes_at_open_; }

  FileOwner& mount() const { return mount_; }
  CompoundCaller& caller() const { return mount_.caller(); }
  FileLocks& locks() { return locks_; }
  const FileLocks& locks() const { return locks_; }
  // What the user of the file needs. The creation of a file may have given more.
  Access needed_access() const { return needed_; }
  void set_needed_access(Access needed) { needed_ = needed; }

  // For locks: makes sure that the file is open with its own stateid.
  Task<Result<void>> EnsureOwnOpen();
  const nfs4::stateid4& stateid() const { return stateid_; }
  StateOwner& owner() { return owner_; }
  StateOwner NewOwner(std::string_view name) { return mount_.NewOwner(name); }
  // A request with an owner that counts takes a turn.
  Turn& turn() { return turn_; }
  // The stateids of the open and of its locks that the server has, as far as the client knows.
  void AddStateids(std::vector<nfs4::stateid4>& stateids) const;
  // The server has revoked this state. If it belongs to this file, the next use opens the file again.
  void HandleRevoked(const nfs4::stateid4& revoked);
  // The server does not honor `used`. If it is still the stateid of this file, the next use opens the file again,
  // without its locks.
  void HandleLost(const nfs4::stateid4& used);

 private:
  Task<Result<void>> EnsureOpen();
  // Waits for the reply to an OPEN that is under way, which brings a new stateid.
  Task<void> AwaitStateid();
  // Opens the file at the server. If `delegation` is not null, the open claims it. If `widened` is not null, the file
  // is open, stays so, and gets more access: `widened` has the name by which minor version 0 opens it.
  Task<Result<void>> OpenAtServer(const Delegation* delegation, const Node* widened = nullptr);
  Task<Result<void>> CloseOther(const Handle& other, const nfs4::stateid4& stateid);
  // The error of Widen() if the name leads elsewhere.
  std::unexpected<Error> NameIsWrong() const;
  // Closes the open of this file. See HandleOpened().
  Task<Result<void>> CloseAtServer(const Handle& opened);
  Task<Reclaimed> ReclaimOpen(Delegations::Pointer claimed);
  Task<Result<void>> Confirm(const Handle& opened);
  // Executes a COMPOUND whose second operation changes the seqid of the owner.
  template <class Build>
  auto CallAsOwner(Build build) -> Task<Result<ReplyOf<decltype(build())>>>;
  void SetDelegation(Delegations::Pointer delegation);
  Error LocksLost() const;
  // Returns the stateid for I/O of this kind.
  const nfs4::stateid4& StateidFor(Access kind) const;
  bool has_own_open() const { return own_epoch_ == caller().epoch(); }
  bool is_open() const { return has_own_open() || (delegation_ && !delegation_->gone()) || is_without_open(); }
  // Whether the file is used by the anonymous stateid (RFC 8881 §8.2.3). The server checks the rights in each call, and
  // servers let the owner of a file read and write whatever its mode is, as they must in version 3.
  bool is_without_open() const { return unopened_epoch_ == caller().epoch(); }
  Error NeedsOpen() const;

  FileOwner& mount_;
  const Node node_;
  const std::string name_;
  Access access_;  // of the open, or of the next one
  Access needed_;
  StateOwner owner_;
  nfs4::stateid4 stateid_;
  uint64_t own_epoch_ = 0;       // the epoch of stateid_; zero: the file has no stateid
  uint64_t unopened_epoch_ = 0;  // see is_without_open(); zero: it never was
  bool was_open_ = false;
  Delegations::Pointer delegation_;  // the file is open under it while it has no stateid
  std::optional<Attributes> attributes_at_open_;
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
      // If locks turn out to be lost during the call, the invalid stateid makes the server refuse it.
      used = locks_.has_lost() ? kInvalidStateid : StateidFor(kind);
      return std::tuple(nfs4::PUTFH4args{node_.handle.octets()}, make(used));
    };
    auto reply = co_await caller().Call(build, name_, destination);
    if (reply || tries == kMostOpens) co_return reply;
    if (IsStateidOld(reply.error().status)) {
      co_await AwaitStateid();
      continue;
    }
    if (!IsStateLost(reply.error().status)) co_return reply;
    // If the server has lost all state, it is reclaimed now.
    PENSTOCK_CO_CHECK(co_await caller().Ready(name_));
    HandleLost(used);
  }
}

template <class Make>
auto OpenFile::DoBetween(OpenFile& source, Make make) -> Task<Result<
    CompoundReply<nfs4::PUTFH4args, SaveHandle, nfs4::PUTFH4args,
                  decltype(make(std::declval<const nfs4::stateid4&>(), std::declval<const nfs4::stateid4&>()))>>> {
  for (int tries = 1;; ++tries) {
    PENSTOCK_CO_CHECK(co_await source.EnsureOpen());
    PENSTOCK_CO_CHECK(co_await EnsureOpen());
    // Servers do not agree about copies by the anonymous stateid. The user reads and writes instead.
    if (is_without_open() || source.is_without_open()) {
      co_return std::unexpected(v4::ErrorOf(nfs4::nfsstat4::NFS4ERR_NOTSUPP, name_));
    }
    if (locks_.has_lost()) co_return std::unexpected(LocksLost());
    if (source.locks_.has_lost()) co_return std::unexpected(source.LocksLost());
    nfs4::stateid4 used;
    const auto build = [&] {
      used = locks_.has_lost() || source.locks_.has_lost() ? kInvalidStateid : StateidFor(Access::kWrite);
      return std::tuple(nfs4::PUTFH4args{source.node_.handle.octets()}, SaveHandle(),
                        nfs4::PUTFH4args{node_.handle.octets()}, make(source.StateidFor(Access::kRead), used));
    };
    auto reply = co_await caller().Call(build, name_);
    if (reply || tries == kMostOpens) co_return reply;
    if (IsStateidOld(reply.error().status)) {
      co_await source.AwaitStateid();
      co_await AwaitStateid();
      continue;
    }
    if (!IsStateLost(reply.error().status)) co_return reply;
    PENSTOCK_CO_CHECK(co_await caller().Ready(name_));
    // The error does not tell which of the two stateids is lost. A READ of no octets finds out about the source's. If
    // that was good, it is this file's.
    if (tries > 1) {
      HandleLost(used);
      continue;
    }
    const auto probe = [](const nfs4::stateid4& stateid) { return nfs4::READ4args{stateid, 0, 0}; };
    auto probed = co_await source.Do(Access::kRead, probe);
    if (!probed) co_return std::unexpected(std::move(probed).error());
  }
}

}  // namespace penstock::client::v4
