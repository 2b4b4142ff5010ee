// The exchange of MPA frames over a socket, before a SocketDriver takes the socket.
#pragma once

#include <asio/ip/tcp.hpp>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/loop.h"
#include "base/task.h"
#include "rdma/iwarp/mpa_frame.h"
#include "rdma/iwarp/options.h"
#include "rdma/iwarp/socket_driver.h"
#include "rdma/iwarp/stag_table.h"
#include "rdma/provider.h"

namespace penstock::rdma::iwarp {

class Exchange;

// The state that a provider shares with its coroutines, listeners and endpoints. Some of them may live a little longer
// than the provider.
struct ProviderState {
  ProviderState(Loop& event_loop, Options chosen);

  Loop& loop;
  const Options options;
  Entropy entropy;
  std::shared_ptr<StagingArea> staging;
  std::unordered_set<Exchange*> exchanges;  // the destructor of the provider cancels them
  bool gone = false;                        // the provider was destroyed
};

// A socket for the exchange of MPA frames, with a time limit. Its coroutines end soon after Cancel().
class Exchange {
 public:
  // `read_ahead` are octets that were read from the socket before.
  Exchange(std::shared_ptr<ProviderState> state, asio::ip::tcp::socket socket, Duration time_limit,
           std::vector<std::byte> read_ahead = {});
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Opens the socket and connects it.
  Task<Result<std::monostate, ConnectError>> Connect(Address peer, LocalPort from);
  Task<Result<MpaFrame, ConnectError>> Read(MpaFrame::Kind kind);
  Task<Result<std::monostate, ConnectError>> Write(std::vector<std::byte> bytes);
  // Writes without waiting, as many octets as the socket accepts, and closes this half of the connection.
  void WriteNow(ConstBytes bytes);

  // Sets a new time limit, which begins now.
  void SetClock(Duration time_limit) { timer_->ExpireAfter(time_limit); }
  // Removes the time limit.
  void StopClock() { timer_->Cancel(); }
  void Cancel();
  // True if octets that were read ahead are left.
  bool has_read_ahead() const { return !read_ahead_.empty(); }
  asio::ip::tcp::socket& socket() { return socket_; }
  // Hands the socket over to a driver.
  asio::ip::tcp::socket Release() { return std::move(socket_); }

 private:
  Task<std::optional<ConnectError>> ReadAll(Bytes bytes);
  ConnectError Failure(int error) const;
  ConnectError Stopped() const;

  std::shared_ptr<ProviderState> state_;
  asio::ip::tcp::socket socket_;
  std::vector<std::byte> read_ahead_;
  bool timed_out_ = false;
  bool cancelled_ = false;
  std::unique_ptr<Timer> timer_;
};

// Makes an endpoint on the socket of a finished exchange. `peers` is the frame of the peer.
std::unique_ptr<Endpoint> MakeEndpoint(const std::shared_ptr<ProviderState>& state, Exchange& exchange,
                                       const MpaAgreement& agreement, bool initiator, ConnectOptions options,
                                       MpaFrame peers);

// Sends the peer a Terminate with the reason of a refusal, without waiting.
void SendRefusal(const std::shared_ptr<ProviderState>& state, Exchange& exchange, const MpaRefusal& refusal);

MpaPreferences PreferencesOf(const Options& options, const ConnectOptions& connect);

// The number of octets of private data that a frame has for the upper layer.
size_t MaxPrivateData(bool enhanced);

}  // namespace penstock::rdma::iwarp
