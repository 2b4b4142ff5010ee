// RdmapStream is one end of an RDMAP Stream (RFC 5040 §2): an iWARP connection after MPA negotiation, without its
// socket. It turns the requests of the owner into octets for the peer, and octets of the peer into completions. It does
// no I/O, so that it runs the same over TCP, in tests and in a fuzzer.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/buffer.h"
#include "rdma/completion_queue.h"
#include "rdma/endpoint.h"
#include "rdma/iwarp/fpdu_reader.h"
#include "rdma/iwarp/inbound.h"
#include "rdma/iwarp/mpa_negotiation.h"
#include "rdma/iwarp/outbound.h"
#include "rdma/iwarp/rdma_reads.h"
#include "rdma/iwarp/stag_table.h"
#include "rdma/provider.h"

namespace penstock::rdma::iwarp {

class RdmapStream {
 public:
  struct Options {
    MpaAgreement agreement = {};
    bool initiator = false;
    size_t max_ulpdu = kMaxUlpdu;
  };
  static constexpr uint32_t kMaxMessage = 4 << 20;
  static constexpr uint32_t kMaxTransfer = 1 << 30;

  // `pool` must outlive the stream.
  RdmapStream(Options options, BufferPool& pool, Entropy entropy);
  ~RdmapStream();

  // These functions have the semantics of Endpoint.
  void PostReceive(ReceiveRequest request);
  void PostSend(SendRequest request);
  void PostWrite(WriteRequest request);
  void PostRead(ReadRequest request);
  std::unique_ptr<MemoryRegion> Register(Bytes memory, Access access);
  void PostInvalidate(Context context, MemoryRegion& region);
  void Disconnect();
  // Ends the connection without completions. Afterwards the stream does not use the memory of requests and regions.
  void Abandon();
  // Ends the connection with a Terminate of this code, because the agreement is not acceptable.
  void Refuse(TerminateCode code);
  CompletionQueue& completions() { return completions_; }
  size_t Poll(std::span<Completion> out) { return completions_.Poll(out); }
  bool has_completions() const { return !completions_.empty(); }

  // Incoming octets, as in FpduReader: the memory for the next octets, and the handling of received ones.
  FpduReader::Places Wants(Bytes staging) { return reader_.Wants(staging); }
  void HandleReceived(size_t size, ConstBytes staging);
  void HandleEndOfStream();               // the peer has closed its half
  void HandleBroken(std::string detail);  // the TCP connection is lost
  void HandleFault(std::string detail);   // an error of the system on this side
  // Handles the expiry of the time that the peer has to close its half.
  void HandleCloseTimeout();

  // Outgoing octets, as in FpduWriter.
  FpduWriter::Part NextToSend();
  void HandleSent(size_t size);
  void ReplaceFile(BufferRef buffer) { outbound_.writer().ReplaceFile(std::move(buffer)); }

  // The action of the driver on its socket when no octets are left to send.
  enum class Ending : uint8_t {
    kNone,
    kShutdown,  // close this half; then read and hand in octets until the peer closes its half
    kClose,
    kReset,  // at once
  };
  Ending ending() const;
  bool lost() const { return state_ == State::kLost; }
  // True if Disconnect() was called and requests are left to send.
  bool draining() const { return state_ == State::kDraining; }
  // The driver calls this at regular intervals. Returns the number of intervals in a row in which the peer has made no
  // progress although this side waits for it (see Options::stall_limit).
  int StalledIntervals();
  // Ends the connection because the peer has stalled for too long.
  void HandleStall();

  // True if this side is the initiator and has received no FPDU. The peer may wait for octets: a responder must not
  // send before it has received an FPDU (RFC 5044 §7.1.2 rule 4), and the responder of Linux (siw) may leave an FPDU
  // unread that arrives within microseconds of its MPA reply, until more octets arrive. Nudge() sends a message without
  // effect, a zero-length RDMA Write.
  bool unanswered() const { return options_.initiator && state_ != State::kLost && reader_.fpdus() == 0; }
  void Nudge();

  const FpduReader& reader() const { return reader_; }
  uint64_t sent() { return outbound_.writer().sent(); }

 private:
  // kOpen -> kDraining (Disconnect) -> kHalfClosed (all requests are sent) -> kLost. Each state can also change to
  // kLost.
  enum class State : uint8_t { kOpen, kDraining, kHalfClosed, kLost };

  void SendRtr(Rtr kind);
  void FailLocally(Operation operation, Context context, std::string_view why);
  bool Accepts(Operation operation, Context context);
  void CheckInput();
  void CheckDrained();
  void Fail(const TerminateMessage& message, DisconnectReason reason, std::string detail);
  void HandlePeerTerminate(const TerminateMessage& message);
  void Lose(DisconnectReason reason, std::string detail, Ending ending);
  void FlushAll();

  const Options options_;
  std::shared_ptr<StagTable> stags_;  // shared with the regions, which may outlive the stream
  CompletionQueue completions_;
  RdmaReads reads_;
  Inbound inbound_;
  FpduReader reader_;
  Outbound outbound_;
  State state_ = State::kOpen;
  Ending ending_ = Ending::kNone;
  // For StalledIntervals(): the last progress of the peer, and the number of intervals without progress since.
  struct Progress {
    uint64_t seen = 0;
    int stalled = 0;
  };
  Progress sending_, taking_, answering_;
  // The Terminate of the peer. FlushAll() gives the request that it names the status kRemoteAccess.
  const TerminateMessage* blame_ = nullptr;
};

}  // namespace penstock::rdma::iwarp
