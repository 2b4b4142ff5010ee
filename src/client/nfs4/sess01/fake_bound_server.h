// A fake server of the sessions of 2004 for tests of the client. A test chooses the faults and errors of the server,
// and reads how often the server has executed each operation.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/signal.h"
#include "client/nfs4/sess01/connector.h"
#include "protocol/nfs4.h"
#include "rpc/header.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::client::v4::sess01 {

using nfs4::nfs_opnum4;
using nfs4::nfsstat4;

class FakeBoundServer final : public Connector {
 public:
  explicit FakeBoundServer(Loop& loop) : loop_(loop) {}
  ~FakeBoundServer() override { EXPECT_TRUE(connections_.empty()); }

  // The fate of the next COMPOUNDs with OPERATION_CONTROL. kCallLost and kReplyLost end the connection, before or after
  // the execution.
  enum class Fault { kNone, kCallLost, kReplyLost };
  std::deque<Fault> faults;
  // The status of the next OPERATION_CONTROLs, SESSION_CREATEs and SESSION_BINDs; NFS4_OK: as usual.
  std::deque<nfsstat4> control_errors, create_errors, bind_errors;
  std::deque<nfsstat4> lookup_errors;  // the same for LOOKUPs
  uint32_t total_requests = 8;
  // Changes what SESSION_BIND grants.
  std::function<void(nfs4::SESSIONBIND4resok&)> grant = [](auto&) {};
  // Operations channels ask for `wanted`, and the server grants the RDMA mode if `grants_rdma` is true. Stepping up
  // then ends with `step_up_error`, unless that is empty. The fake connection stays the same.
  nfs4::ConnectionMode wanted = nfs4::ConnectionMode::STREAM;
  bool grants_rdma = true;
  std::string step_up_error;
  uint32_t largest = 1 << 20;  // the largest message that the connector allows
  bool persists = true;        // the server grants what the client asks for
  uint8_t instance = 1;
  uint32_t wrong_streamid = 0;  // is added to the streamids of results
  bool is_unknown = false;      // the server does not know the draft
  Duration latency = Duration::zero();
  bool holds_calls = false;    // calls that arrive wait until ReleaseCalls(), or until their connection is lost
  uint32_t size = 1 << 20;     // of messages
  bool breaks_chains = false;  // every chain is broken from its second request on

  void ReleaseCalls() {
    holds_calls = false;
    released_.Notify();
  }
  // The server forgets the session; it closes the connections if `closes` is true.
  void LoseSession(bool closes) {
    session_ = 0;
    for (Connection* each : connections_) each->channels.clear();
    if (closes) LoseConnections();
  }
  void LoseConnections() {
    for (Connection* each : std::set(connections_)) each->Lose();
  }
  // Calls the client over the connection with the back channel. The reply is empty as long as there is none.
  std::shared_ptr<rpc::Message> CallBack(rpc::Message call) {
    auto reply = std::make_shared<rpc::Message>();
    for (Connection* each : connections_) {
      if (!each->back) continue;
      Spawn([](rpc::CallHandler& to, rpc::Message message, const rpc::Peer& from, auto out) -> Task<> {
        *out = co_await to.HandleCall(std::move(message), from);
      }(*each->ends.handler, std::move(call), peer_, reply));
      break;
    }
    return reply;
  }
  std::optional<uint32_t> back_channel() const {
    for (const Connection* each : connections_) {
      if (each->back) return each->back;
    }
    return std::nullopt;
  }
  size_t open() const { return connections_.size(); }

  // The events in their order: "create", "bind operations", "bind back", "destroy".
  std::vector<std::string> events;
  int removes = 0;
  int lookups = 0;
  int closed_files = 0;
  int controls = 0;
  int replays = 0;
  uint32_t most_streams = 0;  // without a reply at once
  std::map<uint32_t, uint32_t> most_on_channel;
  std::set<uint32_t> streams_seen;
  std::vector<nfs4::ChainFlags> flags;
  std::vector<nfs4::SESSIONBIND4args> binds;

  // Connector
  nfs4::ConnectionMode mode(nfs4::ChannelType type) const override {
    return type == nfs4::ChannelType::BACK ? nfs4::ConnectionMode::STREAM : wanted;
  }
  uint32_t max_message() const override { return largest; }
  bool starts_in_rdma_mode() const override { return false; }
  Task<Opened> Open(Duration, Ends ends) override { co_return std::make_unique<Connection>(*this, std::move(ends)); }
  Task<Opened> StepUp(std::unique_ptr<rpc::Channel> tcp, rpc::ConnectionLimits, Ends ends) override {
    if (!step_up_error.empty()) co_return std::unexpected(step_up_error);
    static_cast<Connection&>(*tcp).ends = std::move(ends);
    co_return std::move(tcp);
  }
  void SetLimits(rpc::Channel&, const rpc::ConnectionLimits&) override {}
  Task<bool> ReturnCredits(rpc::Channel&, uint32_t) override { co_return true; }
  uint32_t Credits(rpc::Channel&) const override { return 1; }

 private:
  class Connection final : public rpc::Channel {
   public:
    Connection(FakeBoundServer& server, Ends given) : ends(std::move(given)), server_(server) {
      server_.connections_.insert(this);
    }
    ~Connection() override {
      Lose();
      server_.connections_.erase(this);
    }
    Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override {
      const std::shared_ptr<bool> lost = lost_;
      FakeBoundServer& server = server_;
      if (*lost) co_return std::unexpected(rpc::CallError::kDisconnected);
      const auto run = server.Begin(*this, call);
      if (server.latency > Duration::zero()) co_await Sleep(server.loop_, server.latency);
      while (server.holds_calls && !*lost) co_await server.released_;
      if (*lost) co_return std::unexpected(rpc::CallError::kDisconnected);
      Fault fault = Fault::kNone;
      if (run && !server.faults.empty()) {
        fault = server.faults.front();
        server.faults.pop_front();
      }
      if (fault == Fault::kCallLost) {
        Lose();
        co_return std::unexpected(rpc::CallError::kDisconnected);
      }
      rpc::Message reply = server.Execute(*this, call);
      EXPECT_LE(reply.stream.size(), shape.max_stream) << "the reply exceeds its estimate";
      server.End(*this, run);
      if (fault == Fault::kReplyLost) {
        Lose();
        co_return std::unexpected(rpc::CallError::kDisconnected);
      }
      co_return reply;
    }
    void Close() override { Lose(); }
    void Lose() {
      if (std::exchange(*lost_, true)) return;
      channels.clear();
      back.reset();
      server_.loop_.Post([&server = server_] { server.released_.Notify(); });
      if (const auto told = std::exchange(ends.on_lost, nullptr)) told();
    }

    Ends ends;
    std::vector<uint32_t> channels;  // operations channels: none or one
    std::optional<uint32_t> back;
    uint32_t credits = 0;
    uint32_t running = 0;

   private:
    FakeBoundServer& server_;
    const std::shared_ptr<bool> lost_ = std::make_shared<bool>(false);
  };
  struct Kept {
    uint32_t channel = 0;
    uint32_t xid = 0;
    rpc::Message reply;
  };

  static std::optional<nfs4::OPERATIONCONTROL4args> ControlOf(const rpc::Message& call) {
    xdr::Decoder in(call);
    rpc::CallHeader header;
    nfs4::COMPOUND4args_head head;
    nfs_opnum4 operation;
    nfs4::OPERATIONCONTROL4args control;
    if (rpc::DecodeCallHeader(in, header) != rpc::HeaderProblem::kNone || header.procedure == 0 ||
        !xdr::Decode(in, head) || !xdr::Decode(in, operation) || operation != nfs_opnum4::OP_OPERATION_CONTROL ||
        !xdr::Decode(in, control)) {
      return std::nullopt;
    }
    return control;
  }
  // Checks the streamid and the credits of a request.
  using Stream = std::pair<uint64_t, uint32_t>;  // of a session
  std::optional<Stream> Begin(Connection& connection, const rpc::Message& call) {
    const auto control = ControlOf(call);
    if (!control) return std::nullopt;
    ++controls;
    streams_seen.insert(control->streamid);
    EXPECT_LT(control->streamid, total_requests);
    if (!connection.channels.empty()) {
      ++connection.running;
      EXPECT_LE(connection.running, connection.credits);
      auto& most = most_on_channel[connection.channels.front()];
      most = std::max(most, connection.running);
    }
    // A retry names the channel of its original, which may be under way.
    const bool is_new = !connection.channels.empty() && connection.channels.front() == control->channelid;
    const Stream stream(session_, control->streamid);
    const bool is_free = busy_.insert(stream).second;
    const bool is_late = latency > Duration::zero() || holds_calls;
    EXPECT_TRUE(is_free || !is_new || !is_late) << "two requests of one stream";
    most_streams = std::max(most_streams, static_cast<uint32_t>(busy_.size()));
    return stream;
  }
  void End(Connection& connection, const std::optional<Stream>& stream) {
    if (!stream) return;
    busy_.erase(*stream);
    if (connection.running > 0) --connection.running;
  }

  rpc::Message Execute(Connection& connection, const rpc::Message& call) {
    xdr::Decoder in(call);
    rpc::CallHeader header;
    nfs4::COMPOUND4args_head head;
    EXPECT_EQ(rpc::DecodeCallHeader(in, header), rpc::HeaderProblem::kNone);
    xdr::Encoder out(loop_.buffers());
    rpc::EncodeAccepted(out, header.xid, rpc::AcceptStatus::SUCCESS);
    if (header.procedure == 0) return out.Finish();
    EXPECT_TRUE(xdr::Decode(in, head));
    EXPECT_EQ(head.minorversion, 1u);
    const auto start = out.mark();
    const size_t status_at = out.reduced_size();
    xdr::Encode(out, nfs4::COMPOUND4res_head{nfsstat4::NFS4_OK, {}, 0});
    const size_t count_at = out.reduced_size() - 4;
    auto status = nfsstat4::NFS4_OK;
    Kept* keep = nullptr;
    uint32_t done = 0;
    for (; done < head.count && status == nfsstat4::NFS4_OK; ++done) {
      nfs_opnum4 operation;
      EXPECT_TRUE(xdr::Decode(in, operation));
      EXPECT_EQ(done > 0, !IsFirst(operation)) << "operation " << static_cast<uint32_t>(operation);
      const rpc::Message* replay = nullptr;
      status = One(connection, operation, header.xid.value(), in, out, keep, replay);
      if (replay) {
        ++replays;
        out.Rewind(start);
        out.Append(*replay);
        return out.Finish();
      }
    }
    out.PatchU32(status_at, static_cast<uint32_t>(status));
    out.PatchU32(count_at, done);
    if (keep) keep->reply = out.CopySince(start);
    return out.Finish();
  }
  static bool IsFirst(nfs_opnum4 operation) {
    return operation == nfs_opnum4::OP_OPERATION_CONTROL || operation == nfs_opnum4::OP_SESSION_CREATE ||
           operation == nfs_opnum4::OP_SESSION_BIND;
  }
  static nfsstat4 Take(std::deque<nfsstat4>& errors) {
    if (errors.empty()) return nfsstat4::NFS4_OK;
    const nfsstat4 status = errors.front();
    errors.pop_front();
    return status;
  }
  template <class T>
  T Arguments(xdr::Decoder& in) {
    T arguments;
    EXPECT_TRUE(xdr::Decode(in, arguments));
    return arguments;
  }

  nfsstat4 One(Connection& connection, nfs_opnum4 operation, uint32_t xid, xdr::Decoder& in, xdr::Encoder& out,
               Kept*& keep, const rpc::Message*& replay) {
    if (is_unknown) {
      xdr::Encode(out, nfs_opnum4::OP_ILLEGAL);
      xdr::Encode(out, nfsstat4::NFS4ERR_OP_ILLEGAL);
      return nfsstat4::NFS4ERR_OP_ILLEGAL;
    }
    xdr::Encode(out, operation);
    switch (operation) {
      case nfs_opnum4::OP_SESSION_CREATE: {
        events.emplace_back("create");
        const auto asked = Arguments<nfs4::SESSIONCREATE4args>(in);
        const nfsstat4 status = Take(create_errors);
        if (status == nfsstat4::NFS4_OK && session_ == 0) session_ = ++last_session_, next_channel_ = 1, kept_.clear();
        const nfs4::SESSIONCREATE4resok made{session_, asked.persist && persists,
                                             std::min(asked.totalrequests, total_requests)};
        xdr::Encode(
            out, status == nfsstat4::NFS4_OK ? nfs4::SESSIONCREATE4res(status, made) : nfs4::SESSIONCREATE4res(status));
        return status;
      }
      case nfs_opnum4::OP_SESSION_BIND:
        return Bind(connection, Arguments<nfs4::SESSIONBIND4args>(in), out);
      case nfs_opnum4::OP_OPERATION_CONTROL:
        return Control(connection, Arguments<nfs4::OPERATIONCONTROL4args>(in), xid, out, keep, replay);
      case nfs_opnum4::OP_REMOVE:
        Arguments<nfs4::REMOVE4args>(in);
        ++removes;
        xdr::Encode(out, nfs4::REMOVE4res(nfsstat4::NFS4_OK, nfs4::REMOVE4resok()));
        return nfsstat4::NFS4_OK;
      case nfs_opnum4::OP_CLOSE:
        Arguments<nfs4::CLOSE4args>(in);
        ++closed_files;
        xdr::Encode(out, nfs4::CLOSE4res(nfsstat4::NFS4_OK, nfs4::stateid4{}));
        return nfsstat4::NFS4_OK;
      case nfs_opnum4::OP_LOOKUP:
        Arguments<nfs4::LOOKUP4args>(in);
        ++lookups;
        if (const nfsstat4 status = Take(lookup_errors); status != nfsstat4::NFS4_OK) {
          xdr::Encode(out, status);
          return status;
        }
        break;
      case nfs_opnum4::OP_SESSION_DESTROY:
        events.emplace_back("destroy");
        break;
      default:
        ADD_FAILURE() << "operation " << static_cast<uint32_t>(operation);
    }
    xdr::Encode(out, nfsstat4::NFS4_OK);
    return nfsstat4::NFS4_OK;
  }

  nfsstat4 Bind(Connection& connection, const nfs4::SESSIONBIND4args& asked, xdr::Encoder& out) {
    const bool is_back = asked.channel == nfs4::ChannelType::BACK;
    events.emplace_back(is_back ? "bind back" : "bind operations");
    binds.push_back(asked);
    binds.back().transportattrs = {};
    nfsstat4 status = Take(bind_errors);
    if (asked.sessionid != session_ || session_ == 0) status = nfsstat4::NFS4ERR_SESS01_BADSESSION;
    if (!is_back && !connection.channels.empty()) status = nfsstat4::NFS4ERR_SESS01_BADBIND;
    if (status != nfsstat4::NFS4_OK) {
      xdr::Encode(out, nfs4::SESSIONBIND4res(status));
      return status;
    }
    const std::array<std::byte, 8> value{std::byte{instance}};
    nfs4::transportattrs4 attributes;
    attributes.push_back({.type = nfs4::TRANSPORTATTR4_INSTANCE, .value = ConstBytes(value)});
    const bool is_rdma = asked.mode == nfs4::ConnectionMode::RDMA && grants_rdma;
    const std::array<std::byte, 4> mode{{{}, {}, {}, std::byte{1}}};
    if (is_rdma) attributes.push_back({.type = nfs4::TRANSPORTATTR4_MODE, .value = ConstBytes(mode)});
    const uint32_t most = is_rdma ? std::min<uint32_t>(size, 16 << 10) : size;
    xdr::Encoder encoder(loop_.buffers());
    xdr::Encode(encoder, attributes);
    const xdr::Message encoded = encoder.Finish();
    nfs4::SESSIONBIND4resok given{.channelid = next_channel_++,
                                  .maxrequestsize = std::min(asked.maxrequestsize, most),
                                  .maxresponsesize = std::min(asked.maxresponsesize, most),
                                  .headerpadsize = 0,
                                  .maxrequests = std::min(asked.maxrequests, 4u),
                                  .maxrdmareads = 0,
                                  .transportattrs = encoded.stream.bytes()};
    grant(given);
    if (is_back) {
      connection.back = given.channelid;
    } else {
      connection.channels.push_back(given.channelid);
      connection.credits = given.maxrequests;
    }
    xdr::Encode(out, nfs4::SESSIONBIND4res(status, given));
    return status;
  }

  nfsstat4 Control(Connection& connection, const nfs4::OPERATIONCONTROL4args& asked, uint32_t xid, xdr::Encoder& out,
                   Kept*& keep, const rpc::Message*& replay) {
    nfsstat4 status = Take(control_errors);
    const bool bound = !connection.channels.empty();
    if (!bound) status = nfsstat4::NFS4ERR_SESS01_NOT_BOUND;
    flags.push_back(asked.chainflags);
    const bool is_retry = bound && asked.channelid != connection.channels.front();
    Kept& kept = kept_[asked.streamid];
    if (status == nfsstat4::NFS4_OK && kept.channel == asked.channelid && kept.xid == xid) {
      EXPECT_TRUE(is_retry) << "the same request came again over a live connection";
      replay = &kept.reply;
      return status;
    }
    using enum nfs4::ChainFlags;
    const bool goes_on = asked.chainflags == CHAINCONTINUE || asked.chainflags == CHAINEND;
    if (status == nfsstat4::NFS4_OK && goes_on && (is_retry || breaks_chains))
      status = nfsstat4::NFS4ERR_SESS01_CHAIN_BROKEN;
    if (status == nfsstat4::NFS4_OK) {
      kept = {asked.channelid, xid, {}};
      keep = &kept;
    }
    const uint32_t stream = asked.streamid + wrong_streamid;
    xdr::Encode(out, status == nfsstat4::NFS4_OK ? nfs4::OPERATIONCONTROL4res(status, stream)
                                                 : nfs4::OPERATIONCONTROL4res(status));
    return status;
  }

  Loop& loop_;
  const rpc::Peer peer_ = [this] {
    rpc::Peer peer;
    peer.buffers = &loop_.buffers();
    return peer;
  }();
  std::set<Connection*> connections_;
  Signal released_;
  std::set<Stream> busy_;
  std::map<uint32_t, Kept> kept_;
  uint64_t session_ = 0;
  uint64_t last_session_ = 0x100;
  uint32_t next_channel_ = 1;
};

}  // namespace penstock::client::v4::sess01
