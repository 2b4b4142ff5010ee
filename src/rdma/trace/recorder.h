// One connection, written to a capture file as the iWARP connection that it is or could be: TCP and MPA set-up, then an
// FPDU a packet, which is what Wireshark reads best.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/timer.h"
#include "rdma/iwarp/ddp_header.h"
#include "rdma/iwarp/fpdu_writer.h"
#include "rdma/iwarp/mpa_frame.h"
#include "rdma/trace/file.h"
#include "rdma/trace/tcp_stream.h"

namespace penstock::rdma::trace {

// Where to record to. All outlive what uses it.
struct Sink {
  File* file = nullptr;
  const TimerService* clock = nullptr;
  BufferPool* buffers = nullptr;
};

// How a connection was set up, or refused.
struct SetUp {
  From self = From::kClient;
  Address client, server;
  std::vector<std::byte> request;  // private data
  std::vector<std::byte> reply;
  bool rejected = false;
};

// Belongs to the loop of its connection.
class Recorder {
 public:
  // Records the set-up; `about` goes with it as a comment. Where it was refused, the end as well.
  Recorder(const Sink& sink, const SetUp& set_up, std::string_view about);

  // Ours or the peer's. All that a message needs is taken from `gather` before this returns; what is still in a file is
  // read.
  void RecordSend(From from, const Gather& gather, bool solicited, std::optional<Stag> invalidate);
  void RecordWrite(const WriteRequest& request);
  // What we ask for, and what came. The request tells where the bytes are to go by a stag; since no provider shows one,
  // it is made up: RecordReadRequest's result.
  Stag RecordReadRequest(const RemoteSegment& source);
  void RecordReadResponse(Stag sink, ConstBytes bytes);
  void RecordEnd(DisconnectReason reason, std::string_view detail);

  From self() const { return self_; }
  From peer() const { return Opposite(self_); }

 private:
  // Of the messages that a side has sent on a queue (RFC 5041 §4.4).
  struct Counters {
    uint32_t sends = 0;
    uint32_t read_requests = 0;
  };
  Counters& counters(From from) { return counters_[static_cast<size_t>(from)]; }

  void RecordMpa(const iwarp::MpaFrame& frame);
  // A DDP message, of as many segments as it takes; `make_header` gives the header of the one at an offset.
  template <class MakeHeader>
  void RecordMessage(From from, const Gather& gather, MakeHeader make_header);
  void RecordTagged(From from, iwarp::Opcode opcode, Stag stag, uint64_t offset, const Gather& gather);
  void RecordFpdu(From from, ConstBytes header, ConstBytes inlined, iwarp::GatherCursor* payload, size_t payload_size);
  void RecordTcp(From from, uint8_t flags, ConstBytes payload, std::string_view comment = {});

  const Sink sink_;
  const From self_;
  const uint32_t number_;
  TcpStream tcp_;
  iwarp::FpduWriter fpdus_;
  std::array<Counters, 2> counters_;
  uint32_t last_sink_ = 0;  // stag
  std::vector<std::byte> packet_;
};

}  // namespace penstock::rdma::trace
