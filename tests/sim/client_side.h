// ClientSide is one client of a simulation: a host with its own RDMA provider, connection and session, and the workers
// that use them.
#pragma once

#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "bound_client.h"
#include "client/nfs4/session.h"
#include "client/reconnecting_channel.h"
#include "schedule.h"
#include "server_side.h"
#include "session_worker.h"

namespace penstock::simulation {

struct ClientSide {
  const ClientPlan& plan;
  std::unique_ptr<rdma::Provider> provider;
  std::unique_ptr<client::ReconnectingChannel> channel{};
  std::unique_ptr<rpc::Client> calls{};
  std::unique_ptr<BoundClient> bound{};                   // only with a session of 2004
  std::unique_ptr<client::v4::CompoundCaller> session{};  // null in version 3
  // The same session. One of them is not null, except in version 3.
  client::v4::Session* session41 = nullptr;
  client::v4::sess01::BoundSession* session04 = nullptr;
  std::vector<std::unique_ptr<Worker>> workers{};
  rpcrdma::Client* connection = nullptr;  // the latest connection; null once it is destroyed
  uint32_t most_requested = 0;            // the highest number of credits that the client has requested
  TimePoint renewed{};                    // the client's lease was renewed at this time, or later
  unsigned forgotten = 0;                 // counts the server's losses of this client's kept replies
  TimePoint silent_until{};               // the client connects to the server only after this time

  SessionUse::Phase phase() const {
    const auto phase_of = [](const auto& lease) {
      using Step = std::remove_cvref_t<decltype(lease)>::Step;
      return lease.ready()                    ? SessionUse::Phase::kReady
             : lease.next() == Step::kReclaim ? SessionUse::Phase::kReclaiming
                                              : SessionUse::Phase::kOther;
    };
    return session41 ? phase_of(session41->lease()) : phase_of(session04->lease());
  }
  SessionUse use() const {
    return {*session, [this] { return phase(); }};
  }

  // Tells whether the server must keep this client's state: its lease has not expired (RFC 8881 §8.3), or the server
  // was killed before the lease expired and the grace period has not ended (§8.4.2.1).
  bool Keeps(const std::vector<ServerSide::Restart>& restarts, TimePoint now) const {
    TimePoint until = renewed + nfs::v4::Settings().lease;
    for (const ServerSide::Restart& restart : restarts) {
      if (restart.killed <= until) until = std::max(until, restart.grace_ends.value_or(TimePoint::max()));
    }
    return now <= until;
  }
};

}  // namespace penstock::simulation
