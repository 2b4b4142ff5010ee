#include "rpcbind/blocking_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <asio/ip/tcp.hpp>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "rpc/client.h"
#include "rpc/tcp/server.h"
#include "rpc/test_program.h"
#include "rpc/udp/datagrams.h"
#include "rpcbind/test_rpcbind.h"

namespace penstock::rpcbind {
namespace {

using namespace std::chrono_literals;
using asio::ip::make_address;
using rpc::CallError;
using rpc::testing::Echo;
using rpc::testing::Null;

class BlockingChannelTest : public ::testing::Test {
 protected:
  BlockingChannelTest() {
    char folder[] = "/tmp/penstock-channel-XXXXXX";
    folder_ = ::mkdtemp(folder);
  }
  ~BlockingChannelTest() override { std::filesystem::remove_all(folder_); }

  template <class Procedure>
  static Result<rpc::Reply<typename Procedure::Results>, rpc::Error> Call(
      BlockingChannel& channel, BufferPool& pool, typename Procedure::Arguments arguments = {}) {
    rpc::Client client(channel, pool, rpc::Xid(77));
    std::optional<Result<rpc::Reply<typename Procedure::Results>, rpc::Error>> result;
    Spawn([](rpc::Client& caller, typename Procedure::Arguments with, auto& out) -> Task<void> {
      out.emplace(co_await caller.Call<Procedure>(with));
    }(client, arguments, result));
    return *std::move(result);  // the call did not suspend
  }
  CallError ErrorAt(const Destination& to, Duration limit = 20ms) {
    BlockingChannel channel(to, pool_, limit);
    const auto result = Call<Null>(channel, pool_);
    return result ? CallError::kCancelled : result.error().transport;
  }
  Destination Local() const { return {.kind = Destination::Kind::kLocalSocket, .path = folder_ + "/socket"}; }

  std::string folder_;
  BufferPool pool_;
  rpc::testing::TestProgram program_;
};

TEST_F(BlockingChannelTest, CallsAtALocalSocket) {
  LocalServer server(Local().path, program_);
  BlockingChannel channel(Local(), pool_, 10s);
  EXPECT_TRUE(Call<Null>(channel, pool_));
  const std::string text(100'000, 'x');
  const auto echo = Call<Echo>(channel, pool_, text);
  ASSERT_TRUE(echo);
  EXPECT_EQ(echo->results, text);
}

TEST_F(BlockingChannelTest, ConnectsAgainAfterAnError) {
  BlockingChannel channel(Local(), pool_, 10s);
  EXPECT_FALSE(Call<Null>(channel, pool_));
  {
    LocalServer server(Local().path, program_);
    EXPECT_TRUE(Call<Null>(channel, pool_));
  }
  EXPECT_FALSE(Call<Null>(channel, pool_));
  LocalServer server(Local().path, program_);
  EXPECT_TRUE(Call<Null>(channel, pool_));
}

TEST_F(BlockingChannelTest, TellsThatNobodyListens) {
  EXPECT_EQ(ErrorAt(Local()), CallError::kRefused);
  EXPECT_EQ(ErrorAt({.kind = Destination::Kind::kLocalSocket, .path = std::string(200, 'x')}), CallError::kRefused);
  SocketAddress address;
  {
    const auto closed = rpc::tcp::Listener::Open({make_address("127.0.0.1"), 0});
    address = closed->local();
  }
  EXPECT_EQ(ErrorAt({.kind = Destination::Kind::kTcp, .address = address}, 10s), CallError::kRefused);
  EXPECT_EQ(ErrorAt({.kind = Destination::Kind::kUdp, .address = address}, 10s), CallError::kRefused);
}

TEST_F(BlockingChannelTest, DoesNotWaitForASilentPeer) {
  const auto stream = rpc::tcp::Listener::Open({make_address("127.0.0.1"), 0});
  EXPECT_EQ(ErrorAt({.kind = Destination::Kind::kTcp, .address = stream->local()}), CallError::kTimedOut);
  const auto datagram = rpc::udp::Listener::Open({make_address("127.0.0.1"), 0});
  EXPECT_EQ(ErrorAt({.kind = Destination::Kind::kUdp, .address = datagram->local()}), CallError::kTimedOut);
}

TEST_F(BlockingChannelTest, EndsWhenThePeerDoes) {
  const auto listener = rpc::tcp::Listener::Open({make_address("127.0.0.1"), 0});
  std::thread peer([&] {
    pollfd ready{.fd = listener->fd(), .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, -1);
    const FileDescriptor connection(::accept(listener->fd(), nullptr, nullptr));
    char octet;
    ::recv(connection.get(), &octet, 1, 0);
  });
  EXPECT_EQ(ErrorAt({.kind = Destination::Kind::kTcp, .address = listener->local()}, 10s), CallError::kDisconnected);
  peer.join();
}

TEST_F(BlockingChannelTest, SkipsALateDatagram) {
  const auto server = rpc::udp::Listener::Open({make_address("127.0.0.1"), 0});
  std::thread peer([&] {
    pollfd ready{.fd = server->fd(), .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, -1);
    std::byte room[1024];
    rpc::udp::Route route;
    const auto received = server->Receive(room, route);
    ASSERT_EQ(received.kind, rpc::udp::Received::Kind::kDatagram);
    std::byte reply[24]{};
    StoreBig<uint32_t>(reply, 76);
    StoreBig<uint32_t>(reply + 4, 1);
    server->Reply(rpc::Message::Whole(Slice::Borrowed(reply)), route);
    StoreBig<uint32_t>(reply, 77);
    server->Reply(rpc::Message::Whole(Slice::Borrowed(reply)), route);
  });
  BlockingChannel channel({.kind = Destination::Kind::kUdp, .address = server->local()}, pool_, 10s);
  EXPECT_TRUE(Call<Null>(channel, pool_));
  peer.join();
}

}  // namespace
}  // namespace penstock::rpcbind
