// An open-owner or lock-owner: it names whose state it is (RFC 8881 §9.1, RFC 7530 §9.1.4). In minor version 0 it also
// counts what is done with that state, one at a time, so that the server knows repetitions (RFC 7530 §9.1.7); from minor
// version 1 on, sessions do.
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
  // No two with the same number; `name` is for those who look at captures.
  explicit StateOwner(uint64_t number, std::string_view name = {});

  ConstBytes octets() const { return AsBytes(octets_); }
  // Of the next request.
  nfs4::seqid4 sequence() const { return sequence_; }

  // What the request with sequence() came to; nothing: the server failed before it came to it.
  void HandleStatus(std::optional<nfs4::nfsstat4> status);
  // Nobody knows whether the request was executed.
  void HandleNoReply() { spent_ = true; }
  // The server's count is not ours: only another owner can go on.
  bool spent() const { return spent_; }

 private:
  std::string octets_;
  nfs4::seqid4 sequence_ = 1;
  bool spent_ = false;
};

}  // namespace penstock::client::v4
