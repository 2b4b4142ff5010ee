// The streamids of a session of 2004 on the client's side (draft-talpey-nfsv4-rdma-sess-01 §3.2). A request has a
// streamid below `totalrequests` that no other request of the session has, over whichever channel it goes. It does no
// I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace penstock::client::v4::sess01 {

class StreamTable {
 public:
  // `limit` is the number that SESSION_CREATE has granted; the table has at least one streamid.
  explicit StreamTable(uint32_t limit);

  // Takes the lowest free streamid. If only doubtful ones are left, takes the lowest of these: the server refuses a
  // request whose streamid still belongs to another one, and does not execute it (NFS4ERR_SESS01_STREAM_INUSE). Returns
  // nothing if every streamid has a request.
  std::optional<uint32_t> Take();
  // The request has its reply.
  void HandleAnswered(uint32_t stream);
  // The client has given the request up without a reply, or another request has the streamid at the server.
  void HandleDoubtful(uint32_t stream);

  // CB_CREDITRECALL (§2.4): from now on the client takes only streamids below `target`, which is at least 1. A target
  // above the limit changes nothing.
  void Lower(uint32_t target);
  // Whether no request has a streamid of `target` or above.
  bool IsQuietFrom(uint32_t target) const;

  uint32_t limit() const { return limit_; }
  uint32_t in_use() const { return in_use_; }
  bool idle() const { return in_use_ == 0; }

 private:
  enum class State : uint8_t { kFree, kDoubtful, kInUse };
  std::optional<uint32_t> Find(State state) const;
  void Give(uint32_t stream, State state);

  std::vector<State> streams_;
  uint32_t limit_;
  uint32_t in_use_ = 0;
};

}  // namespace penstock::client::v4::sess01
