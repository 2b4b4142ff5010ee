#include "rdma/iwarp/mpa_frame.h"

#include <fmt/core.h>

#include <cassert>

namespace penstock::rdma::iwarp {
namespace {

constexpr std::string_view kRequestKey = "MPA ID Req Frame";
constexpr std::string_view kReplyKey = "MPA ID Rep Frame";

constexpr uint8_t kFlagMarkers = 0x80;
constexpr uint8_t kFlagCrc = 0x40;
constexpr uint8_t kFlagRejected = 0x20;
constexpr uint8_t kFlagEnhanced = 0x10;

constexpr uint16_t kHigh = 0x8000;  // A in the first half, C in the second half
constexpr uint16_t kLow = 0x4000;   // B in the first half, D in the second half
constexpr uint16_t kDepth = 0x3fff;

std::string_view KeyOf(MpaFrame::Kind kind) { return kind == MpaFrame::Kind::kRequest ? kRequestKey : kReplyKey; }

EnhancedData ParseEnhanced(const std::byte* at) {
  const auto first = LoadBig<uint16_t>(at);
  const auto second = LoadBig<uint16_t>(at + 2);
  EnhancedData data;
  data.ird = first & kDepth;
  data.ord = second & kDepth;
  data.peer_to_peer = first & kHigh;
  // RFC 6581 §9.2: flags B, C and D are ignored without flag A.
  if (data.peer_to_peer) data.rtr = {(first & kLow) != 0, (second & kHigh) != 0, (second & kLow) != 0};
  return data;
}

void SerializeEnhanced(const EnhancedData& data, std::byte* at) {
  assert(data.ird <= kDepth && data.ord <= kDepth);
  assert(data.peer_to_peer || data.rtr.empty());
  StoreBig<uint16_t>(at, data.ird | (data.peer_to_peer ? kHigh : 0) | (data.rtr.send ? kLow : 0));
  StoreBig<uint16_t>(at + 2, data.ord | (data.rtr.write ? kHigh : 0) | (data.rtr.read ? kLow : 0));
}

}  // namespace

std::string_view ToString(MpaFrameError error) {
  switch (error) {
    case MpaFrameError::kWrongKey:
      return "not an MPA frame of the expected kind";
    case MpaFrameError::kUnknownRevision:
      return "unknown MPA revision";
    case MpaFrameError::kPrivateDataTooLong:
      return "more than 512 octets of private data";
    case MpaFrameError::kEnhancedDataMissing:
      return "enhanced connection data announced but missing";
  }
  return "?";
}

Result<size_t, MpaFrameError> MpaFrame::PrivateDataSize(ConstBytes header, Kind kind) {
  assert(header.size() >= kHeaderSize);
  if (AsText(header.first(16)) != KeyOf(kind)) return std::unexpected(MpaFrameError::kWrongKey);
  const auto revision = std::to_integer<uint8_t>(header[17]);
  if (revision < 1 || revision > kMaxRevision) return std::unexpected(MpaFrameError::kUnknownRevision);
  const size_t size = LoadBig<uint16_t>(&header[18]);
  if (size > kMaxPrivateData) return std::unexpected(MpaFrameError::kPrivateDataTooLong);
  return size;
}

Result<MpaFrame, MpaFrameError> MpaFrame::Parse(ConstBytes bytes, Kind kind) {
  PENSTOCK_TRY(const size_t size, PrivateDataSize(bytes, kind));
  assert(bytes.size() == kHeaderSize + size);
  const auto flags = std::to_integer<uint8_t>(bytes[16]);
  MpaFrame frame;
  frame.kind = kind;
  frame.revision = std::to_integer<uint8_t>(bytes[17]);
  frame.markers = flags & kFlagMarkers;
  frame.crc = flags & kFlagCrc;
  frame.rejected = kind == Kind::kReply && (flags & kFlagRejected);  // ignored in a request (RFC 5044 §7.1.1)
  ConstBytes private_data = bytes.subspan(kHeaderSize);
  // In revision 1 the S bit is reserved and must be ignored.
  if (frame.revision >= 2 && (flags & kFlagEnhanced)) {
    if (private_data.size() < EnhancedData::kSize) return std::unexpected(MpaFrameError::kEnhancedDataMissing);
    frame.enhanced = ParseEnhanced(private_data.data());
    private_data = private_data.subspan(EnhancedData::kSize);
  }
  frame.private_data.assign(private_data.begin(), private_data.end());
  return frame;
}

std::vector<std::byte> MpaFrame::Serialize() const {
  assert(!enhanced || revision >= 2);
  const size_t enhanced_size = enhanced ? EnhancedData::kSize : 0;
  const size_t size = enhanced_size + private_data.size();
  assert(size <= kMaxPrivateData);
  std::vector<std::byte> bytes(kHeaderSize + size);
  CopyBytes(bytes, AsBytes(KeyOf(kind)));
  bytes[16] = std::byte((markers ? kFlagMarkers : 0) | (crc ? kFlagCrc : 0) | (rejected ? kFlagRejected : 0) |
                        (enhanced ? kFlagEnhanced : 0));
  bytes[17] = std::byte{revision};
  StoreBig(&bytes[18], static_cast<uint16_t>(size));
  if (enhanced) SerializeEnhanced(*enhanced, &bytes[kHeaderSize]);
  CopyBytes(Bytes(bytes).subspan(kHeaderSize + enhanced_size), private_data);
  return bytes;
}

std::string MpaFrame::ToString() const {
  std::string text = fmt::format("MPA {} rev {}{}{}{}", kind == Kind::kRequest ? "request" : "reply", revision,
                                 markers ? " markers" : "", crc ? " crc" : "", rejected ? " rejected" : "");
  if (enhanced) {
    text += fmt::format(" ird {} ord {}", enhanced->ird, enhanced->ord);
    if (enhanced->peer_to_peer) {
      text += fmt::format(" peer-to-peer{}{}{}", enhanced->rtr.send ? " rtr-send" : "",
                          enhanced->rtr.write ? " rtr-write" : "", enhanced->rtr.read ? " rtr-read" : "");
    }
  }
  return text + fmt::format(", {} octets of private data", private_data.size());
}

}  // namespace penstock::rdma::iwarp
