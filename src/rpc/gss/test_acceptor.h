// For tests: a dispatcher with RPCSEC_GSS, and its clients.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/refusal_log.h"
#include "rpc/gss/acceptor.h"
#include "rpc/gss/test_mechanism.h"
#include "rpc/test_program.h"

namespace penstock::rpc::gss {

using W = std::vector<uint32_t>;

// A clock that the test advances.
struct ManualClock : TimerService {
  TimePoint Now() const override { return now; }
  std::unique_ptr<Timer> MakeTimer(std::function<void()>) override { return nullptr; }
  TimePoint now{};
};

class FlavorTest : public ::testing::Test {
 protected:
  using Spoil = testing::Spoil;
  using Target = testing::Target;

  // `workers`, if given, must outlive this object.
  explicit FlavorTest(std::shared_ptr<Mechanism> of, Workers* workers = nullptr)
      : mechanism_(std::move(of)), workers_(workers) {
    dispatcher.Add(program);
    dispatcher.Offer(acceptor);
    peer.buffers = &pool;
    peer.address = {asio::ip::make_address("192.0.2.1"), 700};
  }

  static Target To(uint32_t procedure) {
    return {.program = rpc::testing::kTestProgram, .version = 3, .procedure = procedure};
  }

  // Stores the reply in `reply` when the call is done.
  void Start(Message call, std::optional<Message>& reply) {
    Spawn([](FlavorTest& self, Message message, std::optional<Message>& out) -> Task<void> {
      out = co_await self.dispatcher.HandleCall(std::move(message), self.peer);
    }(*this, std::move(call), reply));
  }
  Message Reply(Message call) {
    std::optional<Message> reply;
    Start(std::move(call), reply);
    EXPECT_TRUE(reply);
    return reply.value_or(Message());
  }
  static W WordsOf(const Message& message) {
    const ConstBytes bytes = message.stream.bytes();
    W words;
    for (size_t i = 0; i + 4 <= bytes.size(); i += 4) words.push_back(LoadBig<uint32_t>(bytes.data() + i));
    return words;
  }
  W Words(Message call) { return WordsOf(Reply(std::move(call))); }
  // Returns the status of an accepted reply with a verifier of any length.
  static AcceptStatus StatusOf(const Message& reply) {
    const W words = WordsOf(reply);
    return static_cast<AcceptStatus>(words.at(5 + RoundUp(words.at(4), 4) / 4));
  }

  Message Encoded(const W& words) {
    xdr::Encoder encoder(pool);
    for (const uint32_t word : words) encoder.U32(word);
    return encoder.Finish();
  }

  // Establishes a context. Returns the number of calls for it.
  int Establish(testing::Initiator& client) {
    int calls = 0;
    while (!client.established() && calls < 10) {
      ++calls;
      const Message reply = Reply(client.Create(Xid(5), To(0)));
      const auto results = client.HandleCreated(reply);
      if (!results || results->gss_major > 1) break;
    }
    EXPECT_TRUE(client.established());
    return calls;
  }

  // Calls with the next sequence number, and returns the results, or nullopt if their seal is wrong.
  std::optional<W> Results(testing::Initiator& client, GssService service, uint32_t procedure, const W& arguments,
                           uint32_t xid = 5) {
    const uint32_t number = ++sequence;
    const Message reply = Reply(client.Call(Xid(xid), To(procedure), service, number, Encoded(arguments)));
    const auto results = client.Open(reply, service, number);
    if (!results) return std::nullopt;
    return WordsOf(*results);
  }

  BufferPool pool;
  ManualClock clock;
  ReplyCache cache;
  rpc::testing::TestProgram program;
  const std::shared_ptr<Mechanism> mechanism_;
  Workers* const workers_;
  uint8_t next_handle = 1;
  std::optional<IpAddress> protected_host;  // may make CCM contexts
  RefusalLog refusals;
  Acceptor acceptor{{.mechanism = *mechanism_,
                     .clock = clock,
                     .random = [this](Bytes room) { std::ranges::fill(room, std::byte{next_handle++}); },
                     .pool = workers_,
                     .negotiators = workers_,
                     .is_protected = [this](const IpAddress& host) { return host == protected_host; },
                     .refusals = &refusals}};
  Dispatcher dispatcher{cache, clock};
  Peer peer;
  uint32_t sequence = 0;
};

// Tests with the toy mechanism.
class AcceptorTest : public FlavorTest {
 protected:
  AcceptorTest() : FlavorTest(std::make_shared<testing::ToyMechanism>()) {}

  using FlavorTest::Establish;
  using FlavorTest::Results;
  void Establish() { Establish(alice); }
  std::optional<W> Results(GssService service, uint32_t procedure, const W& arguments, uint32_t xid = 5) {
    return Results(alice, service, procedure, arguments, xid);
  }

  testing::ToyMechanism& mechanism = static_cast<testing::ToyMechanism&>(*mechanism_);
  testing::ToyInitiator toy_alice{"alice"};
  testing::Initiator alice{toy_alice, pool};
};

// The words of a reply that denies a call with an auth_stat.
inline W Denied(AuthStatus why, uint32_t xid = 5) { return {xid, 1, 1, 1, static_cast<uint32_t>(why)}; }

inline constexpr GssService kServices[] = {GssService::kNone, GssService::kIntegrity, GssService::kPrivacy};

}  // namespace penstock::rpc::gss
