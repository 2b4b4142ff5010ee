// Between a RdmapStream and its TCP socket, on a loop.
#pragma once

#include <asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "rdma/iwarp/options.h"
#include "rdma/iwarp/rdmap_stream.h"
#include "rdma/iwarp/socket_timers.h"

namespace penstock::rdma::iwarp {

// Where octets pass through on their way in; shared by all connections of a loop, since nothing stays in it.
using StagingArea = std::vector<std::byte>;
constexpr size_t kStagingSize = 64 << 10;

// Asio says when the socket is ready; recvmsg, sendmsg and sendfile do the rest. Everything happens in turns of the loop:
// what was posted during a turn is sent at its end.
//
// Lives until the socket is closed: after Abandon(), in the background, as long as it takes to close in order.
class SocketDriver : public std::enable_shared_from_this<SocketDriver> {
 public:
  SocketDriver(Loop& loop, asio::ip::tcp::socket socket, const Options& options, RdmapStream::Options stream,
               Entropy entropy, std::shared_ptr<StagingArea> staging);

  // Once, before anything else.
  void Begin();
  RdmapStream& stream() { return stream_; }
  void Start(std::function<void()> on_completions);
  // Something was posted: it is sent at the end of this turn, or in the next.
  void Touch();
  size_t Poll(std::span<Completion> out) { return stream_.Poll(out); }
  void Abandon();

 private:
  void BeginTurn();
  void EndTurn();
  enum class EndOfStream : uint8_t { kHandle, kIgnore };
  void Receive(EndOfStream end_of_stream);
  void Send();
  void ReplaceFile(const FpduWriter::Part& part);
  void HandleSendError(int error);
  void Settle();
  void ArmRead();
  void ArmWrite();
  void SetTimer(SocketTimer timer, Duration delay);
  void ArmLoopTimer();
  void HandleTimers();
  void Close();
  void HandleNudge();
  void HandleCloseTimeout();
  void HandleStallTimer();

  Loop& loop_;
  asio::ip::tcp::socket socket_;
  const Options options_;
  RdmapStream stream_;
  std::shared_ptr<StagingArea> staging_;

  bool in_turn_ = false;
  bool turn_posted_ = false;
  bool waiting_to_read_ = false;
  bool waiting_to_write_ = false;
  bool more_to_send_ = false;  // the turn has sent its share; the next goes on
  bool shut_ = false;          // our half of the connection is closed
  bool closed_ = false;
  SocketTimers timers_;
  std::unique_ptr<Timer> loop_timer_;  // expires at the next timeout of timers_
  unsigned nudges_ = 0;
  uint64_t sent_while_draining_ = 0;
  unsigned drain_extensions_ = 0;
};

}  // namespace penstock::rdma::iwarp
