// Reads the capture files that the tests of this folder write: the pcapng blocks, the TCP connections and their MPA
// frames.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "rdma/iwarp/crc32c.h"
#include "rdma/iwarp/ddp_header.h"
#include "rdma/iwarp/mpa.h"
#include "rdma/iwarp/mpa_frame.h"
#include "rdma/trace/tcp_stream.h"

namespace penstock::rdma::trace {

struct Packet {
  uint64_t stamp = 0;
  std::vector<std::byte> bytes;
  std::string comment;
  uint64_t lost = 0;

  // The TCP header of an Ethernet frame with IPv4.
  const std::byte* tcp() const { return &bytes[14 + 20]; }
  uint16_t source() const { return LoadBig<uint16_t>(tcp()); }
  uint16_t target() const { return LoadBig<uint16_t>(tcp() + 2); }
  uint32_t sequence() const { return LoadBig<uint32_t>(tcp() + 4); }
  uint32_t acknowledged() const { return LoadBig<uint32_t>(tcp() + 8); }
  uint8_t flags() const { return std::to_integer<uint8_t>(tcp()[13]); }
  bool has(TcpStream::Flag flag) const { return flags() & flag; }
  ConstBytes payload() const {
    return ConstBytes(bytes).subspan(14 + 20 + (std::to_integer<size_t>(tcp()[12]) >> 4) * 4);
  }
};

struct Capture {
  std::string application, interface_name, interface_comment;
  std::vector<Packet> packets;
  uint64_t received = 0, dropped = 0;  // from the statistics at the end of the file
  bool whole = false;                  // the file has these statistics
};

// Parses a capture file. Throws if the file is malformed.
class CaptureReader {
 public:
  explicit CaptureReader(ConstBytes file) : rest_(file) {}

  Capture Read() {
    while (!rest_.empty()) {
      const auto size = Host<uint32_t>(rest_, 4);
      if (size < 12 || size % 4 != 0 || size > rest_.size()) throw std::runtime_error("the size of a block is wrong");
      if (Host<uint32_t>(rest_, size - 4) != size) throw std::runtime_error("the two sizes of a block differ");
      ReadBlock(Host<uint32_t>(rest_, 0), rest_.subspan(8, size - 12));
      rest_ = rest_.subspan(size);
    }
    return std::move(capture_);
  }

 private:
  template <class T>
  static T Host(ConstBytes bytes, size_t at) {
    T value;
    CopyBytes(std::as_writable_bytes(std::span(&value, 1)), bytes.subspan(at, sizeof value));
    return value;
  }
  static uint64_t Stamp(ConstBytes bytes, size_t at) {
    return uint64_t{Host<uint32_t>(bytes, at)} << 32 | Host<uint32_t>(bytes, at + 4);
  }
  static std::map<uint16_t, ConstBytes> Options(ConstBytes bytes) {
    std::map<uint16_t, ConstBytes> options;
    while (!bytes.empty()) {
      const auto code = Host<uint16_t>(bytes, 0);
      const auto size = Host<uint16_t>(bytes, 2);
      if (code == 0) break;
      options[code] = bytes.subspan(4, size);
      bytes = bytes.subspan(4 + RoundUp(size, 4));
    }
    return options;
  }

  void ReadBlock(uint32_t type, ConstBytes body) {
    switch (type) {
      case 0x0a0d0d0a:
        EXPECT_EQ(Host<uint32_t>(body, 0), 0x1a2b3c4du);
        capture_.application = AsText(Options(body.subspan(16))[4]);
        return;
      case 1: {
        EXPECT_EQ(Host<uint16_t>(body, 0), 1) << "Ethernet";
        auto options = Options(body.subspan(8));
        capture_.interface_comment = AsText(options[1]);
        capture_.interface_name = AsText(options[2]);
        EXPECT_EQ(options[9][0], std::byte{9}) << "nanoseconds";
        return;
      }
      case 5: {
        auto options = Options(body.subspan(12));
        capture_.received = Host<uint64_t>(options[4], 0);
        capture_.dropped = Host<uint64_t>(options[5], 0);
        capture_.whole = true;
        return;
      }
      case 6: {
        const auto size = Host<uint32_t>(body, 12);
        EXPECT_EQ(Host<uint32_t>(body, 16), size);
        const ConstBytes bytes = body.subspan(20, size);
        Packet packet{Stamp(body, 4), {bytes.begin(), bytes.end()}, {}, 0};
        auto options = Options(body.subspan(20 + RoundUp(size, 4)));
        packet.comment = AsText(options[1]);
        if (options.contains(4)) packet.lost = Host<uint64_t>(options[4], 0);
        capture_.packets.push_back(std::move(packet));
        return;
      }
      default:
        throw std::runtime_error("unknown type of block");
    }
  }

  ConstBytes rest_;
  Capture capture_;
};

inline Capture ReadCapture(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return CaptureReader(AsBytes(text)).Read();
}

// A DDP segment that one side has sent.
struct Segment {
  From from = From::kClient;
  iwarp::SegmentControl control;
  iwarp::TaggedHeader tagged;
  iwarp::UntaggedHeader untagged;
  std::vector<std::byte> payload;

  iwarp::Opcode opcode() const { return static_cast<iwarp::Opcode>(control.opcode); }
  std::string text() const { return std::string(AsText(payload)); }
};

// A connection in a capture. Connections() checks the TCP sequence numbers of its packets and the CRC of each FPDU.
struct TracedConnection {
  std::optional<iwarp::MpaFrame> request, reply;
  std::vector<Segment> segments;
  std::optional<Packet> end;  // the first FIN or RST

  std::vector<Segment> Of(iwarp::Opcode opcode) const {
    std::vector<Segment> found;
    for (const Segment& segment : segments) {
      if (segment.opcode() == opcode) found.push_back(segment);
    }
    return found;
  }
};

inline Segment ParseFpdu(From from, ConstBytes fpdu) {
  const size_t ulpdu = LoadBig<uint16_t>(fpdu.data());
  const size_t covered = iwarp::kLengthSize + ulpdu + iwarp::PadSize(ulpdu);
  EXPECT_EQ(fpdu.size(), covered + iwarp::kCrcSize) << "each packet holds one FPDU";
  iwarp::Crc32c crc;
  crc.Update(fpdu.first(covered));
  EXPECT_TRUE(Equal(crc.Wire(), fpdu.subspan(covered)));
  const std::byte* header = fpdu.data() + iwarp::kLengthSize;
  Segment segment;
  segment.from = from;
  segment.control = iwarp::SegmentControl::Parse(header);
  if (segment.control.tagged) {
    segment.tagged = iwarp::TaggedHeader::Parse(header);
  } else {
    segment.untagged = iwarp::UntaggedHeader::Parse(header);
  }
  const ConstBytes payload = fpdu.subspan(iwarp::kLengthSize, ulpdu).subspan(iwarp::DdpHeaderSize(*header));
  segment.payload = {payload.begin(), payload.end()};
  return segment;
}

inline std::vector<TracedConnection> Connections(const Capture& capture) {
  using iwarp::MpaFrame;
  std::vector<TracedConnection> connections;
  std::map<std::pair<uint16_t, uint16_t>, uint32_t> next;  // next sequence number by ports
  uint16_t client = 0;
  for (const Packet& packet : capture.packets) {
    const auto ports = std::pair(packet.source(), packet.target());
    const auto back = std::pair(packet.target(), packet.source());
    if (packet.has(TcpStream::kSyn)) {
      next[ports] = packet.sequence();
      if (!packet.has(TcpStream::kAck)) {
        connections.emplace_back();
        client = packet.source();
      }
    }
    EXPECT_EQ(packet.sequence(), next[ports]);
    EXPECT_EQ(packet.acknowledged(), packet.has(TcpStream::kAck) ? next[back] : 0);
    next[ports] += static_cast<uint32_t>(packet.payload().size()) +
                   (packet.has(TcpStream::kSyn) || packet.has(TcpStream::kFin) ? 1 : 0);

    TracedConnection& connection = connections.back();
    if ((packet.has(TcpStream::kFin) || packet.has(TcpStream::kReset)) && !connection.end) connection.end = packet;
    if (packet.payload().empty()) continue;
    const From from = packet.source() == client ? From::kClient : From::kServer;
    if (!connection.request) {
      connection.request = MpaFrame::Parse(packet.payload(), MpaFrame::Kind::kRequest).value();
    } else if (!connection.reply) {
      connection.reply = MpaFrame::Parse(packet.payload(), MpaFrame::Kind::kReply).value();
    } else {
      connection.segments.push_back(ParseFpdu(from, packet.payload()));
    }
  }
  return connections;
}

}  // namespace penstock::rdma::trace
