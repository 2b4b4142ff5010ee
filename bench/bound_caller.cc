#include "bound_caller.h"

#include <unistd.h>

#include <random>

#include "client/nfs4/sess01/link.h"
#include "client/set_up.h"

namespace penstock::bench {

using client::v4::sess01::BoundOf;
using nfs4::ChannelType;
using nfs4::ConnectionMode;

Task<client::Result<std::unique_ptr<BoundCaller>>> BoundCaller::Open(Loop& loop, Workers& workers,
                                                                     const client::Url& url, rdma::Provider* provider,
                                                                     uint32_t requests) {
  std::unique_ptr<BoundCaller> caller(new BoundCaller(loop, workers, url, provider));
  client::v4::sess01::Connector::Ends ends;
  auto opened = co_await caller->connector_.Open(url.recovery.CallLimit(), std::move(ends));
  if (!opened) co_return std::unexpected(client::Error{opened.error().message, {}, opened.error().number});
  caller->Use(*std::move(opened));
  // Over RDMA the client keeps the last credit for a probe of the server's health (RFC 8267 §6.7.2).
  const uint32_t credits = requests + 1;
  PENSTOCK_CO_CHECK(co_await caller->Create(url.session.persist, credits));
  PENSTOCK_CO_CHECK(co_await caller->Bind(credits));
  co_return caller;
}

void BoundCaller::Use(std::unique_ptr<rpc::Channel> channel) {
  client_.reset();
  transport_ = std::move(channel);
  client_ =
      std::make_unique<rpc::Client>(*transport_, loop_.buffers(), rpc::RandomXid(), client::SystemCredentialOf(url_));
}

Task<client::Result<void>> BoundCaller::Create(bool persist, uint32_t requests) {
  std::random_device random;
  const std::string owner = fmt::format("sess01_bench {} {:08x}{:08x}", ::getpid(), random(), random());
  nfs4::SESSIONCREATE4args arguments;
  arguments.clientid.id = AsBytes(owner);
  arguments.persist = persist;
  arguments.totalrequests = requests;
  const std::tuple operations(arguments);
  auto reply = co_await Send(operations, "SESSION_CREATE");
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs4::SESSIONCREATE4resok& created = std::get<0>(reply->results).resok4();
  if (created.totalrequests < requests) {
    co_return std::unexpected(client::Error{
        fmt::format("the server grants a session {} requests at once, not {}", created.totalrequests, requests), {}});
  }
  session_ = created.sessionid;
  co_return client::Result<void>();
}

Task<client::Result<void>> BoundCaller::Bind(uint32_t requests) {
  const ConnectionMode mode = connector_.mode(ChannelType::OPERATION);
  const nfs4::SESSIONBIND4args arguments{.sessionid = session_,
                                         .channel = ChannelType::OPERATION,
                                         .mode = mode,
                                         .maxrequestsize = connector_.max_message(),
                                         .maxresponsesize = connector_.max_message(),
                                         .headerpadsize = 0,
                                         .maxrequests = requests,
                                         .maxrdmareads = 0,
                                         .transportattrs = {}};
  const std::tuple operations(arguments);
  auto reply = co_await Send(operations, "SESSION_BIND");
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const auto bound = BoundOf(std::get<0>(reply->results), arguments);
  if (!bound) co_return std::unexpected(client::Error{bound.error(), {}});
  if (bound->limits.credits < requests) {
    co_return std::unexpected(client::Error{
        fmt::format("the server grants a channel {} requests at once, not {}", bound->limits.credits, requests), {}});
  }
  if (bound->mode != mode) {
    co_return std::unexpected(client::Error{"the server does not grant RDMA mode (--sess01 rdma)", {}});
  }
  channel_ = bound->channel;
  // This code may run inside of the connection.
  co_await Sleep(loop_, Duration::zero());
  if (connector_.starts_in_rdma_mode()) {
    connector_.SetLimits(*transport_, bound->limits);
  } else if (mode == ConnectionMode::RDMA) {
    client::v4::sess01::Connector::Ends ends;
    auto stepped = co_await connector_.StepUp(std::move(transport_), bound->limits, std::move(ends));
    if (!stepped) co_return std::unexpected(client::Error{stepped.error().message, {}, stepped.error().number});
    Use(*std::move(stepped));
  }
  co_return client::Result<void>();
}

Task<client::Result<void>> BoundCaller::Close() {
  const std::tuple<client::v4::DestroyBoundSession> operations;
  auto ended = co_await Call(0, nfs4::ChainFlags::NOCHAIN, operations);
  // This code may run inside of the connection, which the caller is about to destroy.
  co_await Sleep(loop_, Duration::zero());
  if (!ended) co_return std::unexpected(std::move(ended).error());
  co_return client::Result<void>();
}

}  // namespace penstock::bench
