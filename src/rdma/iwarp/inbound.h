// The receiving half of DDP and RDMAP: what a segment may do, where its payload belongs, and what follows from it.
// (RFC 5041 §7.1, RFC 5040 §7.2)
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "base/buffer.h"
#include "rdma/completion_queue.h"
#include "rdma/fifo.h"
#include "rdma/iwarp/ddp_header.h"
#include "rdma/iwarp/fpdu_reader.h"
#include "rdma/iwarp/rdma_reads.h"
#include "rdma/iwarp/stag_table.h"
#include "rdma/iwarp/terminate.h"
#include "rdma/provider.h"

namespace penstock::rdma::iwarp {

class Inbound : public UlpduSink {
 public:
  struct Options {
    uint16_t ird = 0;
    bool absorb_rtr_send = false;
  };
  // Completions of receives and Reads go to `completions`.
  Inbound(Options options, StagTable& stags, RdmaReads& reads, CompletionQueue& completions)
      : options_(options), stags_(stags), reads_(reads), completions_(completions) {}

  void PostReceive(PostedReceive receive) { receives_.push_back(std::move(receive)); }

  // Octets that have come in answer to Reads of ours, and one for each that is answered.
  uint64_t octets_read() const { return octets_read_; }
  // A message of several segments has begun and not ended.
  bool in_message() const {
    return std::ranges::any_of(queues_, [](const Queue& queue) { return queue.in_message; });
  }
  Fifo<PostedReceive>& receives() { return receives_; }

  // Why we take no more from this peer.
  const std::optional<TerminateMessage>& failure() const { return failure_; }
  // What the peer said as its last word.
  const std::optional<TerminateMessage>& peer_terminate() const { return peer_terminate_; }

  bool HandleHeader(ConstBytes header, size_t length, Bytes& destination) override;
  bool MayPlace() override;
  bool HandleEnd() override;
  void HandleRefused() override { failure_ = refusal_; }
  void HandleFramingError(TerminateCode code) override { failure_ = MakeTerminate(code); }

 private:
  struct Queue {
    Msn expected{1};
    bool in_message = false;
    Opcode opcode = Opcode::kSend;
    uint32_t offset = 0;
  };
  // The segment under way.
  struct Segment {
    Opcode opcode = Opcode::kSend;
    bool last = false;
    bool absorbed = false;
    uint32_t queue = 0;
    Stag stag;  // tagged: the target; Send with Invalidate: what to invalidate
    uint32_t size = 0;
    std::array<std::byte, UntaggedHeader::kSize> header;
    uint8_t header_size = 0;
    uint16_t length = 0;
  };

  bool HandleTagged(const TaggedHeader& header, Bytes& destination);
  bool HandleWrite(const TaggedHeader& header, Bytes& destination);
  bool HandleReadResponse(const TaggedHeader& header, Bytes& destination);
  bool HandleUntagged(const UntaggedHeader& header, Bytes& destination);
  std::optional<TerminateCode> FindBuffer(uint32_t queue, Bytes& buffer);
  bool DeliverSend(uint32_t size);
  bool DeliverReadRequest(uint32_t size);
  bool DeliverTerminate(uint32_t size);
  void CompleteRead();

  bool Refuse(TerminateCode code);
  // For what is found wrong when the message is complete. Always false.
  bool Fail(TerminateCode code, std::optional<ReadRequestHeader> request = {});
  ConstBytes segment_header() const { return ConstBytes(segment_.header).first(segment_.header_size); }

  const Options options_;
  StagTable& stags_;
  RdmaReads& reads_;
  CompletionQueue& completions_;

  Fifo<PostedReceive> receives_;
  uint64_t octets_read_ = 0;
  std::array<Queue, kQueues> queues_;
  Segment segment_;
  bool first_segment_ = true;
  std::array<std::byte, ReadRequestHeader::kSize> read_request_buffer_;
  std::array<std::byte, TerminateMessage::kMaxSize> terminate_buffer_;

  std::optional<TerminateMessage> refusal_;
  std::optional<TerminateMessage> failure_;
  std::optional<TerminateMessage> peer_terminate_;
};

}  // namespace penstock::rdma::iwarp
