// A Worker by NFS version 4.1, through the client's own session: what must not be executed twice, the slots know. What he has open he
// has again when the server was killed.
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

  // What is known of a file's open.
  struct File {
    nfs4::nfs_fh4 handle;
    std::optional<nfs4::stateid4> stateid{};
    uint64_t epoch = 0;     // that the stateid is of, see client::v4::Session
    bool doubtful = false;  // OPEN or CLOSE had no reply: the server may have it open all the same
  };

  template <class... Operations>
  using Reply = std::optional<client::v4::CompoundReply<Operations...>>;
  // No value where the call has failed: refused_ says whether it was the server that said no, and why.
  template <class... Operations>
  Task<Reply<Operations...>> Ask(std::string_view what, Bytes destination, Operations... operations) {
    const std::tuple<Operations...> compound(std::move(operations)...);
    const auto build = [&compound] { return compound; };
    co_return co_await AskAnew(what, destination, build, std::type_identity<std::tuple<Operations...>>());
  }
  // With operations that are others when the server has been killed, because their stateids are.
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
  // In the session's reclaim phase. Ends where that does.
  Task<void> ReclaimFile(File& file);
  // What is to become of a request that reclaims something.
  enum class Reclaimed : uint8_t { kYes, kNo, kAgain };
  Reclaimed JudgeReclaim(std::optional<nfs4::nfsstat4> status);
  bool reclaiming() const;
  // Anonymous where it is lost: such a READ or WRITE does not depend on it, and such a CLOSE fails.
  static nfs4::stateid4 StateIdOf(const File& file) { return file.stateid.value_or(nfs4::stateid4{}); }

  client::v4::Session& session_;
  std::optional<client::Status> refused_;

 private:
  template <class Build, class... Operations>
  Task<Reply<Operations...>> AskAnew(std::string_view what, Bytes destination, Build build,
                                     std::type_identity<std::tuple<Operations...>>);
  // Whether a second execution may give this status although the first one succeeded: it finds its work done, or the disk fails.
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
  // It may be the answer to what was executed before the server was killed: what is true of it is known when all is reclaimed.
  while (!session_.lease().ready() && findings_.empty()) (void)co_await session_.Ready(what);
  refused_ = reply ? std::nullopt : reply.error().status;
  if (reply || refused_) *facts_.renewed = std::max(*facts_.renewed, begun);
  if (reply) co_return *std::move(reply);
  world_.Trace("{}: {}", name(), reply.error().message);
  if (!refused_ && !facts_.may_be_refused) Unexpected(what, reply.error().message);
  if (!refused_) co_await Sleep(world_, facts_.longest_execution);
  // Where the server has forgotten that it had executed it, nobody knows.
  if (refused_ && MayBeDone(*refused_) && *facts_.forgotten != forgotten) refused_.reset();
  co_return std::nullopt;
}

}  // namespace penstock::simulation
