// The fixture for the tests of this folder: a server and its clients over the loopback interface.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <functional>
#include <optional>

#include "base/address.h"
#include "base/test_loop.h"
#include "rpc/client.h"
#include "rpc/dispatch.h"
#include "rpc/tcp/channel.h"
#include "rpc/tcp/server.h"
#include "rpc/test_program.h"

namespace penstock::rpc::tcp {

using namespace std::chrono_literals;
using asio::ip::make_address;

// Runs a server and its clients on one loop. A test runs the loop until the event that it waits for.
class TcpTest : public ::testing::Test {
 protected:
  TcpTest() {
    dispatcher.Add(program);
    SetupResult<Listener> opened = Listener::Open({make_address("127.0.0.1"), 0});
    EXPECT_TRUE(opened);
    listener.emplace(std::move(*opened));
    address = listener->local();
  }
  ~TcpTest() override {
    channel.reset();
    program.Release();
    StopServer(1s);
    TurnUntil([this] { return loop.buffers().outstanding() == cache.entries(); });
  }

  void StartServer(ServerOptions options = {}) {
    server = std::make_unique<Server>(loop, dispatcher, std::move(options));
    ASSERT_TRUE(server->Start(*listener));
  }
  void StopServer(Duration limit) {
    if (!server) return;
    Wait([](TcpTest& self, Duration drain) { return self.server->Stop(drain); }, limit);
    server.reset();
  }
  // Begins to stop a server. `stopped` becomes true when the server has stopped.
  static void BeginStop(Server& stopping, Duration limit, bool& stopped) {
    Spawn([](Server& from, Duration drain, bool& done) -> Task<void> {
      co_await from.Stop(drain);
      done = true;
    }(stopping, limit, stopped));
  }
  // Runs the loop until the task that `start(*this, arguments...)` returns has ended.
  template <class Start, class... Arguments>
  void Wait(Start start, Arguments... arguments) {
    bool done = false;
    Spawn([](Task<void> task, bool& flag) -> Task<void> {
      co_await std::move(task);
      flag = true;
    }(start(*this, arguments...), done));
    TurnUntil([&] { return done; });
  }
  void TurnUntil(const std::function<bool()>& done) { EXPECT_TRUE(penstock::TurnUntil(loop, done)); }
  // Runs the loop until `program` has executed so many calls. Returns the most calls that one handler has executed: the
  // loop executes one handler between two questions of TurnUntil().
  size_t MostCallsOfAHandler(size_t calls) {
    size_t seen = 0, most = 0;
    TurnUntil([&] {
      most = std::max(most, program.calls - seen);
      seen = program.calls;
      return seen == calls;
    });
    return most;
  }
  void Turn(Duration time = 5ms) { TurnFor(loop, time); }

  Result<std::unique_ptr<Channel>, std::error_code> TryConnect(const ChannelOptions& options = {}) {
    std::optional<Result<std::unique_ptr<Channel>, std::error_code>> result;
    Spawn([](Loop& on, SocketAddress to, ChannelOptions with, auto& out) -> Task<void> {
      out.emplace(co_await Channel::Connect(on, to, with));
    }(loop, address, options, result));
    TurnUntil([&] { return result.has_value(); });
    return std::move(*result);
  }
  std::unique_ptr<Channel> Connect(const ChannelOptions& options = {}) {
    auto connected = TryConnect(options);
    EXPECT_TRUE(connected);
    return connected ? std::move(*connected) : nullptr;
  }
  void ConnectClient(const ChannelOptions& options = {}) {
    channel = Connect(options);
    ASSERT_TRUE(channel);
    client.emplace(*channel, loop.buffers(), Xid(1000));
  }

  // The outcome of a call. Empty until the call has ended.
  template <class Procedure>
  using CallOutcome = std::optional<Result<Reply<typename Procedure::Results>, Error>>;

  // Starts a call with the client `from`. Its outcome arrives in `out`.
  template <class Procedure>
  void StartFrom(Client& from, typename Procedure::Arguments arguments, CallOutcome<Procedure>& out) {
    Spawn([](Client& caller, typename Procedure::Arguments with, auto& result) -> Task<void> {
      result.emplace(co_await caller.Call<Procedure>(with));
    }(from, arguments, out));
  }
  template <class Procedure>
  Result<Reply<typename Procedure::Results>, Error> CallFrom(Client& from, typename Procedure::Arguments arguments) {
    CallOutcome<Procedure> out;
    StartFrom<Procedure>(from, arguments, out);
    TurnUntil([&] { return out.has_value(); });
    return std::move(*out);
  }
  // The same two functions for `client`.
  template <class Procedure>
  void Start(typename Procedure::Arguments arguments, CallOutcome<Procedure>& out) {
    StartFrom<Procedure>(*client, arguments, out);
  }
  template <class Procedure>
  Result<Reply<typename Procedure::Results>, Error> Call(typename Procedure::Arguments arguments = {}) {
    return CallFrom<Procedure>(*client, arguments);
  }

  // Expects that `client` receives payloads that the server has in memory and in files.
  void ExpectPayloads() {
    const std::string bytes = Pattern(1'000'003);
    program.data = Data(Slice::Borrowed(AsBytes(bytes)));
    EXPECT_EQ(Call<testing::Read>(999)->results.text(), bytes.substr(0, 999));

    auto file = std::make_shared<FileDescriptor>(::memfd_create("test", 0));
    ASSERT_EQ(::write(file->get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    program.data = Data(file, 0, bytes.size());
    for (const uint32_t size : {0u, 1u, 3u, 4096u, 16'384u, 1'000'003u}) {
      const auto reply = Call<testing::Read>(size);
      ASSERT_TRUE(reply);
      EXPECT_EQ(reply->results.text(), bytes.substr(0, size));
    }
    // A file that is truncated before the reply leaves: zeros replace the missing octets.
    ASSERT_EQ(::ftruncate(file->get(), 1000), 0);
    EXPECT_EQ(Call<testing::Read>(300'001)->results.text(), bytes.substr(0, 1000) + std::string(299'001, '\0'));
  }

  // A plain TCP connection, for a peer that the test plays itself.
  FileDescriptor RawConnection() { return RawConnectionFrom("127.0.0.1"); }
  FileDescriptor RawConnectionFrom(const char* from) {
    FileDescriptor fd(::socket(AF_INET, SOCK_STREAM, 0));
    const SocketAddress local(make_address(from), 0);
    EXPECT_EQ(::bind(fd.get(), local.data(), static_cast<socklen_t>(local.size())), 0);
    EXPECT_EQ(::connect(fd.get(), address.data(), static_cast<socklen_t>(address.size())), 0);
    TurnUntil([this, before = server->connections()] { return server->connections() > before; });
    return fd;
  }
  static void Write(const FileDescriptor& fd, std::string_view bytes) {
    EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // Reads from the socket until the server has sent `size` octets or has closed the connection.
  std::string ReadFrom(const FileDescriptor& fd, size_t size) {
    std::string all;
    TurnUntil([&] {
      char buffer[4096];
      const ssize_t n = ::recv(fd.get(), buffer, std::min(sizeof buffer, size - all.size()), MSG_DONTWAIT);
      if (n > 0) all.append(buffer, static_cast<size_t>(n));
      return all.size() == size || n == 0 || (n < 0 && errno == ECONNRESET);
    });
    return all;
  }
  bool ClosedByServer(const FileDescriptor& fd) { return ReadFrom(fd, 1).empty(); }

  static std::string Pattern(size_t size) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + (i >> 8));
    return text;
  }
  static std::string Words(std::initializer_list<uint32_t> words) {
    std::string bytes;
    for (uint32_t word : words) {
      std::byte big[4];
      StoreBig(big, word);
      bytes += AsText(big);
    }
    return bytes;
  }
  static std::string NullCall(uint32_t xid) { return Words({xid, 0, 2, testing::kTestProgram, 3, 0, 0, 0, 0, 0}); }
  static std::string NullReply(uint32_t xid) { return Words({0x8000'0018, xid, 1, 0, 0, 0, 0}); }

  Loop loop;
  ReplyCache cache;
  testing::TestProgram program;
  Dispatcher dispatcher{cache, loop};
  std::optional<Listener> listener;
  SocketAddress address;
  std::unique_ptr<Server> server;
  std::unique_ptr<Channel> channel;
  std::optional<Client> client;
};

}  // namespace penstock::rpc::tcp
