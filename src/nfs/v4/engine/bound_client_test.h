// A client of the sessions of 2004, for tests of the operations.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "nfs/v4/engine/nfs4_test.h"
#include "nfs/v4/state/clients/test_clients.h"
#include "protocol/nfs4_sess01.h"
#include "rpc/connection_control.h"

namespace penstock::nfs::v4 {

// A connection whose transport grants whatever it is asked for.
class TestConnection : public rpc::ConnectionControl {
 public:
  explicit TestConnection(BufferPool& buffers) : way(std::make_shared<TestBackChannel>(buffers)) {}

  rpc::ConnectionLimits Offer(const rpc::ConnectionLimits& asked) const override { return asked; }
  void Bind(rpc::Xid, const rpc::ConnectionLimits& granted) override { limits = granted; }
  void KeepLimitsOpen(rpc::Xid) override { kept_open = true; }
  size_t ReplyRoom(rpc::Xid) const override { return reply_room; }
  std::optional<size_t> PayloadRoom(rpc::Xid, size_t n) const override {
    return n < payload_rooms.size() ? std::optional(payload_rooms[n]) : std::nullopt;
  }
  std::optional<rpc::ConnectionLimits> OfferStepUp(rpc::Xid, const rpc::ConnectionLimits& asked) const override {
    return can_step_up ? std::optional(asked) : std::nullopt;
  }
  void StepUp(rpc::Xid, const rpc::ConnectionLimits& granted) override {
    limits = granted;
    stepped_up = true;
  }

  bool bound() const { return way->bound(); }

  const std::shared_ptr<TestBackChannel> way;
  const uint64_t number = rpc::NewConnectionNumber();
  rpc::TransportKind transport = rpc::TransportKind::kTcp;
  std::optional<rpc::ConnectionLimits> limits;
  bool kept_open = false;
  size_t reply_room = SIZE_MAX;
  std::vector<size_t> payload_rooms;
  bool can_step_up = false;
  bool stepped_up = false;
};

inline auto SessionCreate(std::string_view owner, uint32_t requests = 4, bool persist = true, uint64_t verifier = 1) {
  SESSIONCREATE4args arguments{.clientid = {}, .persist = persist, .totalrequests = requests};
  StoreBig(arguments.clientid.verifier.data(), verifier);
  arguments.clientid.id = AsBytes(owner);
  return Op(OP_SESSION_CREATE, arguments);
}

inline SESSIONBIND4args BindArguments(uint64_t session, ChannelType type = OPERATION, ConnectionMode mode = STREAM) {
  return {.sessionid = session,
          .channel = type,
          .mode = mode,
          .maxrequestsize = 4096,
          .maxresponsesize = 4096,
          .headerpadsize = 0,
          .maxrequests = 4,
          .maxrdmareads = 0,
          .transportattrs = {}};
}

inline auto Control(uint32_t channel, uint32_t stream, ChainFlags flag = NOCHAIN) {
  return Op(OP_OPERATION_CONTROL, OPERATIONCONTROL4args{.channelid = channel, .streamid = stream, .chainflags = flag});
}

// The server under test offers these sessions to TCP and RDMA connections.
class BoundSessionTest : public Nfs4Test {
 protected:
  explicit BoundSessionTest(const Settings& settings = {.bound_sessions = true}) : Nfs4Test(settings) {}

  // The next calls come over this connection.
  void Over(TestConnection& connection) {
    server.peer.connection = connection.number;
    server.peer.back_channel = connection.way;
    server.peer.control = &connection;
    server.peer.transport = connection.transport;
  }
  // Sends a COMPOUND of minor version 1 over a connection.
  template <class... Arguments>
  CompoundReply RunOver(TestConnection& connection, const Sent<Arguments>&... operations) {
    Over(connection);
    return server.Run(1, operations...);
  }
  uint64_t Create(TestConnection& connection, std::string_view owner, uint64_t verifier = 1) {
    const auto created =
        RunOver(connection, SessionCreate(owner, 4, true, verifier)).template Next<SESSIONCREATE4res>();
    EXPECT_EQ(created.status(), NFS4_OK);
    return created.is_resok4() ? created.resok4().sessionid : 0;
  }
  SESSIONBIND4res Bind(TestConnection& connection, const SESSIONBIND4args& arguments) {
    return RunOver(connection, Op(OP_SESSION_BIND, arguments)).template Next<SESSIONBIND4res>();
  }
  // Binds an operations channel and returns its channelid.
  uint32_t BindOperations(TestConnection& connection, uint64_t session) {
    const auto bound = Bind(connection, BindArguments(session));
    EXPECT_EQ(bound.status(), NFS4_OK);
    return bound.is_resok4() ? bound.resok4().channelid : 0;
  }
  // Sends a request of a session, with the XID that is given or a new one. Expects NFS4_OK from OPERATION_CONTROL, and
  // skips its result.
  template <class... Arguments>
  CompoundReply Request(TestConnection& connection, const Sent<OPERATIONCONTROL4args>& control,
                        const Sent<Arguments>&... operations) {
    auto reply = RunOver(connection, control, operations...);
    EXPECT_EQ(reply.template Next<OPERATIONCONTROL4res>().status(), NFS4_OK);
    return reply;
  }
  // The same request again: with the XID of the last call.
  template <class... Arguments>
  CompoundReply Again(TestConnection& connection, const Sent<Arguments>&... operations) {
    --server.last_xid;
    return RunOver(connection, operations...);
  }

  TestConnection first{server.buffers};
  TestConnection second{server.buffers};
};

}  // namespace penstock::nfs::v4
