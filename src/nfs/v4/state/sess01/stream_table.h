// The streamids of a session of 2004: they execute each request exactly once (draft-talpey-nfsv4-rdma-sess-01 §3.2).
//
// A streamid remembers the last request that was accepted on it, and its reply. A request carries no sequence number. A
// client that sends a new request names the channel over which it sends it. After the client has lost that channel, it
// sends the request again over another one, and still names the first one. The table recognizes a retry of the last
// request of a streamid by its channel, XID and digest. A retry that it does not recognize was either never received,
// or is stale: a late copy of a request that has been answered over a third channel.
//
// The table tells them apart by this fact: when a client loses a channel, it waits for at most one request on each
// streamid, so it sends only this one again in the name of that channel. Each closed channel therefore remembers the
// streamids of its retries.
//   - If the streamid is not among them, the client has no answer to the request: it was never received.
//   - If the streamid is among them, the earlier retry was a copy of the same request. The streamid has accepted
//   another
//     request since, so the client has had its answer: the retry is stale.
// This is true only if no request arrives over a channel after a retry has named it. The caller therefore closes the
// connection of a live channel that a retry names, before it calls Start().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "nfs/v4/state/sess01/channels.h"
#include "nfs/v4/state/sess01/ids.h"
#include "protocol/nfs4_types.h"
#include "rpc/xid.h"
#include "xdr/message.h"

namespace penstock::nfs::v4::sess01 {

// A value without locks. The owner of the session protects it.
class StreamTable {
 public:
  // `count`: how many streamids the client may use (totalrequests, §6.1). Requires count > 0. `keeps_replies`: the
  // client has asked for exactly-once semantics (persist, §6.1). Otherwise the table keeps no reply, and executes a
  // retry again once the first execution has ended.
  StreamTable(uint32_t count, bool keeps_replies);

  struct Request {
    StreamId stream;
    ChannelId own;    // the operations channel of the connection over which the request came
    ChannelId named;  // the channelid in OPERATION_CONTROL
    rpc::Xid xid;
    // The digest of the request and its caller. It tells a retry from another request with the same XID.
    uint64_t digest = 0;
  };

  enum class Outcome : uint8_t {
    kRun,     // execute the request, then call Finish() or Withdraw()
    kReplay,  // a retry: here is the reply
    kWait,    // a retry of the request under way: call Start() again when it has ended
  };
  // Identifies an execution in its table.
  using Execution = Strong<struct ExecutionTag, uint64_t>;
  struct Started {
    Outcome outcome;
    xdr::Message reply{};   // kReplay
    Execution execution{};  // kRun
    // kRun: the request was executed before, changed nothing, and its reply was not kept. The client may have had its
    // answer, so this execution must not change anything either.
    bool repeats = false;
  };

  // Starts a request, as OPERATION_CONTROL does. `named` is the state of the channel that the request names. If this is
  // not its own channel, the channel must be closed or forgotten. A retry in the name of a forgotten channel is stale
  // unless the table recognizes it. Errors, which do not change what a streamid remembers:
  //   - NFS4ERR_SESS01_BADSTREAM: the streamid is not below count();
  //   - NFS4ERR_SESS01_STREAM_INUSE: another request is under way on the streamid; the retry is stale; a request with
  //     the same channel and XID had another digest; or a request whose reply was not kept comes again over its live
  //     channel, which the draft forbids (§2.5);
  //   - NFS4ERR_SESS01_UNKNOWN_FATE: the request was executed, at least in part, and its reply is not known.
  Result<Started, nfs4::nfsstat4> Start(const Request& request, const ChannelState& named);

  // Ends an execution that Start() began. Does nothing if the table has dropped the streamid or accepted another
  // request on it since. The table keeps `reply` for retries, if it keeps replies. The reply must own its memory.
  // `changed`: the request contained an operation that may change something, and executed it. Without a kept reply, a
  // request that changed nothing is executed again when the client sends it again.
  void Finish(StreamId stream, Execution execution, std::optional<xdr::Message> reply, bool changed);

  // Takes back a request that was not executed, because its connection is lost. The request then counts as never
  // received. Does nothing in the cases in which Finish() does nothing.
  void Withdraw(StreamId stream, Execution execution);

  // Whether the execution is under way.
  bool IsUnderWay(StreamId stream, Execution execution) const;

  // Whether the request is the last one that was accepted on the streamid. Otherwise the client has seen its reply.
  bool IsLast(StreamId stream, ChannelId named, rpc::Xid xid) const;

  // Restores the last request of a streamid after a restart of the server: with its reply, or without one if the
  // server had begun to execute it. A retry of a request without a reply gets NFS4ERR_SESS01_UNKNOWN_FATE. Returns
  // false if the streamid is not below count(). Call it before the first Start().
  bool Restore(StreamId stream, ChannelId named, rpc::Xid xid, uint64_t digest, std::optional<xdr::Message> reply);

  // Gives the client more streamids. Requires count >= count().
  void Raise(uint32_t count);
  // Drops the streamids from `target` on, and what they remember. The caller does so when the client has answered
  // CB_CREDITRECALL with NFS4_OK, and so has no request under way on them. Requires 0 < target <= count().
  void Lower(uint32_t target);

  // Drops all kept replies. The fate of their requests is then unknown.
  void ForgetReplies();

  // How many streamids the client may use.
  uint32_t count() const { return static_cast<uint32_t>(entries_.size()); }
  // How many streamids have a request under way.
  uint32_t busy() const { return busy_; }
  // The memory of the replies that are kept, in octets.
  size_t kept_octets() const { return kept_octets_; }
  bool keeps_replies() const { return keeps_replies_; }

  // The memory of a streamid.
  struct Entry {
    enum class State : uint8_t {
      kUnused,
      kRunning,      // the first execution is under way
      kWithdrawn,    // accepted, and not executed
      kKept,         // executed; `reply` is the reply
      kUnkept,       // executed; a retry executes it again
      kRepeating,    // a second or later execution is under way
      kUnknownFate,  // executed at least in part; the reply is not known
    };
    State state = State::kUnused;
    ChannelId channel{};  // the channel that the request named
    rpc::Xid xid{};
    uint64_t digest = 0;
    Execution execution{};  // the last one
    xdr::Message reply{};

    bool busy() const { return state == State::kRunning || state == State::kRepeating; }
  };
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  static bool Recognizes(const Entry& entry, ChannelId named, rpc::Xid xid);
  // Starts a request that the entry recognizes.
  Result<Started, nfs4::nfsstat4> StartAgain(Entry& entry, bool is_retry);
  Started Begin(Entry& entry, Entry::State state);
  // Returns the entry of an execution; null if the execution no longer concerns the table.
  Entry* Executing(StreamId stream, Execution execution);
  void Replace(Entry& entry, Entry with);

  std::vector<Entry> entries_;
  bool keeps_replies_;
  uint64_t executions_ = 0;  // how many there were
  uint32_t busy_ = 0;
  size_t kept_octets_ = 0;
};

}  // namespace penstock::nfs::v4::sess01
