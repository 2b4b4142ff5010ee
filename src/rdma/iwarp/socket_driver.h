// SocketDriver moves octets between an RdmapStream and its TCP socket, on a loop, and keeps the timers of the stream.
#pragma once

#include <asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/loop_turn.h"
#include "rdma/iwarp/options.h"
#include "rdma/iwarp/rdmap_stream.h"
#include "rdma/iwarp/socket_timers.h"

namespace penstock::rdma::iwarp {

// The memory for received octets without a known destination. All connections of a loop share it, because no octets
// stay in it.
using StagingArea = std::vector<std::byte>;
constexpr size_t kStagingSize = 64 << 10;

// Asio reports when the socket is ready; recvmsg, sendmsg and sendfile move the octets. The driver works in turns of
// the loop: the requests that are posted during a turn are sent at its end.
//
// The driver lives until the socket is closed. After Abandon() it lives in the background until it has closed in order.
class SocketDriver : public std::enable_shared_from_this<SocketDriver> {
 public:
  SocketDriver(Loop& loop, asio::ip::tcp::socket socket, const Options& options, RdmapStream::Options stream,
               Entropy entropy, std::shared_ptr<StagingArea> staging);

  // Starts the timers. The owner calls this once, before any other function except stream().
  void Begin();
  RdmapStream& stream() { return stream_; }
  void Start(std::function<void()> on_completions);
  // The owner has posted a request of so many octets: schedules a turn to send it, unless a turn runs at this moment.
  // A turn sends at its end, and before that whenever many octets have been posted, so that the peer has work
  // meanwhile.
  void Touch(size_t octets = 0);
  size_t Poll(std::span<Completion> out) { return stream_.Poll(out); }
  // The owner has destroyed its endpoint.
  void Abandon();

 private:
  void BeginTurn();
  void EndTurn();
  enum class EndOfStream : uint8_t { kHandle, kIgnore };
  void Receive(EndOfStream end_of_stream);
  void Send();
  // Replaces the octets of a file by a copy: the file was truncated, sendfile does not support it, or it cannot be
  // read.
  void ReplaceFile(const FpduWriter::Part& part);
  void HandleSendError(int error);
  // Performs the ending of the stream on the socket, or waits for more octets.
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
  LoopTurn turn_;
  bool turn_posted_ = false;
  bool waiting_to_read_ = false;
  bool waiting_to_write_ = false;
  size_t posted_ = 0;          // octets since the last Send() of this turn
  size_t posts_ = 0;           // of this turn, without those that made octets leave early
  size_t sent_ = 0;            // octets of this turn
  bool more_to_send_ = false;  // this turn has sent its share; the next one continues
  bool shut_ = false;          // this half of the connection is closed
  bool closed_ = false;
  SocketTimers timers_;
  std::unique_ptr<Timer> loop_timer_;  // expires at the next timeout of timers_
  unsigned nudges_ = 0;
  uint64_t sent_while_draining_ = 0;
  unsigned drain_extensions_ = 0;
};

}  // namespace penstock::rdma::iwarp
