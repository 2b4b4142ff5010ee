// Inbound is the receiving half of DDP and RDMAP. It checks each segment (RFC 5041 §7.1, RFC 5040 §7.2), determines the
// memory for its payload, and handles each complete message.
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
    bool absorb_rtr_send = false;  // see MpaAgreement
  };
  // Completions of receives and Reads go to `completions`. The memory of messages comes from `pool`. The references
  // must outlive this object.
  Inbound(Options options, BufferPool& pool, StagTable& stags, RdmaReads& reads, CompletionQueue& completions)
      : options_(options), pool_(pool), stags_(stags), reads_(reads), completions_(completions) {}

  void PostReceive(ReceiveRequest request) { receives_.push_back(request); }

  // Counts the octets of Read Responses, plus one for each completed Read.
  uint64_t octets_read() const { return octets_read_; }
  // True if a message of several segments has begun and not ended.
  bool in_message() const {
    return std::ranges::any_of(queues_, [](const Queue& queue) { return queue.in_message; });
  }
  // The posted receives that no complete Send has used.
  Fifo<ReceiveRequest>& receives() { return receives_; }

  // The Terminate for the peer, if an error of the peer ends the connection.
  const std::optional<TerminateMessage>& failure() const { return failure_; }
  // The Terminate of the peer, if it has sent one.
  const std::optional<TerminateMessage>& peer_terminate() const { return peer_terminate_; }

  bool HandleHeader(ConstBytes header, size_t length, Bytes& destination) override;
  bool MayPlace() override;
  bool HandleEnd() override;
  void HandleRefused() override { failure_ = refusal_; }
  void HandleFramingError(TerminateCode code) override { failure_ = MakeTerminate(code); }

 private:
  // The state of an untagged queue.
  struct Queue {
    Msn expected{1};
    bool in_message = false;
    Opcode opcode = Opcode::kSend;
    uint32_t offset = 0;
  };
  // The current segment.
  struct Segment {
    Opcode opcode = Opcode::kSend;
    bool last = false;
    bool absorbed = false;
    uint32_t queue = 0;
    Stag stag;  // tagged segment: the target; Send with Invalidate: the STag to invalidate
    uint32_t size = 0;
    std::array<std::byte, UntaggedHeader::kSize> header;
    uint8_t header_size = 0;
    uint16_t length = 0;
  };

  bool HandleTagged(const TaggedHeader& header, Bytes& destination);
  bool HandleWrite(const TaggedHeader& header, Bytes& destination);
  bool HandleReadResponse(const TaggedHeader& header, Bytes& destination);
  bool HandleUntagged(const UntaggedHeader& header, Bytes& destination);
  std::optional<TerminateCode> FindRoom(uint32_t queue, size_t& room);
  Bytes BufferOf(uint32_t queue);
  bool DeliverSend(uint32_t size);
  bool DeliverReadRequest(uint32_t size);
  bool DeliverTerminate(uint32_t size);
  void CompleteRead();

  // Refuses the current segment when its header has arrived. Returns false.
  bool Refuse(TerminateCode code);
  // Ends the connection because of an error that is found when the message is complete. Returns false.
  bool Fail(TerminateCode code, std::optional<ReadRequestHeader> request = {});
  ConstBytes segment_header() const { return ConstBytes(segment_.header).first(segment_.header_size); }

  const Options options_;
  BufferPool& pool_;
  StagTable& stags_;
  RdmaReads& reads_;
  CompletionQueue& completions_;

  Fifo<ReceiveRequest> receives_;
  BufferRef message_;  // the Send that has begun, for the oldest receive
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
