// One client of a simulation: a host of its own, and those who work there.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "client/nfs4/session.h"
#include "client/reconnecting_channel.h"
#include "schedule.h"
#include "server_side.h"
#include "worker.h"

namespace penstock::simulation {

struct ClientSide {
  const ClientPlan& plan;
  std::unique_ptr<rdma::Provider> provider;
  std::unique_ptr<client::ReconnectingChannel> channel{};
  std::unique_ptr<rpc::Client> calls{};
  std::unique_ptr<client::v4::Session> session{};  // where version 4.1 is spoken
  std::vector<std::unique_ptr<Worker>> workers{};
  rpcrdma::Client* connection = nullptr;  // the last that was made, while it is there
  uint32_t most_requested = 0;
  TimePoint renewed{};       // what the server has heard of it was sent then, or later
  unsigned forgotten = 0;    // how often the server has forgotten what it had executed for it
  TimePoint silent_until{};  // no connection of its is made before

  // Whether nobody may take from it what it has: its lease is not over (RFC 8881 §8.3), or the server has been killed before it was,
  // and the grace period is not over (§8.4.2.1).
  bool Keeps(const std::vector<ServerSide::Restart>& restarts, TimePoint now) const {
    TimePoint until = renewed + nfs::v4::Settings().lease;
    for (const ServerSide::Restart& restart : restarts) {
      if (restart.killed <= until) until = std::max(until, restart.grace_ends.value_or(TimePoint::max()));
    }
    return now <= until;
  }
};

}  // namespace penstock::simulation
