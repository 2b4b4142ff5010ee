// Outbound is the sending half of RDMAP and DDP. It makes segments from the work requests of this side and from the
// Read Requests of the peer.
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

// A Send, RDMA Write or RDMA Read of this side, until it is completely sent.
struct WorkRequest {
  Operation operation = Operation::kSend;
  Context context = 0;
  bool internal = false;  // has no completion
  Opcode opcode = Opcode::kSend;
  Stag stag;  // Write: the target; Send with Invalidate: the STag to invalidate; Read: the source
  uint64_t offset = 0;
  uint32_t size = 0;
  Gather gather;
  Bytes sink;       // Read
  BufferRef owner;  // Read

  GatherCursor cursor;
  uint32_t done = 0;   // octets in segments
  uint64_t end = 0;    // the end of its last segment, in octets of FpduWriter::added()
  bool built = false;  // all of it is in segments
};

class Outbound {
 public:
  struct Options {
    // The maximum size of a ULPDU. RFC 5044 §4.5 recommends FPDUs that fit a TCP segment, so that an adapter can place
    // segments that arrive out of order. Here the TCP of the kernel cuts the stream at any octet (§5.1 is not
    // possible), and receivers must support this (§6). Then long FPDUs save headers, calls and check values. A smaller
    // value suits an adapter that is slow with long FPDUs.
    size_t max_ulpdu = kMaxUlpdu;
    uint16_t ord = 0;
  };
  Outbound(Options options, Framing framing, BufferPool& pool, StagTable& stags, RdmaReads& reads,
           CompletionQueue& completions);

  // Allows sending. Before this Fill() adds no segment, because a responder must wait for the first FPDU (RFC 5044
  // §7.1.2 rule 4).
  void AllowSending() { allowed_ = true; }
  bool allowed() const { return allowed_; }

  // Queues a request of this side.
  void Post(WorkRequest&& request);
  // Makes segments as long as the writer has room. Returns false if a Read Request cannot be answered after all (see
  // failure()), or a file cannot be read (see file_error() of the writer).
  bool Fill();
  // Handles the sending of `size` octets: completes the requests that are sent.
  void HandleSent(size_t size);

  // True if no request is left to send or to answer.
  bool idle() { return requests_.empty() && reads_.requested.empty() && writer_.batch_sent(); }
  Fifo<WorkRequest>& requests() { return requests_; }
  FpduWriter& writer() { return writer_; }
  // The Terminate for the peer, if Fill() could not answer a Read Request.
  const std::optional<TerminateMessage>& failure() const { return failure_; }

  // Adds the Terminate, the last message of the connection. Requires Cut() of the writer before.
  void AddTerminate(const TerminateMessage& message);

 private:
  enum class Source : uint8_t { kNone, kRequest, kResponse };

  // Chooses the source of the next message.
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
  size_t built_ = 0;                // requests at the front of requests_ that are completely in segments
  Source current_ = Source::kNone;  // source of the current message; messages are not mixed (RFC 5041 §5.3)
  Source last_ = Source::kNone;     // source of the last message: requests and responses take turns
  uint32_t response_done_ = 0;
  std::array<uint32_t, kQueues> next_msn_{1, 1, 1};
  uint32_t next_sink_stag_ = 1;
  std::optional<TerminateMessage> failure_;
};

}  // namespace penstock::rdma::iwarp
