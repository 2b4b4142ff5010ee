// Writes the blocks of a capture file in the pcapng format (draft-ietf-opsawg-pcapng §3, §4). Each function appends one
// block. Blocks are in the byte order of this machine, and the section header tells which one it is. Our files have one
// section and one interface. Times are nanoseconds since 1970.
//
//   +---------------------------------------------------------------+
//   |                          block type                           |
//   +---------------------------------------------------------------+
//   |                      octets of the block                      |
//   +---------------------------------------------------------------+
//   |               body, then options, padded to words             |
//   +---------------------------------------------------------------+
//   |                  octets of the block, again                   |
//   +---------------------------------------------------------------+
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace penstock::rdma::trace {

void AppendSectionHeader(std::vector<std::byte>& out, std::string_view application);

// Describes the interface: its packets begin with an Ethernet header.
void AppendInterface(std::vector<std::byte>& out, std::string_view name, std::string_view comment);

// `lost`: the number of packets that are missing between the previous packet and this one.
void AppendPacket(std::vector<std::byte>& out, uint64_t stamp, ConstBytes packet, std::string_view comment,
                  uint64_t lost);
// Returns an upper bound of the octets that AppendPacket() appends.
size_t PacketBlockBound(ConstBytes packet, std::string_view comment);

void AppendStatistics(std::vector<std::byte>& out, uint64_t stamp, uint64_t received, uint64_t lost);

}  // namespace penstock::rdma::trace
