// SessionWorker is the base of the workers that use NFS version 4.1, through their client's session. It checks that the
// session's slots prevent second executions, and that the worker can reclaim its opens after a restart of the server.
#pragma once

#include <tuple>
#include <type_traits>

#include "client/nfs4/session.h"
#include "worker.h"

namespace penstock::simulation {

class SessionWorker : public Worker {
 protected:
  SessionWorker(rdma::sim::World& world, Findings& findings, Facts facts, client::v4::Session& session)
      : Worker(world, findings, std::move(facts)), session_(session) {}

  // The worker's open of one file.
  struct File {
    nfs4::nfs_fh4 handle;
    std::optional<nfs4::stateid4> stateid{};
    uint64_t epoch = 0;     // the epoch of the stateid, see client::v4::Session
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

  nfs4::OPEN4args MakeOpen(nfs4::openflag4 how, nfs4::open_claim4 claim) const;
  void HandleOpened(File& file, const nfs4::OPEN4res& opened, uint64_t epoch);
  Task<void> OpenFile(nfs4::nfs_fh4 directory, const std::string& name, File& file);
  Task<void> CloseFile(File& file);
  // Reclaims the open during the session's reclaim phase. Returns when that phase ends, at the latest.
  Task<void> ReclaimFile(File& file);
  // The result of a reclaim request: granted, refused, or to be repeated.
  enum class Reclaimed : uint8_t { kYes, kNo, kAgain };
  Reclaimed JudgeReclaim(std::optional<nfs4::nfsstat4> status);
  bool reclaiming() const;
  // Returns the stateid, or the anonymous one if it is lost: READ and WRITE succeed without it, and CLOSE fails.
  static nfs4::stateid4 StateIdOf(const File& file) { return file.stateid.value_or(nfs4::stateid4{}); }

  client::v4::Session& session_;
  std::optional<client::Status> refused_;

 private:
  template <class Build, class... Operations>
  Task<Reply<Operations...>> AskAnew(std::string_view what, Bytes destination, Build build,
                                     std::type_identity<std::tuple<Operations...>>);
  // Tells whether a second execution may fail with this status although the first one succeeded: the change is already
  // made, or the disk fails.
  bool MayBeDone(client::Status status) const {
    return status == client::Status::kExists || status == client::Status::kNotFound || IsDisksFault(status);
  }
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
  while (!session_.lease().ready() && findings_.empty()) (void)co_await session_.Ready(what);
  refused_ = reply ? std::nullopt : reply.error().status;
  if (reply || refused_) *facts_.renewed = std::max(*facts_.renewed, begun);
  if (reply) co_return *std::move(reply);
  world_.Trace("{}: {}", name(), reply.error().message);
  if (!refused_ && !facts_.may_be_refused) Unexpected(what, reply.error().message);
  if (!refused_) co_await Sleep(world_, facts_.longest_execution);
  // The server has lost this client's kept replies, so the status may come from a second execution: the result is
  // unknown.
  if (refused_ && MayBeDone(*refused_) && *facts_.forgotten != forgotten) refused_.reset();
  co_return std::nullopt;
}

}  // namespace penstock::simulation
