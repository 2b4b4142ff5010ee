#include "rdma/trace/recorder.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

namespace penstock::rdma::trace {
namespace {

using iwarp::MpaFrame;
using iwarp::Opcode;
using iwarp::ReadRequestHeader;
using iwarp::TaggedHeader;
using iwarp::UntaggedHeader;

// The most octets of payload in one FPDU. Each packet holds one FPDU.
constexpr size_t kMaxSegment = 60 << 10;
static_assert(iwarp::kLengthSize + UntaggedHeader::kSize + kMaxSegment + 3 + iwarp::kCrcSize <= TcpStream::kMaxPayload);

// The sequence numbers of connections are far apart, so that Wireshark does not take a connection for an earlier one on
// the same ports.
uint32_t InitialSequence(uint32_t connection) { return connection * 0x9e3779b1; }

template <class Header>
std::array<std::byte, Header::kSize> Serialized(const Header& header) {
  std::array<std::byte, Header::kSize> bytes;
  header.Serialize(bytes.data());
  return bytes;
}

std::string_view ToString(DisconnectReason reason) {
  switch (reason) {
    case DisconnectReason::kNone:
      break;
    case DisconnectReason::kLocal:
      return "closed from here";
    case DisconnectReason::kPeerClosed:
      return "closed by the peer";
    case DisconnectReason::kPeerReset:
      return "broken";
    case DisconnectReason::kPeerTerminated:
      return "terminated by the peer";
    case DisconnectReason::kProtocolError:
      return "terminated from here: the peer's error";
    case DisconnectReason::kFault:
      return "ended from here: a fault";
  }
  return "ended";
}

}  // namespace

Recorder::Recorder(const Sink& sink, const SetUp& set_up, std::string_view about)
    : sink_(sink),
      self_(set_up.self),
      number_(sink.file->NewConnection()),
      tcp_(set_up.client, set_up.server, InitialSequence(number_)),
      fpdus_(iwarp::Framing{}, *sink.buffers) {
  RecordTcp(From::kClient, TcpStream::kSyn, {}, fmt::format("connection {}: {}", number_, about));
  RecordTcp(From::kServer, TcpStream::kSyn | TcpStream::kAck, {});
  RecordTcp(From::kClient, TcpStream::kAck, {});
  RecordMpa({.kind = MpaFrame::Kind::kRequest, .crc = true, .enhanced = {}, .private_data = set_up.request});
  RecordMpa({.kind = MpaFrame::Kind::kReply,
             .crc = true,
             .rejected = set_up.rejected,
             .enhanced = {},
             .private_data = set_up.reply});
  if (set_up.rejected)
    RecordEnd(self_ == From::kServer ? DisconnectReason::kLocal : DisconnectReason::kPeerClosed, "rejected");
}

void Recorder::RecordSend(From from, const Gather& gather, bool solicited, std::optional<Stag> invalidate) {
  UntaggedHeader header;
  header.control.opcode = static_cast<uint8_t>(iwarp::SendOpcode(solicited, invalidate.has_value()));
  header.invalidate = invalidate.value_or(Stag());
  header.queue = iwarp::kSendQueue;
  header.msn = iwarp::Msn(++counters(from).sends);
  RecordMessage(from, gather, [&header](size_t offset, bool last) {
    header.control.last = last;
    header.offset = static_cast<uint32_t>(offset);
    return Serialized(header);
  });
}

void Recorder::RecordWrite(const WriteRequest& request) {
  RecordTagged(self_, Opcode::kWrite, request.remote.stag, request.remote.offset, request.gather);
}

Stag Recorder::RecordReadRequest(const RemoteSegment& source) {
  UntaggedHeader header;
  header.control.opcode = static_cast<uint8_t>(Opcode::kReadRequest);
  header.queue = iwarp::kReadRequestQueue;
  header.msn = iwarp::Msn(++counters(self_).read_requests);
  ReadRequestHeader request;
  request.sink_stag = Stag(++last_sink_);
  request.size = source.length;
  request.source_stag = source.stag;
  request.source_offset = source.offset;
  RecordFpdu(self_, Serialized(header), Serialized(request), nullptr, 0);
  return request.sink_stag;
}

void Recorder::RecordReadResponse(Stag sink, ConstBytes bytes) {
  RecordTagged(peer(), Opcode::kReadResponse, sink, 0, {Slice::Borrowed(bytes)});
}

void Recorder::RecordEnd(DisconnectReason reason, std::string_view detail) {
  const bool ours = reason == DisconnectReason::kLocal || reason == DisconnectReason::kProtocolError ||
                    reason == DisconnectReason::kFault;
  const From first = ours ? self_ : peer();
  const std::string_view how = ToString(reason);
  const bool more = !detail.empty() && detail != how;
  const std::string comment = fmt::format("connection {}: {}{}{}", number_, how, more ? ": " : "", more ? detail : "");
  if (reason == DisconnectReason::kLocal || reason == DisconnectReason::kPeerClosed) {
    RecordTcp(first, TcpStream::kFin | TcpStream::kAck, {}, comment);
    RecordTcp(Opposite(first), TcpStream::kFin | TcpStream::kAck, {});
    RecordTcp(first, TcpStream::kAck, {});
  } else {
    RecordTcp(first, TcpStream::kReset | TcpStream::kAck, {}, comment);
  }
}

void Recorder::RecordMpa(const MpaFrame& frame) {
  const From from = frame.kind == MpaFrame::Kind::kRequest ? From::kClient : From::kServer;
  RecordTcp(from, TcpStream::kPush | TcpStream::kAck, frame.Serialize());
}

template <class MakeHeader>
void Recorder::RecordMessage(From from, const Gather& gather, MakeHeader make_header) {
  const size_t size = SizeOf(gather);
  iwarp::GatherCursor cursor(gather);
  for (size_t offset = 0;;) {
    const size_t part = std::min(size - offset, kMaxSegment);
    const bool last = offset + part == size;
    RecordFpdu(from, make_header(offset, last), {}, &cursor, part);
    offset += part;
    if (last) return;
  }
}

void Recorder::RecordTagged(From from, Opcode opcode, Stag stag, uint64_t offset, const Gather& gather) {
  TaggedHeader header;
  header.control.opcode = static_cast<uint8_t>(opcode);
  header.stag = stag;
  RecordMessage(from, gather, [&header, offset](size_t at, bool last) {
    header.control.last = last;
    header.offset = offset + at;
    return Serialized(header);
  });
}

void Recorder::RecordFpdu(From from, ConstBytes header, ConstBytes inlined, iwarp::GatherCursor* payload,
                          size_t payload_size) {
  const uint64_t before = fpdus_.added();
  fpdus_.Add(header, inlined, payload, payload_size);
  packet_.clear();
  tcp_.AppendHeaders(from, TcpStream::kPush | TcpStream::kAck, fpdus_.added() - before, packet_);
  while (!fpdus_.batch_sent()) {
    size_t size = 0;
    // An FPDU with a CRC is in memory as a whole, never in a file.
    for (const iovec& piece : fpdus_.Next().memory) {
      const auto* data = static_cast<const std::byte*>(piece.iov_base);
      packet_.insert(packet_.end(), data, data + piece.iov_len);
      size += piece.iov_len;
    }
    fpdus_.HandleSent(size);
  }
  sink_.file->Add(sink_.clock->Now(), packet_);
}

void Recorder::RecordTcp(From from, uint8_t flags, ConstBytes payload, std::string_view comment) {
  packet_.clear();
  tcp_.AppendHeaders(from, flags, payload.size(), packet_);
  packet_.insert(packet_.end(), payload.begin(), payload.end());
  sink_.file->Add(sink_.clock->Now(), packet_, comment);
}

}  // namespace penstock::rdma::trace
