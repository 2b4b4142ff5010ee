// Blocks of a capture file in the pcapng format (draft-ietf-opsawg-pcapng §3, §4), in the byte order of this machine,
// which the file says. A file has one section and one interface; times are nanoseconds since 1970. Each function
// appends one block.
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

// Of packets that begin with an Ethernet header.
void AppendInterface(std::vector<std::byte>& out, std::string_view name, std::string_view comment);

// `lost`: packets that should stand between the one before and this, and do not.
void AppendPacket(std::vector<std::byte>& out, uint64_t stamp, ConstBytes packet, std::string_view comment,
                  uint64_t lost);
// No smaller than what AppendPacket appends.
size_t PacketBlockBound(ConstBytes packet, std::string_view comment);

void AppendStatistics(std::vector<std::byte>& out, uint64_t stamp, uint64_t received, uint64_t lost);

}  // namespace penstock::rdma::trace
