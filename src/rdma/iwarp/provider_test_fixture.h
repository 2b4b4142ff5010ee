// The fixture for tests of the iWARP provider and its sockets. The test plays the peer on an ordinary TCP socket.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/test_loop.h"
#include "rdma/iwarp/mpa_negotiation.h"
#include "rdma/iwarp/provider.h"
#include "rdma/iwarp/test_wire.h"

namespace penstock::rdma::iwarp {

using asio::ip::tcp;

class ProviderTest : public testing::Test {
 protected:
  ProviderTest() { Use({}); }
  ~ProviderTest() override {
    listener_.reset();
    provider_.reset();
    TurnFor(loop_, std::chrono::milliseconds(5));
  }

  void Use(const Options& options) {
    listener_.reset();
    provider_ = std::make_unique<Provider>(loop_, options);
    listener_ = *provider_->Listen(Address(asio::ip::address_v4::loopback(), 0));
  }
  template <class Done>
  bool RunUntil(Done done) {
    return TurnUntil(loop_, done);
  }
  template <class T>
  T Await(Task<T> task) {
    auto result = std::make_shared<std::optional<T>>();
    Spawn(Store(std::move(task), result));
    EXPECT_TRUE(RunUntil([&] { return result->has_value(); }));
    return std::move(**result);
  }
  template <class T>
  static Task<void> Store(Task<T> task, std::shared_ptr<std::optional<T>> result) {
    T value = co_await std::move(task);
    result->emplace(std::move(value));
  }

  // Connects a blocking socket for a peer that the test plays.
  tcp::socket Dial() {
    tcp::socket socket(loop_.context());
    socket.connect(listener_->local());
    return socket;
  }
  tcp::socket DialFrom(const IpAddress& address) {
    tcp::socket socket(loop_.context(), tcp::v4());
    socket.bind(tcp::endpoint(address, 0));
    socket.connect(listener_->local());
    return socket;
  }
  void Write(tcp::socket& socket, ConstBytes bytes) { asio::write(socket, asio::buffer(bytes.data(), bytes.size())); }
  // Reads `size` octets, or fewer if the peer closes or does not send them.
  Octets Read(tcp::socket& socket, size_t size) {
    Octets bytes(size);
    size_t have = 0;
    bool ended = false;
    RunUntil([&] {
      const ssize_t n = ::recv(socket.native_handle(), bytes.data() + have, size - have, MSG_DONTWAIT);
      if (n > 0) have += static_cast<size_t>(n);
      ended = n == 0 || (n < 0 && errno != EAGAIN);
      return have == size || ended;
    });
    bytes.resize(have);
    return bytes;
  }
  bool Closes(tcp::socket& socket) { return Read(socket, 1).empty(); }

  MpaFrame ReadFrame(tcp::socket& socket, MpaFrame::Kind kind) {
    Octets frame = Read(socket, MpaFrame::kHeaderSize);
    const auto rest = MpaFrame::PrivateDataSize(frame, kind);
    EXPECT_TRUE(rest);
    const Octets private_data = Read(socket, rest.value_or(0));
    frame.insert(frame.end(), private_data.begin(), private_data.end());
    return MpaFrame::Parse(frame, kind).value();
  }
  MpaFrame ReadRequest(tcp::socket& socket) { return ReadFrame(socket, MpaFrame::Kind::kRequest); }

  // A listening socket for a responder that the test plays.
  tcp::acceptor ListenByHand() { return {loop_.context(), Address(asio::ip::address_v4::loopback(), 0)}; }
  // Starts to connect. The result is set when the connection is made or has failed.
  std::shared_ptr<std::optional<ConnectResult>> StartConnect(Address peer, ConnectOptions options = {}) {
    auto result = std::make_shared<std::optional<ConnectResult>>();
    Spawn(Store(provider_->Connect(std::move(peer), std::move(options)), result));
    return result;
  }

  // Sends `request` on `socket`, accepts it with the listener, and starts the endpoint.
  std::unique_ptr<Endpoint> AcceptFrom(
      tcp::socket& socket, const MpaFrame& request, std::function<void()> on_completions = [] {}) {
    Write(socket, request.Serialize());
    auto incoming = Await(listener_->Next());
    auto endpoint = Await(incoming->Accept({}));
    EXPECT_TRUE(endpoint);
    reply_ = ReadFrame(socket, MpaFrame::Kind::kReply);
    (*endpoint)->Start(std::move(on_completions));
    return *std::move(endpoint);
  }
  std::vector<rdma::Completion> Poll(Endpoint& endpoint) {
    std::vector<rdma::Completion> some(100);
    some.resize(endpoint.Poll(some));
    return some;
  }
  // Polls until the completion kDisconnected.
  std::vector<rdma::Completion> PollToTheEnd(Endpoint& endpoint) {
    std::vector<rdma::Completion> all;
    RunUntil([&] {
      for (auto& completion : Poll(endpoint)) all.push_back(std::move(completion));
      return !all.empty() && all.back().operation == Operation::kDisconnected;
    });
    return all;
  }

  Loop loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{loop_.context().get_executor()};
  std::unique_ptr<Provider> provider_;
  std::unique_ptr<Listener> listener_;
  MpaFrame reply_;
};

}  // namespace penstock::rdma::iwarp
