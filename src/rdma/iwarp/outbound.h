// The sending half of RDMAP and DDP: from work requests, and the Reads that the peer asks for, to segments.
#pragma once

#include <array>
#include <optional>

#include "rdma/completion_queue.h"
#include "rdma/endpoint.h"
#include "rdma/fifo.h"
#include "rdma/iwarp/ddp_header.h"
#include "rdma/iwarp/fpdu_writer.h"
#include "rdma/iwarp/rdma_reads.h"
#include "rdma/iwarp/stag_table.h"
#include "rdma/iwarp/terminate.h"

namespace penstock::rdma::iwarp {

// A request of ours on its way out.
struct WorkRequest {
  Operation operation = Operation::kSend;
  Context context = 0;
  bool internal = false;  // completes for nobody
  Opcode opcode = Opcode::kSend;
  Stag stag;  // Write: the target; Send with Invalidate: what to invalidate; Read: the source
  uint64_t offset = 0;
  uint32_t size = 0;
  Gather gather;
  Bytes sink;       // Read
  BufferRef owner;  // Read

  GatherCursor cursor;
  uint32_t done = 0;   // octets in segments
  uint64_t end = 0;    // where its last segment ends, in octets of FpduWriter::added()
  bool built = false;  // all of it is in segments
};

class Outbound {
 public:
  struct Options {
    // The longest ULPDU we make. RFC 5044 §4.5 wants FPDUs that fit a TCP segment, so that an adapter can place segments
    // that come out of order. Our TCP is layered, the kernel cuts the stream where it likes (§5.1 cannot be had), and
    // receivers must cope (§6): long FPDUs then save headers, calls and check values. For an adapter that does badly
    // with them, this is where to say so.
    size_t max_ulpdu = kMaxUlpdu;
    uint16_t ord = 0;
  };
  Outbound(Options options, Framing framing, BufferPool& pool, StagTable& stags, RdmaReads& reads,
           CompletionQueue& completions);

  // Nothing is sent before this: a responder waits for the first FPDU (RFC 5044 §7.1.2 rule 4).
  void AllowSending() { allowed_ = true; }
  bool allowed() const { return allowed_; }

  void Post(WorkRequest request);
  // Makes segments as long as the writer has room. False where a Read Request cannot be answered after all (see failure()), or
  // a file cannot be read (see the writer's file_error()).
  bool Fill();
  // Completes what has been sent.
  void HandleSent(size_t size);

  // Nothing is left to be sent, or to be answered.
  bool idle() { return requests_.empty() && reads_.requested.empty() && writer_.batch_sent(); }
  Fifo<WorkRequest>& requests() { return requests_; }
  FpduWriter& writer() { return writer_; }
  const std::optional<TerminateMessage>& failure() const { return failure_; }

  // The last message of the connection. Requires that the writer was Cut().
  void AddTerminate(const TerminateMessage& message);

 private:
  enum class Source : uint8_t { kNone, kRequest, kResponse };

  Source Choose();
  bool RequestReady();
  void AddRequest();
  void AddSend(WorkRequest& request);
  void AddWrite(WorkRequest& request);
  void AddRead(WorkRequest& request);
  bool AddResponse();
  // Adds the only segment of a message of RDMAP itself, as the next message of `queue`.
  void AddMessage(Opcode opcode, uint32_t queue, ConstBytes body);
  size_t SegmentSize(size_t header_size, size_t left) const;
  SegmentControl Control(bool tagged, Opcode opcode, bool last) const;

  const Options options_;
  const size_t max_ulpdu_;
  StagTable& stags_;
  RdmaReads& reads_;
  CompletionQueue& completions_;
  FpduWriter writer_;
  bool allowed_ = false;

  Fifo<WorkRequest> requests_;
  size_t built_ = 0;                // requests at the front of requests_ that are all in segments
  Source current_ = Source::kNone;  // whose message is under way; messages are not mixed (RFC 5041 §5.3)
  Source last_ = Source::kNone;     // whose turn was last: requests and responses take turns
  uint32_t response_done_ = 0;
  std::array<uint32_t, kQueues> next_msn_{1, 1, 1};
  uint32_t next_sink_stag_ = 1;
  std::optional<TerminateMessage> failure_;
};

}  // namespace penstock::rdma::iwarp
