// Calls under RPCSEC_GSS over both transports, with Kerberos and threads. Sealed messages are whole on either
// transport; unsealed payloads are placed directly over RDMA.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <numeric>

#include "base/address.h"
#include "base/workers.h"
#include "rdma/iwarp/provider.h"
#include "rpc/gss/kerberos.h"
#include "rpc/gss/test_acceptor.h"
#include "rpc/gss/test_kerberos.h"
#include "rpc/tcp/channel.h"
#include "rpc/tcp/server.h"
#include "rpcrdma/client.h"
#include "rpcrdma/server.h"

namespace penstock::rpc::gss {
namespace {

using namespace std::chrono_literals;
using rpc::testing::Add;
using rpc::testing::Echo;
using rpc::testing::Null;
using rpc::testing::Read;
using rpc::testing::WhoAmI;
using testing::Environment;
using testing::KerberosInitiator;
using testing::Octets;
using testing::Target;

enum class Over : uint8_t { kTcp, kRdma };

class TransportsTest : public ::testing::TestWithParam<std::tuple<Over, GssService>> {
 protected:
  TransportsTest() {
    dispatcher.Add(program);
    dispatcher.Offer(acceptor);
    program.data = FileOf(octets);
  }
  static Over over() { return std::get<0>(GetParam()); }
  static GssService service() { return std::get<1>(GetParam()); }

  static std::unique_ptr<Kerberos> Open() {
    auto opened = Kerberos::Open(Environment("KRB5_KTNAME"),
                                 [](const std::string& name) { return User{.name = name, .uid = 1001, .gid = 1002}; });
    EXPECT_TRUE(opened) << opened.error().message;
    return *std::move(opened);
  }
  static Octets Pattern(size_t size) {
    Octets pattern(size);
    for (size_t i = 0; i < size; ++i) pattern[i] = static_cast<std::byte>(i * 7 + i / 251);
    return pattern;
  }
  static Data FileOf(ConstBytes bytes) {
    char name[] = "/tmp/penstock-gss-test-XXXXXX";
    auto file = std::make_shared<FileDescriptor>(::mkstemp(name));
    ::unlink(name);
    EXPECT_EQ(::write(file->get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    return {std::move(file), 0, bytes.size()};
  }
  static Target To(uint32_t procedure) {
    return {.program = rpc::testing::kTestProgram, .version = 3, .procedure = procedure};
  }

  // Both ends live on one loop. The pool has its own threads.
  void Run(std::function<Task<void>(Channel&)> use) {
    bool ended = false;
    Spawn([](TransportsTest& self, std::function<Task<void>(Channel&)> f, bool& out) -> Task<void> {
      if (over() == Over::kTcp) {
        co_await self.OverTcp(f);
      } else {
        co_await self.OverRdma(f);
      }
      out = true;
      self.loop.Finish();
    }(*this, std::move(use), ended));
    loop.Run();
    EXPECT_TRUE(ended);
    workers.Join();
  }
  // Establishes a context for alice.
  void RunAsAlice(const std::function<Task<void>(Channel&, testing::Initiator&)>& use) {
    KerberosInitiator mechanism(Environment("TEST_CACHE_ALICE"));
    testing::Initiator alice(mechanism, loop.buffers());
    Run([&](Channel& channel) -> Task<void> {
      const bool established = co_await Establish(channel, alice);
      EXPECT_TRUE(established);
      co_await use(channel, alice);
    });
  }
  Task<void> OverTcp(const std::function<Task<void>(Channel&)>& use) {
    const auto listener = tcp::Listener::Open({asio::ip::make_address("127.0.0.1"), 0});
    tcp::Server server(loop, dispatcher, {});
    EXPECT_TRUE(server.Start(*listener));
    auto channel = co_await tcp::Channel::Connect(loop, listener->local());
    EXPECT_TRUE(channel);
    co_await use(**channel);
    channel->reset();
    co_await server.Stop(1s);
  }
  Task<void> OverRdma(const std::function<Task<void>(Channel&)>& use) {
    rpcrdma::ServerOptions options;
    options.loop = &loop;
    rpcrdma::Server server(loop, dispatcher, std::move(options));
    auto listener = provider.Listen({asio::ip::make_address("127.0.0.1"), 0});
    EXPECT_TRUE(listener);
    const auto address = (*listener)->local();
    server.Start(std::move(*listener));
    auto client = co_await rpcrdma::Connect(provider, address, {}, loop);
    EXPECT_TRUE(client);
    co_await use(**client);
    client->reset();
    co_await server.Stop(1s);
  }

  static inline const ReplyShape kShort{.max_stream = 3000, .results = {}};
  // Returns the shape of the reply to a Read of `count` octets.
  static ReplyShape ShapeFor(size_t size) {
    ReplyShape shape = kShort;
    if (service() == GssService::kNone) {
      shape.results.push_back({.max_length = size, .destination = {}});
    } else {
      shape.max_stream += size;
    }
    return shape;
  }

  Task<Message> Send(Channel& channel, Message call, ReplyShape shape = kShort) {
    auto reply = co_await channel.Call(std::move(call), std::move(shape));
    EXPECT_TRUE(reply) << static_cast<int>(reply.error());
    co_return reply ? *std::move(reply) : Message();
  }
  Task<bool> Establish(Channel& channel, testing::Initiator& client) {
    for (int i = 0; i < 3 && !client.established(); ++i) {
      Message create = client.Create(Xid(next_xid++), To(0));
      const Message reply = co_await Send(channel, std::move(create));
      client.HandleCreated(reply);
    }
    co_return client.established();
  }
  // Returns the unsealed results of a call.
  Task<std::optional<Message>> Call(Channel& channel, testing::Initiator& client, uint32_t procedure, Message arguments,
                                    ReplyShape shape = kShort) {
    const uint32_t number = ++sequence;
    Message call = client.Call(Xid(next_xid++), To(procedure), service(), number, arguments);
    last = co_await Send(channel, std::move(call), std::move(shape));
    co_return client.Open(last, service(), number);
  }
  Message Words(const W& words) {
    xdr::Encoder encoder(loop.buffers());
    for (const uint32_t word : words) encoder.U32(word);
    return encoder.Finish();
  }
  static uint32_t WordOf(const std::optional<Message>& results) {
    return results && results->stream.size() == 4 ? LoadBig<uint32_t>(results->stream.data()) : 0xffff'ffff;
  }

  Loop loop;
  Workers workers{2};
  rdma::iwarp::Provider provider{loop};
  const Octets octets = Pattern(1 << 20);
  ReplyCache cache;
  rpc::testing::TestProgram program;
  std::unique_ptr<Kerberos> kerberos = Open();
  Acceptor acceptor{{.mechanism = *kerberos,
                     .clock = loop,
                     .random = [this](Bytes room) { std::ranges::fill(room, std::byte{++handles}); },
                     .pool = &workers,
                     .negotiators = &workers}};
  Dispatcher dispatcher{cache, loop};
  Message last;
  uint8_t handles = 0;
  uint32_t sequence = 0;
  uint32_t next_xid = 100;
};

TEST_P(TransportsTest, ExecutesCalls) {
  RunAsAlice([&](Channel& channel, testing::Initiator& alice) -> Task<void> {
    const auto nothing = co_await Call(channel, alice, Null::kNumber, Message());
    EXPECT_TRUE(nothing);
    const auto who = co_await Call(channel, alice, WhoAmI::kNumber, Message());
    EXPECT_EQ(WordOf(who), 1001u);
    Message five = Words({5});
    const auto sum = co_await Call(channel, alice, Add::kNumber, std::move(five));
    EXPECT_EQ(WordOf(sum), 5u);
    Message destroy = alice.Destroy(Xid(next_xid++), To(0), service(), ++sequence);
    const Message reply = co_await Send(channel, std::move(destroy));
    EXPECT_TRUE(alice.Open(reply, service(), sequence));
    const auto gone = co_await Call(channel, alice, Null::kNumber, Message());
    EXPECT_FALSE(gone);
  });
}

// RFC 2203 §5.3.3.1 requires to drop the call. RFC 8166 §4.5.4 and RFC 8881 §2.9.2 require that the client learns it.
TEST_P(TransportsTest, DroppedCallEndsItsConnection) {
  RunAsAlice([&](Channel& channel, testing::Initiator& alice) -> Task<void> {
    const auto first = co_await Call(channel, alice, Null::kNumber, Message());
    EXPECT_TRUE(first);
    Message again = alice.Call(Xid(next_xid++), To(Null::kNumber), service(), sequence, Message());
    const auto reply = co_await channel.Call(std::move(again), kShort);
    EXPECT_TRUE(!reply && reply.error() == CallError::kDisconnected);
  });
}

// Reads 1 MiB from a file. RDMA places it directly if it is not sealed, and carries it in a Reply chunk if it is.
TEST_P(TransportsTest, TransfersPayloadsOfReplies) {
  RunAsAlice([&](Channel& channel, testing::Initiator& alice) -> Task<void> {
    const ReplyShape shape = ShapeFor(octets.size());
    Message arguments = Words({1 << 20});
    const auto results = co_await Call(channel, alice, Read::kNumber, std::move(arguments), shape);
    EXPECT_TRUE(results);
    if (!results) co_return;
    const bool placed = service() == GssService::kNone && over() == Over::kRdma;
    EXPECT_EQ(results->placed.size(), placed ? 1u : 0u);
    const auto payload = xdr::DecodeWhole<xdr::Payload<>>(*results);
    EXPECT_TRUE(payload && Equal(payload->bytes(), octets));
  });
}

TEST_P(TransportsTest, TransfersLongCalls) {
  RunAsAlice([&](Channel& channel, testing::Initiator& alice) -> Task<void> {
    xdr::Encoder encoder(loop.buffers());
    encoder.Opaque(octets);
    const ReplyShape shape{.max_stream = 3000 + octets.size(), .results = {}};
    Message arguments = encoder.Finish();
    const auto results = co_await Call(channel, alice, Echo::kNumber, std::move(arguments), shape);
    EXPECT_TRUE(results && results->stream.size() == octets.size() + 4);
  });
}

// Many calls at once, so that the pool's threads and the loop compete for one context.
TEST_P(TransportsTest, ExecutesManyCallsAtOnce) {
  RunAsAlice([&](Channel& channel, testing::Initiator& alice) -> Task<void> {
    constexpr int kCalls = 24;
    int left = kCalls;
    int right = 0;
    OneShot<> all;
    const auto one = [&](uint32_t size) -> Task<void> {
      const uint32_t number = ++sequence;
      const Message call = alice.Call(Xid(next_xid++), To(Read::kNumber), service(), number, Words({size}));
      const ReplyShape shape = ShapeFor(size);
      const Message reply = co_await Send(channel, call, shape);
      const auto results = alice.Open(reply, service(), number);
      if (results) {
        const auto payload = xdr::DecodeWhole<xdr::Payload<>>(*results);
        right += payload && Equal(payload->bytes(), ConstBytes(octets).first(size)) ? 1 : 0;
      }
      if (--left == 0) all.Set();
    };
    for (int i = 0; i < kCalls; ++i) Spawn(one(i % 3 == 0 ? 100 : 200'000 + 1000 * static_cast<uint32_t>(i)));
    co_await all;
    EXPECT_EQ(right, kCalls);
  });
}

std::string NameOf(const std::tuple<Over, GssService>& tested) {
  static constexpr const char* kNames[] = {"", "None", "Integrity", "Privacy"};
  const auto& [over, service] = tested;
  return std::string(over == Over::kTcp ? "Tcp" : "Rdma") + kNames[static_cast<int>(service)];
}

INSTANTIATE_TEST_SUITE_P(All, TransportsTest,
                         ::testing::Combine(::testing::Values(Over::kTcp, Over::kRdma), ::testing::ValuesIn(kServices)),
                         [](const auto& tested) { return NameOf(tested.param); });

}  // namespace
}  // namespace penstock::rpc::gss
