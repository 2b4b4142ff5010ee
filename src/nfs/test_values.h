// For tests: peers by their addresses, and handles by their octets.
#pragma once

#include "base/address.h"
#include "nfs/file_handle.h"
#include "rpc/transport.h"

namespace penstock::nfs {

inline rpc::Peer PeerAt(const char* address, uint16_t port) {
  rpc::Peer peer;
  peer.address = {asio::ip::make_address(address), port};
  return peer;
}
inline const rpc::Peer kPeer = PeerAt("192.0.2.1", 700);

inline FileHandle HandleOf(uint32_t export_id, std::string_view object) {
  return {ExportId(export_id), *fs::Handle::FromBytes(AsBytes(object))};
}

}  // namespace penstock::nfs
