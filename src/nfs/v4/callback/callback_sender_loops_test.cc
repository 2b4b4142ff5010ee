// Tests of CallbackSender with real loops and connections. The sender, the connections that clients made, and the
// clients have separate loops.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/address.h"
#include "base/test_loop.h"
#include "nfs/v4/attributes/attribute_set.h"
#include "nfs/v4/callback/callback_sender.h"
#include "nfs/v4/callback/test_client.h"
#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/clients/test_clients.h"
#include "rpc/tcp/channel.h"
#include "rpc/tcp/server.h"

namespace penstock::nfs::v4 {
namespace {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

// The callback program of a client, which runs on the client's loop.
class CallbackService : public rpc::CallHandler {
 public:
  Task<rpc::Message> HandleCall(rpc::Message call, const rpc::Peer& peer) override {
    const ReceivedCallback received = Receive(call);
    CallbackReply reply;
    std::array<std::byte, 8> size{};
    StoreBig<uint64_t>(size.data(), 4711);
    const AttributeSet only_size{FATTR4_SIZE};
    if (received.operation == OP_CB_GETATTR) {
      reply.attributes = fattr4{.attrmask = only_size.ToBitmap(), .attr_vals = attrlist4(ConstBytes(size))};
    }
    if (received.operation == OP_CB_OFFLOAD) offloads.set_value();
    co_return ReplyTo(*peer.buffers, received, reply);
  }
  std::promise<void> offloads;
};

// A server that only records the connections of its callers.
class Doorman : public rpc::CallHandler {
 public:
  Task<rpc::Message> HandleCall(rpc::Message call, const rpc::Peer& peer) override {
    back_channel = peer.back_channel;
    xdr::Decoder decoder(call);
    rpc::CallHeader header;
    EXPECT_EQ(rpc::DecodeCallHeader(decoder, header), rpc::HeaderProblem::kNone);
    xdr::Encoder encoder(*peer.buffers);
    rpc::EncodeAccepted(encoder, header.xid, rpc::AcceptStatus::SUCCESS);
    co_return encoder.Finish();
  }
  std::shared_ptr<rpc::BackChannel> back_channel;
};

class CallbackSenderLoopsTest : public testing::Test {
 protected:
  struct RunningLoop {
    Loop loop;
    std::thread thread{[this] { loop.Run(); }};
  };

  explicit CallbackSenderLoopsTest(Duration call_limit = std::chrono::seconds(60))
      : listener_(*rpc::tcp::Listener::Open({asio::ip::address_v4::loopback(), 0})), call_limit_(call_limit) {}
  ~CallbackSenderLoopsTest() override {
    Do(home_, [this] { caller_.Stop(); });
    Do(theirs_, [this] { channel_.reset(); });
    const auto stopped = std::make_shared<std::promise<void>>();
    serving_.loop.Post([this, stopped] {
      Spawn([](std::unique_ptr<rpc::tcp::Server>& server, std::shared_ptr<std::promise<void>> done) -> Task<void> {
        if (server) co_await server->Stop(std::chrono::seconds(1));
        done->set_value();
      }(server_, stopped));
    });
    stopped->get_future().wait();
    Do(serving_, [this] { server_.reset(); });
    // The home loop ends last, since calls on other loops come back to it.
    for (RunningLoop* running : {&theirs_, &serving_, &home_}) {
      running->loop.Post([running] { running->loop.Finish(); });
      running->thread.join();
    }
    EXPECT_EQ(caller_.under_way(), 0u);
  }

  // Runs a function on the loop and waits for its end.
  template <class Function>
  static void Do(RunningLoop& running, Function function) {
    std::promise<void> done;
    running.loop.Post([&] {
      function();
      done.set_value();
    });
    done.get_future().wait();
  }
  void Serve(rpc::CallHandler& handler) {
    Do(serving_, [&] {
      server_ = std::make_unique<rpc::tcp::Server>(serving_.loop, handler);
      EXPECT_TRUE(server_->Start(listener_));
    });
  }
  SocketAddress Where() const { return listener_.local(); }

  // A client connects and gets one reply.
  void Connect() {
    std::promise<void> answered;
    theirs_.loop.Post([&] {
      Spawn([](CallbackSenderLoopsTest& test, std::promise<void>& done) -> Task<void> {
        rpc::tcp::ChannelOptions options;
        options.back_channel = &test.service_;
        auto connected = co_await rpc::tcp::Channel::Connect(test.theirs_.loop, test.Where(), options);
        EXPECT_TRUE(connected);
        test.channel_ = *std::move(connected);
        xdr::Encoder encoder(test.theirs_.loop.buffers());
        rpc::EncodeCallHeader(encoder, {rpc::Xid(1), NFS4_PROGRAM, NFS_V4, 0, {}, {}});
        EXPECT_TRUE(co_await test.channel_->Call(encoder.Finish(), {.max_stream = 512, .results = {}}));
        done.set_value();
      }(*this, answered));
    });
    answered.get_future().wait();
  }
  HolderAttributes AskForAttributes() {
    std::promise<HolderAttributes> asked;
    theirs_.loop.Post([&] {
      Spawn([](CallbackSenderLoopsTest& test, std::promise<HolderAttributes>& out) -> Task<void> {
        const HolderAttributes held =
            co_await test.caller_.GetAttributes(&test.theirs_.loop, test.client_, kFile, false);
        EXPECT_TRUE(test.theirs_.loop.IsCurrent());
        out.set_value(held);
      }(*this, asked));
    });
    return asked.get_future().get();
  }
  // Adds a client of minor version 0 whose address is that of the test's listener.
  void OpenMinorZero() {
    state_.Run([&](StateTables& state) {
      const TimePoint now = home_.loop.Now();
      const CallbackAddress callback{.program = 0x40000009, .endpoint = Where(), .identifier = 3};
      const auto set = state.Set({.verifier = Verifier(1), .id = "x", .callback = callback, .dialect = DialectOf(0)},
                                 User(0), 1, now);
      ASSERT_EQ(state.Confirm(set->id, set->confirmation, User(0), now), NFS4_OK);
      client_ = set->id;
    });
  }
  void OffloadDone() {
    Spawn(caller_.OffloadDone(client_, kFile, stateid4{}, offload_info4(NFS4ERR_IO, length4{5})));
    EXPECT_EQ(service_.offloads.get_future().wait_for(kTestPatience), std::future_status::ready);
  }

  RunningLoop home_, serving_, theirs_;
  Settings settings_{};
  State state_{{.settings = settings_, .instance = 0x65000000}};
  CallbackService service_;
  Doorman doorman_;
  rpc::tcp::Listener listener_;
  const Duration call_limit_;
  std::unique_ptr<rpc::tcp::Server> server_;
  std::unique_ptr<rpc::tcp::Channel> channel_;
  ClientId client_;
  CallbackSender caller_{state_,
                         &home_.loop,
                         home_.loop,
                         home_.loop.buffers(),
                         [this](const CallbackAddress& client) {
                           return ConnectByTcp(home_.loop, *client.endpoint, call_limit_, nullptr);
                         },
                         {}};
};

TEST_F(CallbackSenderLoopsTest, CallsOverAConnectionThatTheClientMade) {
  Serve(doorman_);
  Connect();
  ASSERT_TRUE(doorman_.back_channel);
  state_.Run([&](StateTables& state) {
    const TimePoint now = home_.loop.Now();
    const auto made =
        state.Exchange({.verifier = Verifier(1), .owner = "owner", .dialect = DialectOf(1)}, User(0), now);
    client_ = made->id;
    Sessions::CreateRequest asked{.client = client_,
                                  .sequence = made->sequence,
                                  .back_channel = true,
                                  .fore = PlainChannel(),
                                  .back = PlainChannel(),
                                  .callback_program = 0x40000005};
    const SessionConnection connection{1, doorman_.back_channel};
    ASSERT_EQ(state.CreateSession(asked, connection, User(0), 1, now).reply.csr_status(), NFS4_OK);
  });
  doorman_.back_channel.reset();
  OffloadDone();
  EXPECT_EQ(AskForAttributes().size, 4711u);
}

TEST_F(CallbackSenderLoopsTest, ConnectsToAClientOfMinorVersionZero) {
  Serve(service_);
  OpenMinorZero();
  OffloadDone();
  EXPECT_EQ(AskForAttributes().size, 4711u);
  EXPECT_TRUE(state_.Run([&](StateTables& state) { return state.CanCall(client_); }));
}

class CallbackTimeoutTest : public CallbackSenderLoopsTest {
 protected:
  CallbackTimeoutTest() : CallbackSenderLoopsTest(std::chrono::milliseconds(80)) {}
};

// After a timeout, the path to the client is down, and RENEW reports this (RFC 7530 §16.28.5).
TEST_F(CallbackTimeoutTest, TimesOutForAClientOfMinorVersionZeroThatNeverReplies) {
  OpenMinorZero();
  caller_.Probe(client_);
  const auto path = [this] {
    return state_.Run([&](StateTables& state) { return state.clients.Find(client_)->path; });
  };
  const auto limit = std::chrono::steady_clock::now() + kTestPatience;
  while (path() == PathState::kUnknown && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(path(), PathState::kDown);
}

}  // namespace
}  // namespace penstock::nfs::v4
