// One iWARP connection in full operation: everything but the socket. Octets come in and go out by calls, so that it runs
// the same over TCP, in a test that cuts the stream anywhere, and under a fuzzer.
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

  // `pool` must outlive it.
  RdmapStream(Options options, BufferPool& pool, Entropy entropy);
  ~RdmapStream();

  // As endpoint.h says.
  void PostReceive(Context context, BufferRef buffer);
  void PostSend(SendRequest request);
  void PostWrite(WriteRequest request);
  void PostRead(ReadRequest request);
  std::unique_ptr<MemoryRegion> Register(Bytes memory, Access access);
  void PostInvalidate(Context context, MemoryRegion& region);
  void Disconnect();
  // Ends the connection without telling anybody here: the memory of requests and regions is not used any more.
  void Abandon();
  // Ends it with a Terminate that says so: what was agreed on will not do.
  void Refuse(TerminateCode code);
  CompletionQueue& completions() { return completions_; }
  size_t Poll(std::span<Completion> out) { return completions_.Poll(out); }
  bool has_completions() const { return !completions_.empty(); }

  // Octets in: where the next ones should go, and how many came. `staging` as for FpduReader.
  FpduReader::Places Wants(Bytes staging) { return reader_.Wants(staging); }
  void HandleReceived(size_t size, ConstBytes staging);
  void HandleEndOfStream();               // the peer's half is closed
  void HandleBroken(std::string detail);  // the TCP connection is gone
  void HandleFault(std::string detail);   // our own system lets us down
  // The shell has waited long enough for the peer's half to be closed.
  void HandleCloseTimeout();

  // Octets out.
  FpduWriter::Part NextToSend();
  void HandleSent(size_t size);
  void ReplaceFile(BufferRef buffer) { outbound_.writer().ReplaceFile(std::move(buffer)); }

  // What the shell is to do with the socket, once nothing is left to be sent.
  enum class Ending : uint8_t {
    kNone,
    kShutdown,  // close our half, then read (and hand in) what comes until the peer's half is closed too
    kClose,
    kReset,  // at once
  };
  Ending ending() const;
  bool lost() const { return state_ == State::kLost; }
  // Disconnect() was called, and there is still something to be sent.
  bool draining() const { return state_ == State::kDraining; }
  // To be called at regular intervals: for how many of them in a row the peer has owed us something (see
  // Options::stall_limit) without getting on with it.
  int StalledIntervals();
  // Ends it, since it stalled for too long.
  void HandleStall();

  // As initiator we have heard nothing yet. The peer may be waiting: one that may not speak before it is spoken to (RFC 5044
  // §7.1.2 rule 4), or Linux's siw, which as responder may leave an FPDU that comes within microseconds of its MPA reply
  // unread until more octets come. Nudge() says something that means nothing: a zero-length RDMA Write.
  bool unanswered() const { return options_.initiator && state_ != State::kLost && reader_.fpdus() == 0; }
  void Nudge();

  const FpduReader& reader() const { return reader_; }
  uint64_t sent() { return outbound_.writer().sent(); }

 private:
  // kOpen -> kDraining (Disconnect) -> kHalfClosed (all is sent) -> kLost, and from each to kLost.
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
  std::shared_ptr<StagTable> stags_;  // shared with the regions, which may live longer
  CompletionQueue completions_;
  RdmaReads reads_;
  Inbound inbound_;
  FpduReader reader_;
  Outbound outbound_;
  State state_ = State::kOpen;
  Ending ending_ = Ending::kNone;
  // For StalledIntervals(): how far the peer had got, and since when no further.
  struct Progress {
    uint64_t seen = 0;
    int stalled = 0;
  };
  Progress sending_, taking_, answering_;
  // What the peer's Terminate was about, for the status of the request concerned.
  const TerminateMessage* blame_ = nullptr;
};

}  // namespace penstock::rdma::iwarp
