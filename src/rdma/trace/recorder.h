// Writes one connection of any provider to a capture file as an iWARP connection: the set-up of TCP and MPA, then one
// FPDU in each packet. Wireshark reads this form best.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
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

// The objects that a recorder needs. The clock and the buffers must outlive all recorders.
struct Sink {
  std::shared_ptr<File> file{};
  const TimerService* clock = nullptr;
  BufferPool* buffers = nullptr;
};

// The set-up of a connection, or its rejection.
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
  // Records the set-up with the comment `about`. If the connection was rejected, also records its end.
  Recorder(const Sink& sink, const SetUp& set_up, std::string_view about);

  // Records a Send of either side. Copies the octets of `gather` before it returns, and reads those that are still in a
  // file.
  void RecordSend(From from, const Gather& gather, bool solicited, std::optional<Stag> invalidate);
  // Records a Write of this side.
  void RecordWrite(const WriteRequest& request);
  // Records a Read Request of this side. The request needs the steering tag of its sink, which no provider shows, so
  // this makes one up and returns it.
  Stag RecordReadRequest(const RemoteSegment& source);
  // Records the peer's answer to the Read whose request got this tag.
  void RecordReadResponse(Stag sink, ConstBytes bytes);
  void RecordEnd(DisconnectReason reason, std::string_view detail);

  From self() const { return self_; }
  From peer() const { return Opposite(self_); }

 private:
  // The messages that one side has sent on each queue (RFC 5041 §4.4).
  struct Counters {
    uint32_t sends = 0;
    uint32_t read_requests = 0;
  };
  Counters& counters(From from) { return counters_[static_cast<size_t>(from)]; }

  void RecordMpa(const iwarp::MpaFrame& frame);
  // Records a DDP message, as many segments as it needs. make_header(offset, last) returns the header of the segment at
  // an offset.
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
  uint32_t last_sink_ = 0;  // the last steering tag that was made up
  std::vector<std::byte> packet_;
};

}  // namespace penstock::rdma::trace
