// A fake server of NFSv4.1 for tests of sessions. A test chooses the faults and errors of the server, and reads how
// often the server has executed each operation.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/signal.h"
#include "protocol/nfs4.h"
#include "rpc/header.h"
#include "rpc/transport.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::client::v4 {

using nfs4::nfs_opnum4;
using nfs4::nfsstat4;

// The parts of a server that a session uses: client ids, sessions, slots with cached replies, and a few operations. The
// server counts their executions.
class FakeServer final : public rpc::Channel {
 public:
  explicit FakeServer(Loop& loop) : loop_(loop) {}

  // The faults of the next calls.
  enum class Fault {
    kNone,
    kReplyLate,
    kReplyLost,
    kCallLost,
    kRepeated,  // the reply is lost with its connection, and the channel sends the call again over the next connection
  };
  // After a repetition or a lost reply, this many SEQUENCEs in the slot find that the first request is still being
  // executed.
  int busy = 0;
  std::deque<Fault> faults;
  // The errors of the next REMOVEs and CREATE_SESSIONs, which are not executed.
  std::deque<nfsstat4> remove_errors;
  std::deque<nfsstat4> create_errors;
  bool keeps_replies = true;  // whether the server caches a reply if the client asks for it
  uint32_t status_flags = 0;
  std::optional<nfs4::nfs_impl_id4> implementation;  // the name of the implementation, if the server tells it
  uint32_t slots = 8;
  uint32_t target = 100;
  Duration latency = Duration::zero();

  // Forgets all sessions. Restart() also forgets the client ids.
  void LoseSessions() { sessions_.clear(); }
  void Restart() {
    sessions_.clear();
    client_ = 0;
  }

  int removes = 0;
  int early_removes = 0;  // executed under a new client id before RECLAIM_COMPLETE
  int closes = 0;
  int lookups = 0;
  int exchanges = 0;
  // The arguments of the last EXCHANGE_ID.
  uint32_t exchange_flags = 0;
  nfs4::state_protect4_a exchange_protection;
  // The server cannot protect the state of clients.
  bool cannot_protect = false;
  int creations = 0;
  uint32_t create_flags = 0;  // of the last CREATE_SESSION
  uint32_t grants = 0;        // flags that CREATE_SESSION grants
  int sequences = 0;
  int binds = 0;
  int unbound = 0;        // so many SEQUENCEs come over a connection that is not bound
  bool protects = false;  // grants SP4_MACH_CRED
  int reclaims_completed = 0;
  int destroyed = 0;
  size_t most_running = 0;

  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override {
    most_running = std::max(most_running, ++running_);
    if (latency > Duration::zero()) co_await Sleep(loop_, latency);
    --running_;
    Fault fault = Fault::kNone;
    if (!faults.empty()) {
      fault = faults.front();
      faults.pop_front();
    }
    if (fault == Fault::kCallLost) co_return std::unexpected(rpc::CallError::kTimedOut);
    rpc::Message reply = Execute(call);
    if (fault == Fault::kRepeated) reply = Execute(call);
    EXPECT_LE(reply.stream.size(), shape.max_stream) << "the reply exceeds its estimate";
    if (fault == Fault::kReplyLost) co_return std::unexpected(rpc::CallError::kTimedOut);
    if (fault == Fault::kReplyLate) co_await late;
    co_return reply;
  }
  Signal late;  // releases the late replies

 private:
  struct Slot {
    uint32_t sequence = 0;
    bool cached = false;
    rpc::Message reply;
  };

  rpc::Message Execute(const rpc::Message& call) {
    xdr::Decoder in(call);
    rpc::CallHeader header;
    nfs4::COMPOUND4args_head head;
    EXPECT_EQ(rpc::DecodeCallHeader(in, header), rpc::HeaderProblem::kNone);
    EXPECT_TRUE(xdr::Decode(in, head));
    xdr::Encoder out(loop_.buffers());
    rpc::EncodeAccepted(out, header.xid, rpc::AcceptStatus::SUCCESS);
    const auto start = out.mark();
    const size_t status_at = out.reduced_size();
    xdr::Encode(out, nfs4::COMPOUND4res_head{nfsstat4::NFS4_OK, {}, 0});
    const size_t count_at = out.reduced_size() - 4;
    auto status = nfsstat4::NFS4_OK;
    slot_ = nullptr;
    uncached_ = false;
    more_ = head.count > 1;
    uint32_t done = 0;
    for (; done < head.count && status == nfsstat4::NFS4_OK; ++done) {
      status = One(in, out);
      if (replay_) {
        out.Rewind(start);
        out.Append(*std::exchange(replay_, nullptr));
        return out.Finish();
      }
    }
    out.PatchU32(status_at, static_cast<uint32_t>(status));
    out.PatchU32(count_at, done);
    if (slot_ && slot_->cached) slot_->reply = out.CopySince(start);
    return out.Finish();
  }

  template <class T>
  T Arguments(xdr::Decoder& in) {
    T arguments;
    EXPECT_TRUE(xdr::Decode(in, arguments));
    return arguments;
  }

  nfsstat4 One(xdr::Decoder& in, xdr::Encoder& out) {
    nfs_opnum4 operation;
    EXPECT_TRUE(xdr::Decode(in, operation));
    xdr::Encode(out, operation);
    switch (operation) {
      case nfs_opnum4::OP_EXCHANGE_ID: {
        ++exchanges;
        auto asked = Arguments<nfs4::EXCHANGE_ID4args>(in);
        exchange_flags = asked.eia_flags;
        exchange_protection = std::move(asked.eia_state_protect);
        if (cannot_protect && exchange_protection.spa_how() != nfs4::SP4_NONE) {
          xdr::Encode(out, nfs4::EXCHANGE_ID4res(nfsstat4::NFS4ERR_SERVERFAULT));
          return nfsstat4::NFS4ERR_SERVERFAULT;
        }
        if (client_ == 0) client_ = ++last_client_;
        nfs4::EXCHANGE_ID4resok result;
        result.eir_clientid = client_;
        result.eir_sequenceid = create_sequence_;
        result.eir_server_impl_id = implementation;
        if (protects && exchange_protection.is_spa_mach_ops()) {
          result.eir_state_protect = nfs4::state_protect4_r(nfs4::SP4_MACH_CRED, exchange_protection.spa_mach_ops());
        }
        xdr::Encode(out, nfs4::EXCHANGE_ID4res(nfsstat4::NFS4_OK, result));
        return nfsstat4::NFS4_OK;
      }
      case nfs_opnum4::OP_CREATE_SESSION:
        return CreateSession(Arguments<nfs4::CREATE_SESSION4args>(in), out);
      case nfs_opnum4::OP_SEQUENCE:
        return Sequence(Arguments<nfs4::SEQUENCE4args>(in), out);
      case nfs_opnum4::OP_REMOVE: {
        Arguments<nfs4::REMOVE4args>(in);
        auto status = nfsstat4::NFS4_OK;
        if (!remove_errors.empty()) {
          status = remove_errors.front();
          remove_errors.pop_front();
          xdr::Encode(out, nfs4::REMOVE4res(status));
        } else {
          ++removes;
          if (reclaims_completed < exchanges) ++early_removes;
          xdr::Encode(out, nfs4::REMOVE4res(status, nfs4::REMOVE4resok()));
        }
        return status;
      }
      case nfs_opnum4::OP_LOOKUP: {
        Arguments<nfs4::LOOKUP4args>(in);
        // RFC 8881 §2.10.6.1.3: SEQUENCE itself has succeeded.
        const auto status = uncached_ ? nfsstat4::NFS4ERR_RETRY_UNCACHED_REP : nfsstat4::NFS4_OK;
        if (!uncached_) ++lookups;
        xdr::Encode(out, nfs4::LOOKUP4res{status});
        return status;
      }
      case nfs_opnum4::OP_CLOSE:
        ++closes;
        Arguments<nfs4::CLOSE4args>(in);
        xdr::Encode(out, nfs4::CLOSE4res(nfsstat4::NFS4_OK, nfs4::stateid4()));
        return nfsstat4::NFS4_OK;
      case nfs_opnum4::OP_BIND_CONN_TO_SESSION: {
        ++binds;
        const auto arguments = Arguments<nfs4::BIND_CONN_TO_SESSION4args>(in);
        const nfs4::BIND_CONN_TO_SESSION4resok result{arguments.bctsa_sessid,
                                                      nfs4::channel_dir_from_server4::CDFS4_BOTH, false};
        xdr::Encode(out, nfs4::BIND_CONN_TO_SESSION4res(nfsstat4::NFS4_OK, result));
        return nfsstat4::NFS4_OK;
      }
      case nfs_opnum4::OP_RECLAIM_COMPLETE:
        Arguments<nfs4::RECLAIM_COMPLETE4args>(in);
        ++reclaims_completed;
        break;
      case nfs_opnum4::OP_DESTROY_SESSION:
        Arguments<nfs4::DESTROY_SESSION4args>(in);
        ++destroyed;
        break;
      case nfs_opnum4::OP_DESTROY_CLIENTID:
        Arguments<nfs4::DESTROY_CLIENTID4args>(in);
        ++destroyed;
        break;
      default:
        ADD_FAILURE() << "operation " << static_cast<int>(operation);
    }
    xdr::Encode(out, nfsstat4::NFS4_OK);
    return nfsstat4::NFS4_OK;
  }

  nfsstat4 CreateSession(const nfs4::CREATE_SESSION4args& arguments, xdr::Encoder& out) {
    ++creations;
    create_flags = arguments.csa_flags;
    auto status = nfsstat4::NFS4_OK;
    if (!create_errors.empty()) {
      status = create_errors.front();
      create_errors.pop_front();
    } else if (arguments.csa_clientid != client_) {
      status = nfsstat4::NFS4ERR_STALE_CLIENTID;
    } else if (arguments.csa_sequence != create_sequence_) {
      status = nfsstat4::NFS4ERR_SEQ_MISORDERED;
    }
    if (status != nfsstat4::NFS4_OK) {
      xdr::Encode(out, nfs4::CREATE_SESSION4res(status));
      return status;
    }
    ++create_sequence_;
    nfs4::CREATE_SESSION4resok result;
    result.csr_sessionid[0] = std::byte(++last_session_);
    result.csr_flags = create_flags & grants;
    result.csr_fore_chan_attrs = arguments.csa_fore_chan_attrs;
    result.csr_fore_chan_attrs.ca_maxrequests = slots;
    sessions_[result.csr_sessionid].resize(slots);
    xdr::Encode(out, nfs4::CREATE_SESSION4res(status, result));
    return status;
  }

  nfsstat4 Sequence(const nfs4::SEQUENCE4args& arguments, xdr::Encoder& out) {
    ++sequences;
    const auto fail = [&](nfsstat4 status) {
      xdr::Encode(out, nfs4::SEQUENCE4res(status));
      return status;
    };
    const auto succeed = [&] {
      const nfs4::SEQUENCE4resok result{
          arguments.sa_sessionid, arguments.sa_sequenceid, arguments.sa_slotid, slots - 1, target, status_flags};
      xdr::Encode(out, nfs4::SEQUENCE4res(nfsstat4::NFS4_OK, result));
      return nfsstat4::NFS4_OK;
    };
    if (unbound > 0) {
      --unbound;
      return fail(nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
    }
    const auto session = sessions_.find(arguments.sa_sessionid);
    if (session == sessions_.end()) return fail(nfsstat4::NFS4ERR_BADSESSION);
    if (arguments.sa_slotid >= session->second.size()) return fail(nfsstat4::NFS4ERR_BADSLOT);
    Slot& slot = session->second[arguments.sa_slotid];
    if (arguments.sa_sequenceid == slot.sequence) {
      if (busy > 0) {
        --busy;
        return fail(nfsstat4::NFS4ERR_DELAY);
      }
      if (slot.cached) {
        replay_ = &slot.reply;
        return nfsstat4::NFS4_OK;
      }
      if (!more_ || !keeps_replies) return fail(nfsstat4::NFS4ERR_RETRY_UNCACHED_REP);
      uncached_ = true;
      return succeed();
    }
    if (arguments.sa_sequenceid != slot.sequence + 1) return fail(nfsstat4::NFS4ERR_SEQ_MISORDERED);
    slot = {arguments.sa_sequenceid, arguments.sa_cachethis && keeps_replies, {}};
    slot_ = &slot;
    return succeed();
  }

  Loop& loop_;
  std::map<nfs4::sessionid4, std::vector<Slot>> sessions_;
  Slot* slot_ = nullptr;  // the slot of the current COMPOUND
  const rpc::Message* replay_ = nullptr;
  bool uncached_ = false;  // the COMPOUND was executed before, and its reply was not cached
  bool more_ = false;      // the COMPOUND has operations behind SEQUENCE
  uint64_t client_ = 0;
  uint64_t last_client_ = 0;
  uint8_t last_session_ = 0;
  uint32_t create_sequence_ = 1;
  size_t running_ = 0;
};

}  // namespace penstock::client::v4
