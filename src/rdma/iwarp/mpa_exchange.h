// The MPA start-up frames over a socket: what precedes a SocketDriver.
#pragma once

#include <asio/ip/tcp.hpp>
#include <memory>
#include <string>
#include <unordered_set>

#include "base/loop.h"
#include "base/task.h"
#include "rdma/iwarp/mpa_frame.h"
#include "rdma/iwarp/options.h"
#include "rdma/iwarp/socket_driver.h"
#include "rdma/iwarp/stag_table.h"
#include "rdma/provider.h"

namespace penstock::rdma::iwarp {

class Exchange;

// What a provider shares with all that it has started, which may take a little longer to end than the provider itself.
struct ProviderState {
  ProviderState(Loop& event_loop, Options chosen);

  Loop& loop;
  const Options options;
  Entropy entropy;
  std::shared_ptr<StagingArea> staging;
  std::unordered_set<Exchange*> exchanges;  // to be cancelled when the provider goes
  bool gone = false;
};

// A socket on which frames are exchanged, with a time limit. Its coroutines end soon after Cancel().
class Exchange {
 public:
  Exchange(std::shared_ptr<ProviderState> state, asio::ip::tcp::socket socket, Duration time_limit);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Of a socket that is not open yet.
  Task<Result<std::monostate, ConnectError>> Connect(Address peer, LocalPort from);
  Task<Result<MpaFrame, ConnectError>> Read(MpaFrame::Kind kind);
  Task<Result<std::monostate, ConnectError>> Write(std::vector<std::byte> bytes);
  // The same without waiting, as far as the socket takes it.
  void WriteNow(ConstBytes bytes);

  // A new time limit, from now on.
  void SetClock(Duration time_limit) { timer_->ExpireAfter(time_limit); }
  // From now on there is no time limit.
  void StopClock() { timer_->Cancel(); }
  void Cancel();
  asio::ip::tcp::socket& socket() { return socket_; }
  // The socket goes to its driver.
  asio::ip::tcp::socket Release() { return std::move(socket_); }

 private:
  Task<std::optional<ConnectError>> ReadAll(Bytes bytes);
  ConnectError Failure(int error) const;
  ConnectError Stopped() const;

  std::shared_ptr<ProviderState> state_;
  asio::ip::tcp::socket socket_;
  bool timed_out_ = false;
  bool cancelled_ = false;
  std::unique_ptr<Timer> timer_;
};

// Sets the endpoint up on a socket whose exchange is over.
std::unique_ptr<Endpoint> MakeEndpoint(const std::shared_ptr<ProviderState>& state, Exchange& exchange,
                                       const MpaAgreement& agreement, bool initiator, ConnectOptions options,
                                       MpaFrame peers);

// Tells the peer, as well as can be done at once, that what was agreed on will not do.
void SendRefusal(const std::shared_ptr<ProviderState>& state, Exchange& exchange, const MpaRefusal& refusal);

MpaPreferences PreferencesOf(const Options& options, const ConnectOptions& connect);

// What of the private data is left for the upper layer.
size_t MaxPrivateData(bool enhanced);

}  // namespace penstock::rdma::iwarp
