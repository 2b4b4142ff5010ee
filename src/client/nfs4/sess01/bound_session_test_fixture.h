// The fixture for tests of BoundSession: a session with a fake server (fake_bound_server.h), and the requests that the
// tests make in it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/test_loop.h"
#include "client/nfs4/sess01/bound_session.h"
#include "client/nfs4/sess01/fake_bound_server.h"

namespace penstock::client::v4::sess01 {

using namespace std::chrono_literals;
using Fault = FakeBoundServer::Fault;

class BoundSessionTest : public testing::Test, protected CallbackReceiver {
 protected:
  ~BoundSessionTest() override {
    if (bound && established) Run(bound->Close());
    TurnFor(loop, 1ms);
    bound.reset();
    channel.reset();
    TurnFor(loop, 1ms);
  }

  void Make() {
    channel.emplace(
        loop, [this](Duration limit) { return bound->first().Open(limit); },
        RetryPolicy{.first_delay = 1ms, .longest_delay = 5ms, .give_up_after = 20s}, &ending);
    client.emplace(*channel, loop.buffers(), rpc::Xid(1));
    const BoundSession::Parts parts{.timers = loop,
                                    .buffers = loop.buffers(),
                                    .credential = {},
                                    .connector = server,
                                    .state = *this,
                                    .retry = {.first_delay = 1ms, .longest_delay = 5ms, .give_up_after = 20s},
                                    .channel = *channel,
                                    .client = *client,
                                    .first_xid = rpc::Xid(1),
                                    .ending = &ending};
    CallerOptions caller_options{.dialect = &kSessionsOf2004, .owner = "client", .give_up_after = give_up_after};
    caller_options.max_message = max_message;
    caller_options.ending = &ending;
    bound.emplace(parts, std::move(caller_options), options);
    bound->set_reclaim([this]() -> Task<> {
      ++reclaims;
      co_return;
    });
  }
  Result<void> TryToEstablish() {
    Make();
    std::optional<Result<void>> result;
    Spawn([](BoundSession& s, auto& out) -> Task<> { out = co_await s.Establish("server"); }(*bound, result));
    EXPECT_TRUE(TurnUntil(loop, [&] { return result.has_value(); }));
    established = result->has_value();
    return *std::move(result);
  }
  void Establish() {
    const Result<void> result = TryToEstablish();
    ASSERT_TRUE(result) << result.error().message;
  }
  void Run(Task<void> task) {
    bool done = false;
    Spawn([](Task<void> inner, bool& flag) -> Task<> {
      co_await std::move(inner);
      flag = true;
    }(std::move(task), done));
    EXPECT_TRUE(TurnUntil(loop, [&] { return done; }));
  }
  using Outcome = std::optional<Result<void>>;
  template <class... Operations>
  void Start(std::tuple<Operations...> operations, Outcome& out) {
    Spawn([](BoundSession& s, std::tuple<Operations...> all, Outcome& result) -> Task<> {
      auto reply = co_await s.Call([&all] { return all; }, "name");
      if (reply) {
        result = Result<void>();
      } else {
        result = std::unexpected(reply.error());
      }
    }(*bound, std::move(operations), out));
  }
  template <class... Operations>
  Result<void> Do(std::tuple<Operations...> operations) {
    Outcome out;
    Start(std::move(operations), out);
    EXPECT_TRUE(TurnUntil(loop, [&] { return out.has_value(); }));
    return *std::move(out);
  }
  Result<void> Remove() { return Do(std::tuple(nfs4::REMOVE4args{"name"})); }
  Result<void> Lookup() { return Do(std::tuple(nfs4::LOOKUP4args{nfs4::component4("name")})); }
  // A COMPOUND that the server's sizes split, if `size` is small.
  Result<void> RemoveLongNames(size_t count_of_lookups = 3) {
    const std::string name(200, 'n');
    const nfs4::LOOKUP4args look{nfs4::component4(name)};
    const nfs4::REMOVE4args remove{name};
    return count_of_lookups == 3 ? Do(std::tuple(look, look, look, remove)) : Do(std::tuple(remove, look, look, look));
  }
  void StartRemoves(size_t count) {
    outcomes = std::vector<Outcome>(count);
    for (Outcome& outcome : outcomes) Start(std::tuple(nfs4::REMOVE4args{"name"}), outcome);
  }
  void ExpectAllToSucceed() {
    ASSERT_TRUE(TurnUntil(
        loop, [&] { return std::ranges::all_of(outcomes, [](const Outcome& each) { return each.has_value(); }); }));
    for (const Outcome& each : outcomes) EXPECT_TRUE(*each) << each->error().message;
  }
  std::shared_ptr<rpc::Message> RecallCredits(uint32_t target) {
    xdr::Encoder encoder(loop.buffers());
    rpc::EncodeCallHeader(encoder,
                          {rpc::Xid(++callback_xid), nfs4::NFS4_CALLBACK, 1, nfs4::CB_COMPOUND::kNumber, {}, {}});
    xdr::Encode(encoder, nfs4::CB_COMPOUND4args_head{"", 1, 0, 2});
    xdr::Encode(encoder, nfs4::nfs_cb_opnum4::OP_CB_OPERATION_CONTROL);
    xdr::Encode(encoder, nfs4::OPERATIONCONTROL4args{*server.back_channel(), 0, nfs4::ChainFlags::NOCHAIN});
    xdr::Encode(encoder, nfs4::nfs_cb_opnum4::OP_CB_CREDITRECALL);
    xdr::Encode(encoder, nfs4::CB_CREDITRECALLargs{target});
    return server.CallBack(encoder.Finish());
  }
  static nfsstat4 StatusOf(const rpc::Message& reply) {
    xdr::Decoder decoder(reply);
    rpc::ReplyHeader header;
    nfs4::CB_COMPOUND4res_head head;
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, header) && xdr::Decode(decoder, head));
    return head.status;
  }

  // CallbackReceiver
  nfs4::sessionid4 session() const override { return {}; }
  bool IsUnderWay(SlotUse) const override { return false; }
  void HandleSlotTarget(uint32_t) override {}
  nfsstat4 HandleRecall(const nfs4::CB_RECALL4args&) override { return nfsstat4::NFS4_OK; }
  void HandleRecallAny(const nfs4::CB_RECALL_ANY4args&) override {}
  DelegationTable::Pointer DelegationOf(const Handle&) override { return nullptr; }
  void HandleLockAvailable(const Handle&) override {}

  Loop loop;
  FakeBoundServer server{loop};
  BoundSessionOptions options{.back = BackChannelPlace::kOff};
  Duration give_up_after = kTestPatience / 2;
  uint32_t max_message = 1 << 20;
  Cancellation ending;
  std::optional<ReconnectingChannel> channel;
  std::optional<rpc::Client> client;
  std::optional<BoundSession> bound;
  std::vector<Outcome> outcomes;
  bool established = false;
  int reclaims = 0;
  uint32_t callback_xid = 0;
};

}  // namespace penstock::client::v4::sess01
