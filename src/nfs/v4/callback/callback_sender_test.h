// The fixture for tests of CallbackSender: a sender with a simulated clock, a client in the state tables, and
// connections whose replies a test chooses.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/task.h"
#include "nfs/v4/callback/callback_sender.h"
#include "nfs/v4/callback/test_client.h"
#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/clients/test_clients.h"
#include "rdma/sim/world.h"
#include "rpc/transport.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

inline const SocketAddress kListener(asio::ip::make_address("127.0.0.1"), 2049);

// A connection whose client replies by the function `answer`. If the function returns no reply, the call waits until
// the connection is lost or the call times out.
class ScriptedChannel : public rpc::BackChannel {
 public:
  using Answer = std::function<std::optional<CallbackReply>(const ReceivedCallback&)>;

  ScriptedChannel(BufferPool& buffers, Answer answer) : BackChannel(PeerWith(buffers)), answer_(std::move(answer)) {}

  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape) override {
    if (!connected()) co_return std::unexpected(rpc::CallError::kDisconnected);
    received.push_back(Receive(call));
    if (const auto reply = answer_(received.back())) co_return ReplyTo(buffers(), received.back(), *reply);
    OneShot<rpc::CallError> failed;
    waiting_.push_back(&failed);
    co_return std::unexpected(co_await failed);
  }
  void CloseConnection(std::string) override { Fail(rpc::CallError::kDisconnected); }
  void Withdraw(uint32_t credits, Duration limit) override { withdrawn.emplace_back(credits, limit); }
  void Fail(rpc::CallError error) {
    if (error == rpc::CallError::kDisconnected) set_disconnected();
    for (auto* failed : std::exchange(waiting_, {})) failed->Set(error);
  }

  std::vector<ReceivedCallback> received;
  std::vector<std::pair<uint32_t, Duration>> withdrawn;  // credits, and the time to return the others

 private:
  static rpc::Peer PeerWith(BufferPool& buffers) {
    rpc::Peer peer;
    peer.buffers = &buffers;
    return peer;
  }
  Answer answer_;
  std::vector<OneShot<rpc::CallError>*> waiting_;
};

inline std::optional<CallbackReply> Good(const ReceivedCallback&) { return CallbackReply{}; }
inline std::optional<CallbackReply> Silent(const ReceivedCallback&) { return std::nullopt; }

class CallbackSenderTest : public testing::Test {
 protected:
  ~CallbackSenderTest() override {
    caller_.Stop();
    for (const auto& channel : channels_) channel->Fail(rpc::CallError::kDisconnected);
    EXPECT_EQ(caller_.under_way(), 0u);
  }

  std::shared_ptr<ScriptedChannel> MakeChannel(ScriptedChannel::Answer answer) {
    channels_.push_back(std::make_shared<ScriptedChannel>(buffers_, std::move(answer)));
    return channels_.back();
  }
  // Adds a client of minor version 1 with a session over the connection.
  void Open(const std::shared_ptr<ScriptedChannel>& channel, std::string_view owner = "owner") {
    state_.Run([&](StateTables& state) {
      const auto made =
          state.Exchange({.verifier = Verifier(1), .owner = owner, .dialect = DialectOf(1)}, User(0), world_.Now());
      client_ = made->id;
      session_ = AddSession(state, made->sequence, channel);
    });
  }
  SessionId AddSession(StateTables& state, SequenceId sequence, const std::shared_ptr<ScriptedChannel>& channel) {
    const uint64_t connection = ++connections_;
    const auto created = state.CreateSession(
        {.client = client_,
         .sequence = sequence,
         .back_channel = true,
         .fore = PlainChannel(),
         .back = PlainChannel(2),
         .callback_program = 0x40000005,
         .callback_credential = rpc::ClientCredential({.machine = "me", .uid = 7, .gid = 8, .groups = {}})},
        {connection, channel}, User(0), connection, world_.Now());
    return created.reply.csr_resok4().csr_sessionid;
  }
  // Adds a client of minor version 0.
  void OpenMinorZero(std::optional<SocketAddress> endpoint = kListener,
                     std::optional<CallbackSecurity> security = std::nullopt) {
    state_.Run([&](StateTables& state) {
      const CallbackAddress callback{
          .program = 0x40000009, .endpoint = std::move(endpoint), .identifier = 3, .security = std::move(security)};
      const auto set = state.Set({.verifier = Verifier(1), .id = "x", .callback = callback, .dialect = DialectOf(0)},
                                 User(0), ++connections_, world_.Now());
      client_ = set->id;
      ASSERT_EQ(state.Confirm(set->id, set->confirmation, User(0), world_.Now()), NFS4_OK);
    });
  }
  void Bind(const std::shared_ptr<ScriptedChannel>& channel) {
    ASSERT_TRUE(state_.Run([&](StateTables& state) {
      return state.sessions.Bind(session_, {++connections_, channel}, CDFC4_BACK_OR_BOTH, {});
    }));
  }
  stateid4 Delegate() {
    return state_.Run([&](StateTables& state) {
      const DelegationFacts facts{.want = Want::kRead, .share = {OPEN4_SHARE_ACCESS_READ, 0}, .can_call_back = true};
      const NamedFile file{kFile, {}};
      const auto given = state.files.delegations.Delegate(
          {.client = client_, .file = file, .dialect = DialectOf(1), .facts = facts}, world_.Now());
      return given.read().stateid;
    });
  }
  PathState Path() {
    return state_.Run([&](StateTables& state) { return state.clients.Find(client_)->path; });
  }
  void OffloadDone() { Spawn(caller_.OffloadDone(client_, kFile, stateid4{}, offload_info4(NFS4ERR_IO, length4{5}))); }

  static constexpr size_t kDelegations = 16;  // of all clients

  rdma::sim::World world_{1};
  BufferPool buffers_;
  Settings settings_{};
  State state_{{.settings = settings_, .instance = 0x65000000, .limits = {.delegations = kDelegations}}};
  uint64_t connections_ = 0;
  ClientId client_;
  SessionId session_{};
  std::vector<std::shared_ptr<ScriptedChannel>> channels_;
  std::vector<SocketAddress> connected_to_;
  std::shared_ptr<ScriptedChannel> listener_;  // the result of every connection to a client of minor version 0
  CallbackSender caller_{state_,
                         nullptr,
                         world_,
                         buffers_,
                         [this](const CallbackAddress& to) -> Task<std::shared_ptr<rpc::Channel>> {
                           connected_to_.push_back(*to.endpoint);
                           co_return listener_;
                         },
                         {.again = std::chrono::seconds(1),
                          .patience = std::chrono::seconds(90),
                          .for_attributes = std::chrono::seconds(3),
                          .max_calls = 8,
                          .max_probes = 4,
                          .max_recall_anys = 3}};
};

}  // namespace penstock::nfs::v4
