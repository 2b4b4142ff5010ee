// The parts of a simulated client that only a session of 2004 needs: it makes the connections of the session, over
// simulated TCP and RDMA, and takes the server's recalls.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "client/nfs4/callback.h"
#include "client/nfs4/sess01/bound_session.h"
#include "client/nfs4/sess01/connector.h"
#include "findings.h"
#include "rdma/sim/network.h"
#include "rpcrdma/client.h"
#include "schedule.h"

namespace penstock::simulation {

// Someone who may hold delegations.
class DelegationHolder {
 public:
  // The server recalls a delegation. Returns false if the holder does not have it.
  virtual bool HandleRecall(const nfs4::stateid4& delegation) = 0;

 protected:
  ~DelegationHolder() = default;
};

class BoundClient final : private client::v4::sess01::Connector, private client::v4::CallbackReceiver {
 public:
  struct Surroundings {
    const Schedule& schedule;
    const ClientPlan& plan;
    rdma::sim::Network& network;
    rdma::Provider& provider;
    rdma::Address rdma;  // of the server
    rdma::Address tcp;
    // Returns the options of an RDMA connection.
    std::function<rpcrdma::ClientOptions()> options;
    // Called before each connection attempt.
    std::function<Task<void>()> before_open;
    // An RDMA connection is about to be destroyed.
    std::function<void(const rpcrdma::Client&)> on_end;
    std::function<bool()> may_lose;  // whether the plan of failures may go on
  };
  explicit BoundClient(Surroundings surroundings) : surroundings_(std::move(surroundings)) {}
  ~BoundClient();

  // The opener of `channel` must call first().Open() of the session. The arguments outlive the session.
  std::unique_ptr<client::v4::sess01::BoundSession> MakeSession(client::ReconnectingChannel& channel,
                                                                rpc::Client& client, rpc::Xid first_xid,
                                                                rpc::ClientCredential credential, std::string owner);
  void Add(DelegationHolder& holder) { holders_.push_back(&holder); }
  // The RDMA connections that exist.
  const std::set<rpcrdma::Client*>& connections() const { return connections_; }

 private:
  class Tracked;

  // Connector
  nfs4::ConnectionMode mode(nfs4::ChannelType type) const override;
  uint32_t max_message() const override { return surroundings_.plan.max_message; }
  bool starts_in_rdma_mode() const override { return surroundings_.plan.protocol == client::Protocol::kRdma; }
  Task<Opened> Open(Duration time_limit, Ends ends) override;
  Task<Opened> StepUp(std::unique_ptr<rpc::Channel> tcp, rpc::ConnectionLimits limits, Ends ends) override;
  void SetLimits(rpc::Channel& rdma, const rpc::ConnectionLimits& limits) override;
  Task<bool> ReturnCredits(rpc::Channel& rdma, uint32_t target) override;
  uint32_t Credits(rpc::Channel& rdma) const override;

  // CallbackReceiver
  nfs4::sessionid4 session() const override { return {}; }
  bool IsUnderWay(client::v4::SlotUse) const override { return false; }
  void HandleSlotTarget(uint32_t) override {}
  nfs4::nfsstat4 HandleRecall(const nfs4::CB_RECALL4args& recall) override;
  void HandleRecallAny(const nfs4::CB_RECALL_ANY4args&) override {}
  client::v4::DelegationTable::Pointer DelegationOf(const client::Handle&) override { return nullptr; }
  void HandleLockAvailable(const client::Handle&) override {}

  const Surroundings surroundings_;
  std::vector<DelegationHolder*> holders_;
  std::set<rpcrdma::Client*> connections_;
};

}  // namespace penstock::simulation
