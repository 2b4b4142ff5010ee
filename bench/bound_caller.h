// A session of 2004 with one operations channel whose user chooses the streamid and the chain flag of every request
// (draft-talpey-nfsv4-rdma-sess-01 §2.7, §6.4). The client library chooses both by itself: it makes chains only of
// COMPOUNDs that are too large.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/loop.h"
#include "base/workers.h"
#include "client/error.h"
#include "client/nfs4/operations.h"
#include "client/nfs4/sess01/connector.h"
#include "client/url.h"
#include "rdma/provider.h"
#include "rpc/client.h"

namespace penstock::bench {

// Belongs to its loop. It does not reconnect: a lost connection is an error.
class BoundCaller {
 public:
  // `url` names the model. The server must grant at least `requests` requests at once. `workers` look up the host. All
  // arguments outlive the caller. `provider` may be null over TCP.
  static Task<client::Result<std::unique_ptr<BoundCaller>>> Open(Loop& loop, Workers& workers, const client::Url& url,
                                                                 rdma::Provider* provider, uint32_t requests);
  // Ends the session at the server. Call it last.
  Task<client::Result<void>> Close();

  // Sends one request, and waits for its reply. The error says if the server has not executed all of it.
  template <class... Arguments>
  Task<client::Result<client::v4::CompoundReply<Arguments...>>> Call(uint32_t stream, nfs4::ChainFlags flag,
                                                                     std::tuple<Arguments...> operations) {
    const std::tuple all = std::tuple_cat(std::tuple(nfs4::OPERATIONCONTROL4args{channel_, stream, flag}), operations);
    auto reply = co_await Send(all, "a request");
    if (!reply) co_return std::unexpected(std::move(reply).error());
    client::v4::CompoundReply<Arguments...> rest;
    rest.message = std::move(reply->message);
    rest.count = reply->count - 1;
    rest.results =
        std::apply([](auto&, auto&... results) { return std::tuple(std::move(results)...); }, reply->results);
    co_return rest;
  }

 private:
  BoundCaller(Loop& loop, Workers& workers, const client::Url& url, rdma::Provider* provider)
      : loop_(loop), url_(url), connector_(loop, workers, url_, provider) {}

  Task<client::Result<void>> Create(bool persist, uint32_t requests);
  Task<client::Result<void>> Bind(uint32_t requests);
  void Use(std::unique_ptr<rpc::Channel> channel);

  // Sends a COMPOUND. An error of one of its operations is an error.
  template <class... Arguments>
  Task<client::Result<client::v4::CompoundReply<Arguments...>>> Send(const std::tuple<Arguments...>& operations,
                                                                     std::string_view what) {
    client::v4::CompoundReply<Arguments...> reply;
    const auto encode = [&](xdr::Encoder& encoder) { client::v4::EncodeCompound(encoder, 1, operations); };
    const auto decode = [&](xdr::Decoder& decoder) { return client::v4::DecodeCompound(decoder, reply); };
    rpc::ReplyShape shape = client::v4::ShapeOf(operations, {});
    auto message = co_await client_->CallWith<nfs4::NFSPROC4_COMPOUND>(encode, std::move(shape), decode);
    if (!message) co_return std::unexpected(client::Error{fmt::format("{}: {}", what, Describe(message.error())), {}});
    reply.message = *std::move(message);
    if (reply.status != nfs4::nfsstat4::NFS4_OK) {
      co_return std::unexpected(client::ErrorOf(static_cast<client::Status>(reply.status), what));
    }
    co_return reply;
  }

  Loop& loop_;
  const client::Url url_;
  client::v4::sess01::UrlConnector connector_;
  std::unique_ptr<rpc::Channel> transport_;
  std::unique_ptr<rpc::Client> client_;
  uint64_t session_ = 0;
  uint32_t channel_ = 0;
};

}  // namespace penstock::bench
