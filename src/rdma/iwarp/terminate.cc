#include "rdma/iwarp/terminate.h"

#include <fmt/core.h>

#include <cassert>

namespace penstock::rdma::iwarp {
namespace {

constexpr uint8_t kHasLength = 0x80;
constexpr uint8_t kHasDdpHeader = 0x40;
constexpr uint8_t kHasRdmapHeader = 0x20;

struct Name {
  TerminateCode code;
  std::string_view text;
};

constexpr Name kNames[] = {
    {terminate::kLocalCatastrophic, "local catastrophic error"},
    {terminate::kSourceInvalidStag, "remote protection: invalid STag"},
    {terminate::kSourceBounds, "remote protection: base or bounds violation"},
    {terminate::kSourceAccess, "remote protection: access rights violation"},
    {terminate::kSourceNotAssociated, "remote protection: STag not associated with this stream"},
    {terminate::kSourceWrap, "remote protection: tagged offset wraps"},
    {terminate::kCannotInvalidate, "remote protection: STag cannot be invalidated"},
    {terminate::kRdmapVersion, "remote operation: invalid RDMAP version"},
    {terminate::kUnexpectedOpcode, "remote operation: unexpected opcode"},
    {terminate::kStreamCatastrophic, "remote operation: catastrophic error of this stream"},
    {terminate::kUnspecified, "remote operation: unspecified error"},
    {terminate::kInvalidStag, "tagged buffer: invalid STag"},
    {terminate::kBounds, "tagged buffer: base or bounds violation"},
    {terminate::kNotAssociated, "tagged buffer: STag not associated with this stream"},
    {terminate::kWrap, "tagged buffer: tagged offset wraps"},
    {terminate::kTaggedVersion, "tagged buffer: invalid DDP version"},
    {terminate::kInvalidQueue, "untagged buffer: invalid queue"},
    {terminate::kNoBuffer, "untagged buffer: no buffer for this message"},
    {terminate::kMsnRange, "untagged buffer: message number out of range"},
    {terminate::kInvalidOffset, "untagged buffer: invalid message offset"},
    {terminate::kTooLong, "untagged buffer: message too long"},
    {terminate::kUntaggedVersion, "untagged buffer: invalid DDP version"},
    {terminate::kConnectionLost, "connection lost"},
    {terminate::kCrc, "wrong check value"},
    {terminate::kMarker, "marker does not point to a frame"},
    {terminate::kMpaLocalCatastrophic, "local catastrophic error"},
    {terminate::kInsufficientIrd, "insufficient IRD"},
    {terminate::kNoMatchingRtr, "no readiness indication in common"},
};

constexpr std::string_view kLayers[] = {"RDMAP", "DDP", "MPA"};

}  // namespace

std::string TerminateCode::ToString() const {
  const std::string_view layer_name = layer < std::size(kLayers) ? kLayers[layer] : "unknown layer";
  for (const Name& name : kNames) {
    if (name.code == *this) return fmt::format("{} {}", layer_name, name.text);
  }
  return fmt::format("{} error type {:#x} code {:#04x}", layer_name, type, code);
}

std::optional<TerminateMessage> TerminateMessage::Parse(ConstBytes bytes) {
  if (bytes.size() < 4) return std::nullopt;
  TerminateMessage message;
  const auto first = std::to_integer<uint8_t>(bytes[0]);
  const auto flags = std::to_integer<uint8_t>(bytes[2]);
  message.code = {static_cast<uint8_t>(first >> 4), static_cast<uint8_t>(first & 0x0f),
                  std::to_integer<uint8_t>(bytes[1])};
  bytes = bytes.subspan(4);
  if (flags & (kHasLength | kHasDdpHeader)) {
    if (bytes.size() < 2) return std::nullopt;
    message.segment_length = LoadBig<uint16_t>(bytes.data());
    bytes = bytes.subspan(2);
  }
  if (flags & kHasDdpHeader) {
    if (bytes.empty()) return std::nullopt;
    const size_t size = DdpHeaderSize(bytes[0]);
    if (bytes.size() < size) return std::nullopt;
    CopyBytes(message.ddp_header, bytes.first(size));
    message.ddp_header_size = static_cast<uint8_t>(size);
    bytes = bytes.subspan(size);
  }
  if (flags & kHasRdmapHeader) {
    if (bytes.size() < ReadRequestHeader::kSize) return std::nullopt;
    message.read_request = ReadRequestHeader::Parse(bytes.data());
  }
  return message;
}

size_t TerminateMessage::Serialize(std::byte* at) const {
  assert(ddp_header_size == 0 || segment_length);
  const std::byte* begin = at;
  at[0] = std::byte(code.layer << 4 | code.type);
  at[1] = std::byte{code.code};
  at[2] = std::byte((segment_length ? kHasLength : 0) | (ddp_header_size ? kHasDdpHeader : 0) |
                    (read_request ? kHasRdmapHeader : 0));
  at[3] = std::byte{0};
  at += 4;
  if (segment_length) {
    StoreBig(at, *segment_length);
    at += 2;
  }
  std::memcpy(at, ddp_header.data(), ddp_header_size);
  at += ddp_header_size;
  if (read_request) {
    read_request->Serialize(at);
    at += ReadRequestHeader::kSize;
  }
  return static_cast<size_t>(at - begin);
}

std::string TerminateMessage::ToString() const {
  std::string text = code.ToString();
  if (read_request) {
    text += fmt::format(", reading {} octets of {:#010x}+{:#x}", read_request->size, read_request->source_stag.value(),
                        read_request->source_offset);
  }
  if (ddp_header_size == 0) return text;
  const SegmentControl control = SegmentControl::Parse(ddp_header.data());
  text += fmt::format(" ({}", iwarp::ToString(Opcode{control.opcode}));
  if (control.tagged) {
    const TaggedHeader header = TaggedHeader::Parse(ddp_header.data());
    text += fmt::format(" to {:#010x}+{:#x}", header.stag.value(), header.offset);
  } else {
    const UntaggedHeader header = UntaggedHeader::Parse(ddp_header.data());
    text += fmt::format(" queue {} message {} offset {}", header.queue, header.msn.value(), header.offset);
  }
  return text + fmt::format(", {} octets)", segment_length.value_or(0));
}

TerminateMessage MakeTerminate(TerminateCode code, ConstBytes ddp_header, size_t segment_length,
                               std::optional<ReadRequestHeader> read_request) {
  constexpr uint8_t kRdmap = 0, kMpa = 2;
  TerminateMessage message;
  message.code = code;
  const bool catastrophic = code.layer == kRdmap && code.type == 0;
  if (!ddp_header.empty() && code.layer != kMpa && !catastrophic) {
    message.segment_length = static_cast<uint16_t>(segment_length);
    CopyBytes(message.ddp_header, ddp_header);
    message.ddp_header_size = static_cast<uint8_t>(ddp_header.size());
  }
  if (code.layer == kRdmap && code.type == 1) message.read_request = read_request;
  return message;
}

}  // namespace penstock::rdma::iwarp
