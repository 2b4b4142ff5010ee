// How a TCP server shares its memory and its turns among connections.
#include <gtest/gtest.h>

#include <deque>

#include "rpc/tcp/tcp_test.h"

namespace penstock::rpc::tcp {
namespace {

// A handler that completes calls only after Release().
class Hanging final : public CallHandler {
 public:
  Task<Message> HandleCall(Message call, const Peer& peer) override {
    OneShot<> released;
    waiting_.push_back(&released);
    ++taken_;
    octets_ += call.stream.size();
    const uint32_t xid = LoadBig<uint32_t>(call.stream.data());
    co_await released;
    octets_ -= call.stream.size();
    xdr::Encoder reply(*peer.buffers);
    reply.U32(xid);
    reply.U32(1);
    for (int i = 0; i < 4; ++i) reply.U32(0);
    co_return reply.Finish();
  }
  void Release(size_t count = SIZE_MAX) {
    for (; count > 0 && !waiting_.empty(); --count) {
      OneShot<>* const first = waiting_.front();
      waiting_.pop_front();
      first->Set();
    }
  }
  size_t calls() const { return waiting_.size(); }
  size_t taken() const { return taken_; }
  size_t octets() const { return octets_; }

 private:
  std::deque<OneShot<>*> waiting_;
  size_t taken_ = 0;
  size_t octets_ = 0;
};

// A handler that remembers the connection of each call.
class Recording final : public CallHandler {
 public:
  Task<Message> HandleCall(Message call, const Peer& peer) override {
    connections.push_back(peer.connection);
    return hanging_.HandleCall(std::move(call), peer);
  }
  void Release() { hanging_.Release(); }

  std::vector<uint64_t> connections;

 private:
  Hanging hanging_;
};

TEST_F(TcpTest, ConnectionsOfALoopTakeTurns) {
  Recording recording;
  server = std::make_unique<Server>(loop, recording, ServerOptions{.max_calls = 10'000});
  ASSERT_TRUE(server->Start(*listener));
  const FileDescriptor peers[] = {RawConnection(), RawConnection()};
  std::string calls;
  for (uint32_t xid = 0; xid < 1000; ++xid) calls += Words({0x8000'0028}) + NullCall(xid);
  for (const FileDescriptor& peer : peers) Write(peer, calls);
  TurnUntil([&] { return recording.connections.size() == 2000; });
  size_t longest = 0, run = 0;
  for (size_t i = 0; i < recording.connections.size(); ++i) {
    run = i > 0 && recording.connections[i] == recording.connections[i - 1] ? run + 1 : 1;
    // Ignore the last calls: at the end only one connection has calls left.
    if (i < 1900) longest = std::max(longest, run);
  }
  EXPECT_LE(longest, 300u);
  recording.Release();
  StopServer(1s);
}

class TcpMemoryTest : public TcpTest {
 protected:
  ~TcpMemoryTest() override {
    hanging.Release();
    StopServer(1s);
  }
  void Start(ServerOptions options, size_t octets) {
    memory = std::make_shared<MemoryBudget>(MemoryBudget::Limits{.octets = octets, .own_octets = 128 << 10});
    options.memory = memory;
    server = std::make_unique<Server>(loop, hanging, std::move(options));
    ASSERT_TRUE(server->Start(*listener));
  }
  // Sends as many octets as the socket accepts, and removes them from `octets`.
  void Send(const FileDescriptor& peer, std::string& octets) {
    const ssize_t n = ::send(peer.get(), octets.data(), octets.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) octets.erase(0, static_cast<size_t>(n));
  }
  static std::string Record(uint32_t xid, size_t size) {
    return Words({static_cast<uint32_t>(size) | 0x8000'0000, xid, 0}) + std::string(size - 8, 'x');
  }
  static std::string Records(uint32_t count, size_t size) {
    std::string all;
    for (uint32_t xid = 0; xid < count; ++xid) all += Record(xid, size);
    return all;
  }
  // Sends until `calls` calls are running, and then as long as the server reads more.
  void SendAll(const FileDescriptor& peer, std::string& octets, size_t calls) {
    TurnUntil([&] {
      Send(peer, octets);
      return hanging.calls() >= calls;
    });
    for (int waited = 0; waited < 50; ++waited) {
      const size_t before = octets.size();
      Send(peer, octets);
      if (octets.size() < before) waited = 0;
      Turn(2ms);
    }
  }

  Hanging hanging;
  std::shared_ptr<MemoryBudget> memory;
};

constexpr size_t kMebi = 1 << 20;

TEST_F(TcpMemoryTest, LimitsTheOctetsOfRunningCalls) {
  Start({.max_call_octets = 8 * kMebi + kMebi / 2}, 1024 * kMebi);
  const FileDescriptor peer = RawConnection();
  std::string calls = Records(40, kMebi);
  SendAll(peer, calls, 8);
  EXPECT_EQ(hanging.calls(), 8u);
  // The server reads the rest as these calls end.
  TurnUntil([&] {
    hanging.Release(1);
    Send(peer, calls);
    EXPECT_LE(hanging.octets(), 8 * kMebi);
    return hanging.taken() == 40 && hanging.calls() == 0;
  });
  EXPECT_EQ(ReadFrom(peer, 40 * 28).size(), 40u * 28);
  TurnUntil([&] { return memory->shared_octets() == 0; });
}

// A small call holds the whole buffer that it arrived in, even if the rest of the buffer is not needed any more.
TEST_F(TcpMemoryTest, CountsTheBuffersOfSmallCalls) {
  Start({.max_call_octets = kMebi}, 1024 * kMebi);
  const FileDescriptor peer = RawConnection();
  std::string calls;
  for (uint32_t xid = 0; xid < 60; ++xid) {
    calls += Record(xid, 100);
    // Unexpected replies, which the server drops.
    for (int i = 0; i < 70; ++i) calls += Words({0x8000'03e8, 0, 1}) + std::string(992, 'x');
  }
  SendAll(peer, calls, 10);
  EXPECT_LE(hanging.calls(), 20u);
  EXPECT_LE(loop.buffers().outstanding(), 20u);
  TurnUntil([&] {
    hanging.Release();
    Send(peer, calls);
    return hanging.taken() == 60 && hanging.calls() == 0;
  });
  EXPECT_EQ(ReadFrom(peer, 60 * 28).size(), 60u * 28);
}

TEST_F(TcpMemoryTest, AllConnectionsOfAHostShareItsMemory) {
  Start({.stall_limit = 200ms}, 16 * kMebi);
  std::vector<FileDescriptor> peers;
  std::vector<std::string> calls(4, Records(20, kMebi));
  for (size_t i = 0; i < calls.size(); ++i) peers.push_back(RawConnection());
  for (size_t i = 0; i < calls.size(); ++i) SendAll(peers[i], calls[i], 4);
  EXPECT_EQ(hanging.calls(), 4u) << "one host gets a quarter of the memory";
  EXPECT_LE(memory->shared_octets(), 4 * kMebi);
  // A small call needs no shared memory.
  const FileDescriptor small = RawConnection();
  Write(small, Record(77, 100));
  TurnUntil([&] { return hanging.calls() == 5; });
  // A connection that the server does not read from must not count as stalled.
  Turn(500ms);
  EXPECT_EQ(server->connections(), 5u);
  // The connections take turns, and all of their calls complete.
  TurnUntil([&] {
    hanging.Release(1);
    for (size_t i = 0; i < calls.size(); ++i) Send(peers[i], calls[i]);
    EXPECT_LE(memory->shared_octets(), 4 * kMebi + 4 * 28 * 512);
    return hanging.taken() == 81 && hanging.calls() == 0;
  });
  for (const FileDescriptor& peer : peers) EXPECT_EQ(ReadFrom(peer, 20 * 28).size(), 20u * 28);
}

TEST_F(TcpMemoryTest, AHostAtItsLimitDoesNotDelayOtherHosts) {
  Start({}, 16 * kMebi);
  const FileDescriptor hog = RawConnection();
  std::string calls = Records(20, kMebi);
  SendAll(hog, calls, 4);
  EXPECT_EQ(hanging.calls(), 4u);
  const FileDescriptor other = RawConnectionFrom("127.0.0.2");
  std::string large = Record(99, kMebi);
  TurnUntil([&] {
    Send(other, large);
    return hanging.calls() == 5;
  });
}

TEST_F(TcpMemoryTest, ADisconnectReleasesTheMemoryOfAnUnfinishedRecord) {
  Start({}, 16 * kMebi);
  {
    const FileDescriptor gone = RawConnection();
    Write(gone, Record(1, 2 * kMebi).substr(0, 100'000));
    TurnUntil([&] { return memory->shared_octets() >= kMebi; });
  }
  TurnUntil([&] { return server->connections() == 0; });
  EXPECT_EQ(memory->shared_octets(), 0u);
}

TEST_F(TcpMemoryTest, StopDoesNotWaitForMemory) {
  Start({}, 4 * kMebi);
  const FileDescriptor hog = RawConnection(), next = RawConnection();
  std::string calls = Records(4, kMebi), more = calls;
  SendAll(hog, calls, 1);
  SendAll(next, more, 1);
  EXPECT_EQ(hanging.calls(), 1u);
  bool stopped = false;
  BeginStop(*server, std::chrono::hours(1), stopped);
  TurnUntil([&] { return server->connections() == 1; });
  hanging.Release();
  TurnUntil([&] { return stopped; });
  server.reset();
}

}  // namespace
}  // namespace penstock::rpc::tcp
