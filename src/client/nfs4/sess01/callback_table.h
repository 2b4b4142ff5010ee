// The callbacks that a client with a session of 2004 has answered (draft-talpey-nfsv4-rdma-sess-01 §2.5, §2.6, §3.2).
// The server repeats a callback without an answer over its next back channel, with the channelid, streamid and XID of
// the first attempt. The table makes the client execute it once. It does no I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "protocol/nfs4_types.h"
#include "rpc/xid.h"
#include "xdr/message.h"

namespace penstock::client::v4::sess01 {

class CallbackTable {
 public:
  // The back channels that the client remembers. A retry in the name of an older one is refused.
  static constexpr size_t kRemembered = 8;

  // Forgets everything: the session is a new one.
  void Clear() { channels_.clear(); }
  // The client has bound a back channel on which the server may have `requests` callbacks out at once.
  void HandleBound(uint32_t channel, uint32_t requests);

  enum class Outcome : uint8_t {
    kRun,      // execute the callback, then call Finish()
    kReplay,   // `results` are the answer
    kWait,     // its first execution goes on: wait for its end, then ask again
    kRefused,  // `status` is the result of OPERATION_CONTROL
  };
  struct Start {
    Outcome outcome = Outcome::kRun;
    nfs4::nfsstat4 status = nfs4::nfsstat4::NFS4_OK;
    const xdr::Message* results = nullptr;
  };
  // A callback that arrives over the back channel `own` and names the back channel `named`.
  Start HandleCall(uint32_t own, uint32_t named, uint32_t stream, rpc::Xid xid);
  // Ends the callback and keeps its results.
  void Finish(uint32_t named, uint32_t stream, xdr::Message results);

 private:
  struct Stream {
    enum class State : uint8_t { kUnused, kRunning, kAnswered };
    State state = State::kUnused;
    rpc::Xid xid{};
    xdr::Message results{};
  };
  struct Channel {
    uint32_t number;
    std::vector<Stream> streams;
  };
  Channel* Find(uint32_t number);

  std::deque<Channel> channels_;
};

}  // namespace penstock::client::v4::sess01
