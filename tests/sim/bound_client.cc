#include "bound_client.h"

#include <algorithm>
#include <utility>

#include "stream_channel.h"

namespace penstock::simulation {

using client::Protocol;
using nfs4::ConnectionMode;

namespace {

// A payload of 64 KiB and its surroundings.
constexpr uint32_t kMaxMessage = 80 << 10;

}  // namespace

// An RDMA connection that the checks of the simulation see.
class BoundClient::Tracked final : public rpc::Channel {
 public:
  Tracked(BoundClient& client, std::unique_ptr<rpcrdma::Client> connection)
      : client_(client), connection_(std::move(connection)) {
    client_.connections_.insert(connection_.get());
  }
  ~Tracked() override {
    client_.connections_.erase(connection_.get());
    client_.surroundings_.on_end(*connection_);
  }
  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override {
    return connection_->Call(std::move(call), std::move(shape));
  }
  rpcrdma::Client& connection() { return *connection_; }

 private:
  BoundClient& client_;
  const std::unique_ptr<rpcrdma::Client> connection_;
};

BoundClient::~BoundClient() = default;

std::unique_ptr<client::v4::sess01::BoundSession> BoundClient::MakeSession(client::ReconnectingChannel& channel,
                                                                           rpc::Client& client, rpc::Xid first_xid,
                                                                           rpc::ClientCredential credential,
                                                                           std::string owner) {
  const client::v4::CallerOptions options{.dialect = &client::v4::kSessionsOf2004,
                                          .owner = std::move(owner),
                                          .slots = surroundings_.plan.slots,
                                          .max_message = kMaxMessage};
  client::v4::sess01::BoundSession::Parts parts{.timers = surroundings_.network.world(),
                                                .buffers = surroundings_.provider.buffers(),
                                                .credential = std::move(credential),
                                                .connector = *this,
                                                .state = *this,
                                                .retry = surroundings_.schedule.retry,
                                                .channel = channel,
                                                .client = client,
                                                .first_xid = first_xid};
  return std::make_unique<client::v4::sess01::BoundSession>(std::move(parts), options, surroundings_.plan.session);
}

ConnectionMode BoundClient::mode(nfs4::ChannelType type) const {
  switch (surroundings_.plan.protocol) {
    case Protocol::kTcp:
      return ConnectionMode::STREAM;
    case Protocol::kRdma:
      return ConnectionMode::RDMA;
    case Protocol::kStepUp:
      return type == nfs4::ChannelType::BACK ? ConnectionMode::STREAM : ConnectionMode::RDMA;
  }
  return ConnectionMode::STREAM;
}

Task<client::v4::sess01::Connector::Opened> BoundClient::Open(Duration /*time_limit*/, Ends ends) {
  co_await surroundings_.before_open();
  rdma::sim::Network& network = surroundings_.network;
  rdma::sim::World& world = network.world();
  // One of the first steps: the connection, SESSION_CREATE, SESSION_BIND, stepping up, and the first requests.
  if (surroundings_.may_lose() && world.random().Chance(surroundings_.schedule.bound->lose_set_up)) {
    network.faults().lose_at = network.steps() + world.random().Between(1, 14);
  }
  if (!starts_in_rdma_mode()) {
    StreamChannel::Options options{.back_channel = ends.handler, .on_closed = std::move(ends.on_lost)};
    auto connected =
        co_await StreamChannel::Connect(network, surroundings_.provider, surroundings_.tcp, std::move(options));
    if (!connected) co_return std::unexpected(SetupError{"the server cannot be reached", EHOSTUNREACH});
    co_return std::move(connected);
  }
  rpcrdma::ClientOptions options = surroundings_.options();
  options.requester.one_receive_first = true;
  options.max_agreed_size = std::max(max_message(), options.private_data.receive_size);
  options.back_channel = ends.handler;
  options.on_lost = std::move(ends.on_lost);
  auto connected = co_await rpcrdma::Connect(surroundings_.provider, surroundings_.rdma, std::move(options), world);
  if (!connected) co_return std::unexpected(SetupError{connected.error().detail, EHOSTUNREACH});
  co_return std::make_unique<Tracked>(*this, *std::move(connected));
}

Task<client::v4::sess01::Connector::Opened> BoundClient::StepUp(std::unique_ptr<rpc::Channel> tcp,
                                                                rpc::ConnectionLimits limits, Ends ends) {
  auto socket = static_cast<StreamChannel&>(*tcp).Release();
  if (!socket) co_return std::unexpected(SetupError{"the connection is not idle", EPROTO});
  rpcrdma::ClientOptions options = surroundings_.options();
  options.back_channel = ends.handler;
  options.on_lost = std::move(ends.on_lost);
  rdma::sim::World& world = surroundings_.network.world();
  auto stepped =
      co_await rpcrdma::StepUp(surroundings_.provider, *std::move(socket), limits, std::move(options), world);
  co_await Sleep(world, Duration::zero());
  if (!stepped) co_return std::unexpected(SetupError{stepped.error().detail, EPROTO});
  co_return std::make_unique<Tracked>(*this, *std::move(stepped));
}

void BoundClient::SetLimits(rpc::Channel& rdma, const rpc::ConnectionLimits& limits) {
  static_cast<Tracked&>(rdma).connection().Bind(limits);
}

Task<bool> BoundClient::ReturnCredits(rpc::Channel& rdma, uint32_t target) {
  return static_cast<Tracked&>(rdma).connection().ReturnCredits(target);
}

uint32_t BoundClient::Credits(rpc::Channel& rdma) const {
  return static_cast<Tracked&>(rdma).connection().requester().credits().granted();
}

nfs4::nfsstat4 BoundClient::HandleRecall(const nfs4::CB_RECALL4args& recall) {
  const bool is_known =
      std::ranges::any_of(holders_, [&](DelegationHolder* holder) { return holder->HandleRecall(recall.stateid); });
  return is_known ? nfs4::NFS4_OK : nfs4::NFS4ERR_BAD_STATEID;
}

}  // namespace penstock::simulation
