#include "rdma/iwarp/mpa_exchange.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/connect_tcp.h"
#include "base/ready.h"
#include "base/result.h"
#include "rdma/iwarp/mpa_negotiation.h"
#include "rdma/iwarp/socket_endpoint.h"

namespace penstock::rdma::iwarp {
namespace {

// Random numbers from the system. It reads many at once, so that a registration costs no system call.
class SystemEntropy {
 public:
  uint64_t operator()() {
    if (next_ == pool_.size()) Refill();
    return pool_[next_++];
  }

 private:
  void Refill() {
    auto* at = reinterpret_cast<char*>(pool_.data());
    for (size_t done = 0; done < sizeof pool_;) {
      const ssize_t n = ::getrandom(at + done, sizeof pool_ - done, 0);
      if (n < 0 && errno != EINTR) std::terminate();  // no STag is safe without random numbers
      if (n > 0) done += static_cast<size_t>(n);
    }
    next_ = 0;
  }
  std::array<uint64_t, 512> pool_;
  size_t next_ = pool_.size();
};

// All connections of a loop share one pool of random numbers.
Entropy MakeEntropy() {
  return [pool = std::make_shared<SystemEntropy>()] { return (*pool)(); };
}

}  // namespace

ProviderState::ProviderState(Loop& event_loop, Options chosen)
    : loop(event_loop),
      options(std::move(chosen)),
      entropy(MakeEntropy()),
      staging(std::make_shared<StagingArea>(kStagingSize)) {}

Exchange::Exchange(std::shared_ptr<ProviderState> state, asio::ip::tcp::socket socket, Duration time_limit,
                   std::vector<std::byte> read_ahead)
    : state_(std::move(state)), socket_(std::move(socket)), read_ahead_(std::move(read_ahead)) {
  state_->exchanges.insert(this);
  timer_ = state_->loop.MakeTimer([this] {
    timed_out_ = true;
    asio::error_code ignored;
    socket_.close(ignored);
  });
  timer_->ExpireAfter(time_limit);
  if (state_->gone) Cancel();
}

Exchange::~Exchange() { state_->exchanges.erase(this); }

void Exchange::Cancel() {
  cancelled_ = true;
  asio::error_code ignored;
  socket_.close(ignored);
}

Task<Result<std::monostate, ConnectError>> Exchange::Connect(Address peer, LocalPort from) {
  if (timed_out_ || cancelled_) co_return std::unexpected(Stopped());
  const std::error_code error = co_await ConnectTcp(socket_, peer, {.port = from});
  if (timed_out_ || cancelled_) co_return std::unexpected(Stopped());
  if (error) co_return std::unexpected(Failure(error.value()));
  asio::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  socket_.native_non_blocking(true, ignored);
  co_return std::monostate();
}

Task<Result<MpaFrame, ConnectError>> Exchange::Read(MpaFrame::Kind kind) {
  auto malformed = [](MpaFrameError error) {
    return std::unexpected(ConnectError{ConnectError::Kind::kProtocol, std::string(ToString(error)), {}});
  };
  // Reads no octet after the frame, because those octets are for the driver.
  std::array<std::byte, MpaFrame::kHeaderSize + MpaFrame::kMaxPrivateData> bytes;
  std::optional<ConnectError> failure = co_await ReadAll(Bytes(bytes).first(MpaFrame::kHeaderSize));
  if (failure) co_return std::unexpected(*std::move(failure));
  const auto size = MpaFrame::PrivateDataSize(bytes, kind);
  if (!size) co_return malformed(size.error());
  failure = co_await ReadAll(Bytes(bytes).subspan(MpaFrame::kHeaderSize, *size));
  if (failure) co_return std::unexpected(*std::move(failure));
  auto frame = MpaFrame::Parse(ConstBytes(bytes).first(MpaFrame::kHeaderSize + *size), kind);
  if (!frame) co_return malformed(frame.error());
  co_return *std::move(frame);
}

Task<std::optional<ConnectError>> Exchange::ReadAll(Bytes bytes) {
  const size_t known = std::min(bytes.size(), read_ahead_.size());
  CopyBytes(bytes, ConstBytes(read_ahead_).first(known));
  read_ahead_.erase(read_ahead_.begin(), read_ahead_.begin() + static_cast<std::ptrdiff_t>(known));
  bytes = bytes.subspan(known);
  while (!bytes.empty()) {
    if (!socket_.is_open()) co_return Stopped();
    const ssize_t n = ::recv(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n > 0) {
      bytes = bytes.subspan(static_cast<size_t>(n));
    } else if (n == 0) {
      co_return ConnectError{ConnectError::Kind::kProtocol, "closed during MPA start-up", {}};
    } else if (errno == EAGAIN) {
      Ready ready(socket_, asio::ip::tcp::socket::wait_read);
      co_await ready;
    } else if (errno != EINTR) {
      co_return Failure(errno);
    }
  }
  co_return std::nullopt;
}

Task<Result<std::monostate, ConnectError>> Exchange::Write(std::vector<std::byte> bytes) {
  ConstBytes rest = bytes;
  while (!rest.empty()) {
    if (!socket_.is_open()) co_return std::unexpected(Stopped());
    const ssize_t n = ::send(socket_.native_handle(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) {
      rest = rest.subspan(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      Ready ready(socket_, asio::ip::tcp::socket::wait_write);
      co_await ready;
    } else if (errno != EINTR) {
      co_return std::unexpected(Failure(errno));
    }
  }
  co_return std::monostate();
}

void Exchange::WriteNow(ConstBytes bytes) {
  if (!socket_.is_open()) return;
  [[maybe_unused]] ssize_t n = ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  asio::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

ConnectError Exchange::Stopped() const {
  if (timed_out_) return {ConnectError::Kind::kTimedOut, "no answer in time", {}};
  return {ConnectError::Kind::kCancelled, "given up", {}};
}

ConnectError Exchange::Failure(int error) const {
  if (timed_out_ || cancelled_) return Stopped();
  ConnectError::Kind kind = ConnectError::Kind::kUnreachable;
  if (error == ECONNREFUSED) kind = ConnectError::Kind::kRefused;
  if (error == ETIMEDOUT) kind = ConnectError::Kind::kTimedOut;
  // The peer has reset the connection during the exchange.
  if (error == ECONNRESET || error == EPIPE) kind = ConnectError::Kind::kProtocol;
  return {kind, DescribeErrno(error), {}};
}

namespace {

RdmapStream::Options StreamOptions(const ProviderState& state, const MpaAgreement& agreement, bool initiator) {
  return {.agreement = agreement, .initiator = initiator, .max_ulpdu = state.options.max_ulpdu};
}

}  // namespace

std::unique_ptr<Endpoint> MakeEndpoint(const std::shared_ptr<ProviderState>& state, Exchange& exchange,
                                       const MpaAgreement& agreement, bool initiator, ConnectOptions options,
                                       MpaFrame peers) {
  exchange.StopClock();
  ConnectionInfo info;
  info.provider = "iwarp";
  asio::error_code ignored;
  info.local = exchange.socket().local_endpoint(ignored);
  info.peer = exchange.socket().remote_endpoint(ignored);
  info.peer_depths = DepthsOf(peers);
  info.private_data = std::move(peers.private_data);
  info.ird = agreement.ird;
  info.ord = agreement.ord;
  auto driver =
      std::make_shared<SocketDriver>(state->loop, exchange.Release(), state->options,
                                     StreamOptions(*state, agreement, initiator), state->entropy, state->staging);
  for (const ReceiveRequest& receive : options.receives) driver->stream().PostReceive(receive);
  driver->Begin();
  return std::make_unique<SocketEndpoint>(std::move(driver), std::move(info), state->loop.buffers());
}

void SendRefusal(const std::shared_ptr<ProviderState>& state, Exchange& exchange, const MpaRefusal& refusal) {
  RdmapStream stream(StreamOptions(*state, refusal.agreement, true), state->loop.buffers(), state->entropy);
  stream.Refuse(refusal.code);
  std::vector<std::byte> bytes;
  for (const iovec& piece : stream.NextToSend().memory) {
    const auto* at = static_cast<const std::byte*>(piece.iov_base);
    bytes.insert(bytes.end(), at, at + piece.iov_len);
  }
  exchange.WriteNow(bytes);
}

MpaPreferences PreferencesOf(const Options& options, const ConnectOptions& connect) {
  MpaPreferences preferences;
  preferences.revision = options.revision;
  preferences.crc = options.crc;
  preferences.markers = options.markers;
  preferences.peer_to_peer = options.peer_to_peer;
  preferences.rtr = options.rtr;
  preferences.ird = connect.ird;
  preferences.ord = connect.ord;
  return preferences;
}

size_t MaxPrivateData(bool enhanced) { return MpaFrame::kMaxPrivateData - (enhanced ? EnhancedData::kSize : 0); }

}  // namespace penstock::rdma::iwarp
