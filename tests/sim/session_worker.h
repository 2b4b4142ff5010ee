// SessionWorker is the base of the workers that use a session: of NFS version 4.1, or of 2004. It checks that the
// session's slots prevent second executions, and that the worker can reclaim its opens after a restart of the server.
#pragma once

#include <functional>
#include <tuple>
#include <type_traits>

#include "client/nfs4/compound_caller.h"
#include "worker.h"

namespace penstock::simulation {

// The session of a client, of either kind.
struct SessionUse {
  enum class Phase : uint8_t { kReady, kReclaiming, kOther };
  client::v4::CompoundCaller& caller;
  std::function<Phase()> phase;
};

class SessionWorker : public Worker {
 protected:
  SessionWorker(rdma::sim::World& world, Findings& findings, Facts facts, SessionUse session)
      : Worker(world, findings, std::move(facts)), session_(session.caller), phase_(std::move(session.phase)) {}

  // The worker's open of one file.
  struct File {
    nfs4::nfs_fh4 handle;
    std::optional<nfs4::stateid4> stateid{};
    uint64_t epoch = 0;     // the epoch of the stateid, see client::v4::CompoundCaller
    bool doubtful = false;  // OPEN or CLOSE had no reply, so the server may have the file open
  };

  template <class... Operations>
  using Reply = std::optional<client::v4::CompoundReply<Operations...>>;
  // Sends a COMPOUND. Returns no value if it failed: then refused_ holds the server's status, or no value if the call
  // has no reply.
  template <class... Operations>
  Task<Reply<Operations...>> Ask(std::string_view what, Bytes destination, Operations... operations) {
    const std::tuple<Operations...> compound(std::move(operations)...);
    const auto build = [&compound] { return compound; };
    co_return co_await AskAnew(what, destination, build, std::type_identity<std::tuple<Operations...>>());
  }
  // Sends a COMPOUND that `build` makes anew for each attempt: after a restart of the server its stateids have changed.
  template <class Build>
  auto Ask(std::string_view what, Bytes destination, Build build)
    requires std::is_invocable_v<Build>
  {
    using Operations = decltype(build());
    return AskAnew(what, destination, std::move(build), std::type_identity<Operations>());
  }

  nfs4::OPEN4args MakeOpen(nfs4::openflag4 how, nfs4::open_claim4 claim,
                           uint32_t access = nfs4::OPEN4_SHARE_ACCESS_BOTH) const;
  // `first_epoch` is that of the first attempt, and `epoch` that of the last one.
  void HandleOpened(File& file, const nfs4::OPEN4res& opened, uint64_t first_epoch, uint64_t epoch);
  Task<void> OpenFile(nfs4::nfs_fh4 directory, const std::string& name, File& file,
                      uint32_t access = nfs4::OPEN4_SHARE_ACCESS_BOTH);
  // Called with the reply to each OPEN of OpenFile().
  virtual void HandleOpen(File& /*file*/, const nfs4::OPEN4res& /*opened*/) {}
  Task<void> CloseFile(File& file);
  // Reclaims the open during the session's reclaim phase. Returns when that phase ends, at the latest.
  Task<void> ReclaimFile(File& file);
  // The result of a reclaim request: granted, refused, or to be repeated.
  enum class Reclaimed : uint8_t { kYes, kNo, kAgain };
  Reclaimed JudgeReclaim(std::optional<nfs4::nfsstat4> status);
  bool reclaiming() const { return findings_.empty() && phase_() == SessionUse::Phase::kReclaiming; }
  bool ready() const { return phase_() == SessionUse::Phase::kReady; }
  // The most octets of data in a WRITE and in the reply to a READ.
  size_t longest_write() const;
  size_t longest_read() const;
  bool is_bound() const { return session_.dialect().sessions == client::v4::SessionKind::kBound; }
  // Tells whether the last call was refused because its stateid is of `epoch` and the server has restarted since. A
  // session of 2004 goes on over a restart, with all requests that have no reply. The worker may then have a new
  // stateid.
  bool IsOutdated(uint64_t epoch) const {
    const auto outdated = static_cast<client::Status>(nfs4::NFS4ERR_STALE_STATEID);
    return is_bound() && refused_ == outdated && epoch != session_.epoch();
  }
  // Returns the stateid, or the anonymous one if it is lost: READ and WRITE succeed without it, and CLOSE fails.
  static nfs4::stateid4 StateIdOf(const File& file) { return file.stateid.value_or(nfs4::stateid4{}); }

  client::v4::CompoundCaller& session_;
  std::optional<client::Status> refused_;
  // The last call may have been executed twice, because the server does not keep its reply.
  bool repeated_ = false;

 private:
  template <class Build, class... Operations>
  Task<Reply<Operations...>> AskAnew(std::string_view what, Bytes destination, Build build,
                                     std::type_identity<std::tuple<Operations...>>);
  // Tells whether a second execution may fail with this status although the first one succeeded: the change is already
  // made, or the disk fails.
  bool MayBeDone(client::Status status) const {
    if (status == client::Status::kExists || status == client::Status::kNotFound || IsDisksFault(status)) return true;
    const auto number = static_cast<nfs4::nfsstat4>(status);
    return !facts_.replies_are_kept && (number == nfs4::NFS4ERR_BAD_STATEID || number == nfs4::NFS4ERR_OLD_STATEID);
  }
  // Tells whether the status says that the server cannot tell, or that only a part was executed.
  bool IsUnknown(client::Status status) const {
    const auto number = static_cast<nfs4::nfsstat4>(status);
    return (facts_.fate_may_be_unknown && number == nfs4::NFS4ERR_SESS01_UNKNOWN_FATE) ||
           (facts_.may_be_cut && number == nfs4::NFS4ERR_SESS01_CHAIN_BROKEN);
  }

  const std::function<SessionUse::Phase()> phase_;
};

template <class Build, class... Operations>
Task<SessionWorker::Reply<Operations...>> SessionWorker::AskAnew(std::string_view what, Bytes destination, Build build,
                                                                 std::type_identity<std::tuple<Operations...>>) {
  HandleCall(what);
  const unsigned forgotten = *facts_.forgotten;
  const TimePoint begun = world_.Now();
  auto reply = co_await session_.Call(build, what, destination);
  // The reply may come from an execution before the server was killed. Its stateids are valid only after the reclaim
  // phase, so wait for the end of that phase.
  while (!ready() && findings_.empty()) (void)co_await session_.Ready(what);
  // Other calls of the worker may go on while this one waits, so it sets the members last.
  std::optional<client::Status> refused = reply ? std::nullopt : reply.error().status;
  if (refused && IsUnknown(*refused)) {
    world_.Trace("{}: {}", name(), reply.error().message);
    refused.reset();
    co_await Sleep(world_, facts_.longest_execution);
  } else if (reply || refused) {
    *facts_.renewed = std::max(*facts_.renewed, begun);
    if (!reply) world_.Trace("{}: {}", name(), reply.error().message);
  } else {
    world_.Trace("{}: {}", name(), reply.error().message);
    if (!facts_.may_be_refused) Unexpected(what, reply.error().message);
    co_await Sleep(world_, facts_.longest_execution);
  }
  const bool forgot = *facts_.forgotten != forgotten;
  repeated_ = forgot && !facts_.replies_are_kept;
  // The server has lost this client's kept replies, so the status may come from a second execution: the result is
  // unknown.
  if (refused && MayBeDone(*refused) && forgot) refused.reset();
  refused_ = refused;
  if (reply) co_return *std::move(reply);
  co_return std::nullopt;
}

}  // namespace penstock::simulation
