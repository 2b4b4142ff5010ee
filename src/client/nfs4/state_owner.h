// An open-owner or lock-owner: the name under which the server keeps opens or locks (RFC 8881 §9.1, RFC 7530 §9.1.4).
// In minor version 0 it also counts the requests that change this state, so that the server recognizes repetitions (RFC
// 7530 §9.1.7). From minor version 1 on sessions do that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "protocol/nfs4_types.h"

namespace penstock::client::v4 {

class StateOwner {
 public:
  // Each owner of a client has its own `number`. `name` helps people who read captures.
  explicit StateOwner(uint64_t number, std::string_view name = {});

  ConstBytes octets() const { return AsBytes(octets_); }
  // The seqid of the next request.
  nfs4::seqid4 sequence() const { return sequence_; }

  // Handles the status of the request with sequence(). nullopt: an earlier operation failed, so the server did not
  // execute the request.
  void HandleStatus(std::optional<nfs4::nfsstat4> status);
  // The request had no reply, so it is unknown whether it was executed.
  void HandleNoReply() { spent_ = true; }
  // The counts of client and server may differ. The client must use another owner.
  bool spent() const { return spent_; }

 private:
  std::string octets_;
  nfs4::seqid4 sequence_ = 1;
  bool spent_ = false;
};

}  // namespace penstock::client::v4
