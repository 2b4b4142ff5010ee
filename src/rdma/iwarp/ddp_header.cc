#include "rdma/iwarp/ddp_header.h"

namespace penstock::rdma::iwarp {

std::string_view ToString(Opcode opcode) {
  switch (opcode) {
    case Opcode::kWrite:
      return "RDMA Write";
    case Opcode::kReadRequest:
      return "RDMA Read Request";
    case Opcode::kReadResponse:
      return "RDMA Read Response";
    case Opcode::kSend:
      return "Send";
    case Opcode::kSendInvalidate:
      return "Send with Invalidate";
    case Opcode::kSendSolicited:
      return "Send with Solicited Event";
    case Opcode::kSendSolicitedInvalidate:
      return "Send with Solicited Event and Invalidate";
    case Opcode::kTerminate:
      return "Terminate";
  }
  return "reserved";
}

SegmentControl SegmentControl::Parse(const std::byte* at) {
  const auto ddp = std::to_integer<uint8_t>(at[0]);
  const auto rdmap = std::to_integer<uint8_t>(at[1]);
  SegmentControl control;
  control.tagged = ddp & 0x80;
  control.last = ddp & 0x40;
  control.ddp_version = ddp & 0x03;
  control.rdmap_version = rdmap >> 6;
  control.opcode = rdmap & 0x0f;
  return control;
}

void SegmentControl::Serialize(std::byte* at) const {
  at[0] = std::byte((tagged ? 0x80 : 0) | (last ? 0x40 : 0) | ddp_version);
  at[1] = std::byte(rdmap_version << 6 | opcode);
}

TaggedHeader TaggedHeader::Parse(const std::byte* at) {
  return {SegmentControl::Parse(at), Stag(LoadBig<uint32_t>(at + 2)), LoadBig<uint64_t>(at + 6)};
}

void TaggedHeader::Serialize(std::byte* at) const {
  control.Serialize(at);
  StoreBig(at + 2, stag.value());
  StoreBig(at + 6, offset);
}

UntaggedHeader UntaggedHeader::Parse(const std::byte* at) {
  return {SegmentControl::Parse(at), Stag(LoadBig<uint32_t>(at + 2)), LoadBig<uint32_t>(at + 6),
          Msn(LoadBig<uint32_t>(at + 10)), LoadBig<uint32_t>(at + 14)};
}

void UntaggedHeader::Serialize(std::byte* at) const {
  control.Serialize(at);
  StoreBig(at + 2, invalidate.value());
  StoreBig(at + 6, queue);
  StoreBig(at + 10, msn.value());
  StoreBig(at + 14, offset);
}

ReadRequestHeader ReadRequestHeader::Parse(const std::byte* at) {
  return {Stag(LoadBig<uint32_t>(at)), LoadBig<uint64_t>(at + 4), LoadBig<uint32_t>(at + 12),
          Stag(LoadBig<uint32_t>(at + 16)), LoadBig<uint64_t>(at + 20)};
}

void ReadRequestHeader::Serialize(std::byte* at) const {
  StoreBig(at, sink_stag.value());
  StoreBig(at + 4, sink_offset);
  StoreBig(at + 12, size);
  StoreBig(at + 16, source_stag.value());
  StoreBig(at + 20, source_offset);
}

}  // namespace penstock::rdma::iwarp
