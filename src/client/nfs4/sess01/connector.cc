#include "client/nfs4/sess01/connector.h"

#include <algorithm>
#include <utility>

#include "client/connect.h"
#include "rpc/tcp/channel.h"
#include "rpcrdma/client.h"

namespace penstock::client::v4::sess01 {
namespace {

// The largest message over TCP: a payload of 1 MiB and its surroundings.
constexpr uint32_t kMaxRecord = (1 << 20) + (64 << 10);
// The largest Send with a reply over an RDMA connection that is one from the start.
constexpr uint32_t kMaxSend = 8192;
// The largest Send with a call that servers allow for many calls at once.
constexpr uint32_t kUsualCall = 16 << 10;
// The octets of the calls at once that servers have room for.
constexpr uint32_t kRoomForCalls = 64 * kUsualCall;
// The room for what surrounds the data of a call, with a pad in front of them.
constexpr uint32_t kAroundData = 8192;

ChannelOptions OptionsOf(Connector::Ends ends, Cancellation* ending, Duration time_limit = Duration::max()) {
  ChannelOptions options;
  options.time_limit = time_limit;
  options.back_channel = ends.handler;
  options.on_lost = std::move(ends.on_lost);
  options.cancellation = ending;
  return options;
}

}  // namespace

nfs4::ConnectionMode UrlConnector::mode(nfs4::ChannelType type) const {
  switch (url_.protocol) {
    case Protocol::kTcp:
      return nfs4::ConnectionMode::STREAM;
    case Protocol::kRdma:
      return nfs4::ConnectionMode::RDMA;
    case Protocol::kStepUp:
      // Callbacks are small and need no RDMA (§2.6).
      return type == nfs4::ChannelType::BACK ? nfs4::ConnectionMode::STREAM : nfs4::ConnectionMode::RDMA;
  }
  return nfs4::ConnectionMode::STREAM;
}

uint32_t UrlConnector::max_message() const { return starts_in_rdma_mode() ? kMaxSend : kMaxRecord; }

uint32_t UrlConnector::inline_call() const { return std::max(kUsualCall, url_.inline_data.value_or(0) + kAroundData); }

// A connection that asks to step up may stay on TCP.
uint32_t UrlConnector::max_call() const { return starts_in_rdma_mode() ? inline_call() : kMaxRecord; }

uint32_t UrlConnector::max_calls() const {
  return url_.protocol == Protocol::kTcp ? Connector::max_calls() : kRoomForCalls / inline_call();
}

Task<Connector::Opened> UrlConnector::Open(Duration time_limit, Ends ends) {
  ChannelOptions options = OptionsOf(std::move(ends), ending_, time_limit);
  if (starts_in_rdma_mode()) options.agrees_on = kMaxSend;
  return OpenChannel(loop_, workers_, url_, provider_, std::move(options));
}

Task<Connector::Opened> UrlConnector::StepUp(std::unique_ptr<rpc::Channel> tcp, rpc::ConnectionLimits limits,
                                             Ends ends) {
  auto& channel = static_cast<rpc::tcp::Channel&>(*tcp);
  ChannelOptions options = OptionsOf(std::move(ends), ending_);
  Opened stepped = co_await client::StepUp(loop_, channel, *provider_, limits, url_, std::move(options));
  // The released channel needs one more turn of the loop.
  co_await Sleep(loop_, Duration::zero());
  co_return stepped;
}

void UrlConnector::SetLimits(rpc::Channel& rdma, const rpc::ConnectionLimits& limits) {
  static_cast<rpcrdma::Client&>(rdma).Bind(limits);
}

Task<bool> UrlConnector::ReturnCredits(rpc::Channel& rdma, uint32_t target) {
  return static_cast<rpcrdma::Client&>(rdma).ReturnCredits(target);
}

uint32_t UrlConnector::Credits(rpc::Channel& rdma) const {
  return static_cast<rpcrdma::Client&>(rdma).requester().credits().granted();
}

}  // namespace penstock::client::v4::sess01
