// The other servers that COPY reads from (RFC 7862 §4.5, §4.6.2). The operations use this interface, so that tests of
// the operations need no network.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/task.h"
#include "fs/file_system.h"
#include "protocol/nfs4_types.h"
#include "rpc/transport.h"

namespace penstock::nfs::v4 {

// A regular file of another server. Belongs to the loop that has opened it.
class CopySource {
 public:
  // The connection ends in the background. No call may be under way.
  virtual ~CopySource() = default;

  uint64_t size() const { return size_; }  // when it was opened

  struct Read {
    size_t count = 0;  // octets in `into`; zero only at the end of the file
    bool eof = false;
  };
  // Reads from `offset` on. Returns nothing if the server does not answer in time, refuses, or contradicts itself.
  virtual Task<std::optional<Read>> ReadAt(uint64_t offset, Bytes into) = 0;

 protected:
  explicit CopySource(uint64_t size) : size_(size) {}

 private:
  const uint64_t size_;
};

// Any thread.
class CopySources {
 public:
  virtual ~CopySources() = default;

  struct Request {
    const std::vector<nfs4::netloc4>& servers;  // in the order of preference
    const nfs4::nfs_fh4& file;
    const nfs4::stateid4& stateid;  // from COPY_NOTIFY
    const fs::Credentials& user;    // who asks for the copy, as the export of the target sees him
  };
  // Opens a file of another server, on the loop of `peer`, which has sent the COPY. Returns null if no server of the
  // list can be reached, or if the first that can be reached refuses.
  virtual Task<std::unique_ptr<CopySource>> Open(const rpc::Peer& peer, Request request) = 0;

  // The address at which other servers reach this one, for the client of `peer`: COPY_NOTIFY tells it.
  virtual SocketAddress AddressFor(const rpc::Peer& peer) const = 0;
};

}  // namespace penstock::nfs::v4
