// The fixture for the tests of this folder: a server and its clients over the loopback interface.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/ip/udp.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/test_loop.h"
#include "rpc/client.h"
#include "rpc/dispatch.h"
#include "rpc/test_program.h"
#include "rpc/udp/channel.h"
#include "rpc/udp/server.h"

namespace penstock::rpc::udp {

using namespace std::chrono_literals;
using asio::ip::make_address;

// Runs a server and its clients on one loop.
class UdpTest : public ::testing::Test {
 protected:
  UdpTest() { dispatcher.Add(program); }
  ~UdpTest() override {
    channel.reset();
    program.Release();
    StopServer();
    TurnUntil([this] { return loop.buffers().outstanding() == cache.entries(); });
    TurnFor(loop, 0ms);  // closed channels end
  }

  void StartServer(ServerOptions options = {}, const char* listen = "127.0.0.1") {
    SetupResult<Listener> listener = Listener::Open({make_address(listen), 0});
    ASSERT_TRUE(listener) << listener.error().message;
    port = listener->local().port();
    server.emplace(loop, dispatcher, options);
    ASSERT_TRUE(server->Start(*std::move(listener)));
  }
  void StopServer() {
    if (!server) return;
    bool stopped = false;
    BeginStop(stopped);
    TurnUntil([&] { return stopped; });
    server.reset();
  }
  void BeginStop(bool& stopped) {
    Spawn([](Server& stopping, bool& done) -> Task<void> {
      co_await stopping.Stop();
      done = true;
    }(*server, stopped));
  }
  void TurnUntil(const std::function<bool()>& done) { EXPECT_TRUE(penstock::TurnUntil(loop, done)); }

  void OpenChannel(const char* host = "127.0.0.1", ChannelOptions options = {.first_pause = 30s, .call_limit = 40s}) {
    auto opened = Channel::Open(loop, {make_address(host), port}, options);
    ASSERT_TRUE(opened) << opened.error().message();
    channel = *std::move(opened);
    client.emplace(*channel, loop.buffers(), Xid(1000));
  }
  template <class Procedure>
  using Outcome = std::optional<Result<Reply<typename Procedure::Results>, Error>>;
  template <class Procedure>
  void Start(typename Procedure::Arguments arguments, Outcome<Procedure>& out) {
    Spawn([](Client& caller, typename Procedure::Arguments with, auto& result) -> Task<void> {
      result.emplace(co_await caller.Call<Procedure>(with));
    }(*client, arguments, out));
  }
  template <class Procedure>
  Result<Reply<typename Procedure::Results>, Error> Call(typename Procedure::Arguments arguments = {}) {
    Outcome<Procedure> out;
    Start<Procedure>(arguments, out);
    TurnUntil([&] { return out.has_value(); });
    return std::move(*out);
  }

  // A socket of a client that the test plays itself.
  FileDescriptor RawSocket(const char* from = "127.0.0.1") {
    FileDescriptor fd(::socket(AF_INET, SOCK_DGRAM, 0));
    const SocketAddress local(make_address(from), 0);
    EXPECT_EQ(::bind(fd.get(), local.data(), static_cast<socklen_t>(local.size())), 0);
    const SocketAddress peer(make_address("127.0.0.1"), port);
    EXPECT_EQ(::connect(fd.get(), peer.data(), static_cast<socklen_t>(peer.size())), 0);
    return fd;
  }
  static void Write(const FileDescriptor& fd, std::string_view octets) {
    EXPECT_EQ(::send(fd.get(), octets.data(), octets.size(), 0), static_cast<ssize_t>(octets.size()));
  }
  // Returns the datagrams that have arrived.
  static std::vector<std::string> Read(const FileDescriptor& fd) {
    std::vector<std::string> all;
    char buffer[65536];
    for (ssize_t n; (n = ::recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT)) >= 0;) {
      all.emplace_back(buffer, static_cast<size_t>(n));
    }
    return all;
  }
  std::vector<std::string> ReadUntil(const FileDescriptor& fd, size_t count) {
    std::vector<std::string> all;
    TurnUntil([&] {
      for (std::string& each : Read(fd)) all.push_back(std::move(each));
      return all.size() >= count;
    });
    return all;
  }
  static std::string Words(std::initializer_list<uint32_t> words) {
    std::string bytes;
    for (const uint32_t word : words) {
      std::byte big[4];
      StoreBig(big, word);
      bytes += AsText(big);
    }
    return bytes;
  }
  static std::string CallOf(uint32_t xid, uint32_t procedure) {
    return Words({xid, 0, 2, testing::kTestProgram, 3, procedure, 0, 0, 0, 0});
  }
  static std::string AddCall(uint32_t xid, uint32_t number) {
    return CallOf(xid, testing::Add::kNumber) + Words({number});
  }
  static std::string SlowAddCall(uint32_t xid, uint32_t number) {
    return CallOf(xid, testing::SlowAdd::kNumber) + Words({number});
  }
  static std::string ReplyOf(uint32_t xid) { return Words({xid, 1, 0, 0, 0, 0}); }

  Loop loop;
  ReplyCache cache;
  testing::TestProgram program;
  Dispatcher dispatcher{cache, loop};
  uint16_t port = 0;
  std::optional<Server> server;
  std::unique_ptr<Channel> channel;
  std::optional<Client> client;
};

}  // namespace penstock::rpc::udp
