#include "rpc/tcp/record_socket.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <string>

#include "base/test_loop.h"

namespace penstock::rpc::tcp {
namespace {

using asio::ip::tcp;

constexpr size_t kRecord = 8 << 20;
// The most octets that one handler of the loop may send or receive: those of a turn, and those of its last system call.
constexpr size_t kMost = 1 << 20;

// A RecordSocket, and the other end of its connection, which the test plays itself.
class RecordSocketTest : public ::testing::Test, public RecordSocket::Owner {
 protected:
  RecordSocketTest() {
    tcp::acceptor acceptor(loop.context(), {asio::ip::make_address("127.0.0.1"), 0});
    peer.connect(acceptor.local_endpoint());
    peer.non_blocking(true);
    tcp::socket accepted = acceptor.accept();
    Configure(accepted);
    socket = std::make_shared<RecordSocket>(loop, std::move(accepted), kRecord, *this);
  }
  ~RecordSocketTest() override {
    socket->Close();
    TurnFor(loop, {});
  }

  void OnClosed() override {}

  // Reads what has arrived at the peer.
  void ReadAtPeer() {
    std::string some(1 << 20, '\0');
    for (;;) {
      const ssize_t n = ::recv(peer.native_handle(), some.data(), some.size(), MSG_DONTWAIT);
      if (n <= 0) return;
      arrived.append(some, 0, static_cast<size_t>(n));
    }
  }

  // Sends a message whose payload is `data`, to a peer that reads all the time. Returns the most octets that one
  // handler of the loop has sent.
  size_t MostSentByAHandler(const Data& data) {
    xdr::Message message;
    message.items.push_back({0, data});
    socket->Send(std::move(message));
    // The loop runs one handler between two questions of TurnUntil().
    size_t most = 0, left = socket->queued_octets();
    EXPECT_TRUE(TurnUntil(loop, [&] {
      most = std::max(most, left - socket->queued_octets());
      left = socket->queued_octets();
      ReadAtPeer();
      return arrived.size() == kRecordHeaderSize + data.size();
    }));
    return most;
  }

  static std::string Pattern(size_t size) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + (i >> 8));
    return text;
  }

  Loop loop;
  tcp::socket peer{loop.context()};
  std::shared_ptr<RecordSocket> socket;
  std::string arrived;
};

TEST_F(RecordSocketTest, OneHandlerSendsABoundedPartOfAMessageFromMemory) {
  const std::string bytes = Pattern(kRecord);
  EXPECT_LE(MostSentByAHandler(Data(Slice::Borrowed(AsBytes(bytes)))), kMost);
  EXPECT_EQ(arrived.substr(kRecordHeaderSize), bytes);
}

TEST_F(RecordSocketTest, OneHandlerSendsABoundedPartOfAMessageFromAFile) {
  const std::string bytes = Pattern(kRecord);
  auto file = std::make_shared<FileDescriptor>(::memfd_create("test", 0));
  ASSERT_EQ(::write(file->get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  EXPECT_LE(MostSentByAHandler(Data(file, 0, bytes.size())), kMost);
  EXPECT_EQ(arrived.substr(kRecordHeaderSize), bytes);
}

TEST_F(RecordSocketTest, TheFirstRepliesToManyCallsLeaveBeforeTheOthersAreWorkedOn) {
  constexpr size_t kEarly = 8, kCalls = 32;
  const std::string call("\x80\0\0\4call", 8);
  bool saw_early = false;
  bool is_done = false;
  const auto reply_to_all = [&]() -> Task<> {
    size_t in_turn = 0;
    for (size_t handled = 0; handled < kCalls;) {
      auto record = socket->TakeReceived();
      if (!record) {
        in_turn = 0;
        record = co_await socket->Receive();
      }
      EXPECT_TRUE(record);
      if (!record) co_return;
      xdr::Message reply;
      reply.items.push_back({0, Data(*std::move(record))});
      socket->Send(std::move(reply));
      ++handled;
      ++in_turn;
      if (socket->EndsTurn(0)) {
        co_await NextTurn(loop);
        socket->BeginTurn();
        in_turn = 0;
      }
      if (in_turn != kEarly) continue;
      EXPECT_EQ(socket->queued_octets(), 0u);
      saw_early = true;
    }
    socket->Flush();
    is_done = true;
  };
  // On a busy machine, the time of a turn may be over before its eighth reply.
  for (int i = 0; i < 1000 && !saw_early; ++i) {
    std::string calls;
    for (size_t j = 0; j < kCalls; ++j) calls += call;
    ASSERT_EQ(::send(peer.native_handle(), calls.data(), calls.size(), 0), static_cast<ssize_t>(calls.size()));
    arrived.clear();
    is_done = false;
    Spawn(reply_to_all());
    ASSERT_TRUE(TurnUntil(loop, [&] {
      ReadAtPeer();
      return is_done && arrived.size() == calls.size();
    }));
    EXPECT_EQ(arrived, calls);
  }
  EXPECT_TRUE(saw_early);
}

}  // namespace
}  // namespace penstock::rpc::tcp
