// A fixture for tests of clients and sessions: the tables, and short functions that make requests to them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/address.h"
#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/tables.h"

namespace penstock::nfs::v4 {

inline constexpr std::chrono::seconds kLease{90};

inline nfs4::verifier4 Verifier(uint64_t value) {
  nfs4::verifier4 verifier;
  StoreBig(verifier.data(), value);
  return verifier;
}

inline Principal User(uint32_t uid) { return {rpc::AuthFlavor::AUTH_SYS, uid}; }

// Returns the channel attributes that an ordinary client asks for.
inline nfs4::channel_attrs4 PlainChannel(uint32_t slots = 8) {
  return {.ca_headerpadsize = 0,
          .ca_maxrequestsize = 8192,
          .ca_maxresponsesize = 8192,
          .ca_maxresponsesize_cached = 8192,
          .ca_maxoperations = 128,
          .ca_maxrequests = slots,
          .ca_rdma_ird = {}};
}

// A backchannel that carries no calls. A test can disconnect it.
class TestBackChannel : public rpc::BackChannel {
 public:
  explicit TestBackChannel(BufferPool& buffers) : BackChannel(PeerWith(buffers)) {}
  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message, rpc::ReplyShape) override {
    co_return std::unexpected(rpc::CallError::kDisconnected);
  }
  void CloseConnection(std::string) override { set_disconnected(); }
  void Disconnect() { set_disconnected(); }

 private:
  static rpc::Peer PeerWith(BufferPool& buffers) {
    rpc::Peer peer;
    peer.buffers = &buffers;
    return peer;
  }
};

class ClientsTest : public testing::Test {
 protected:
  // Checks after each test that the tables are consistent.
  void TearDown() override { EXPECT_STREQ(tables_.FindInconsistency(), nullptr); }
  struct Opened {
    ClientId client;
    SessionId session;
  };

  // ---- minor version 1 ----

  Result<ExchangeIdResult, nfs4::nfsstat4> Exchange(std::string_view owner, uint64_t verifier = 1, uint32_t uid = 0,
                                                    bool update = false) {
    return tables_.Exchange({.verifier = Verifier(verifier), .owner = owner, .update = update, .dialect = DialectOf(1)},
                            User(uid), now_);
  }
  Sessions::CreateResult Create(ClientId client, uint32_t sequence, uint32_t uid = 0, uint32_t slots = 8) {
    return tables_.CreateSession({.client = client,
                                  .sequence = SequenceId(sequence),
                                  .back_channel = connection_.back_channel != nullptr,
                                  .fore = PlainChannel(slots),
                                  .back = PlainChannel(4),
                                  .callback_program = 0x40000000},
                                 connection_, User(uid), ++random_, now_);
  }
  // Makes a confirmed client with one session.
  Opened Open(std::string_view owner, uint64_t verifier = 1, uint32_t uid = 0, uint32_t slots = 8) {
    const auto exchanged = Exchange(owner, verifier, uid);
    EXPECT_TRUE(exchanged);
    const auto created = Create(exchanged->id, exchanged->sequence.value(), uid, slots);
    EXPECT_EQ(created.reply.csr_status(), nfs4::NFS4_OK);
    return {exchanged->id, created.reply.csr_resok4().csr_sessionid};
  }

  // ---- the state of a client ----

  void GiveOpen(ClientId client) {
    OpenOwner* const owner = tables_.files.owners.GetOpenOwner(client, AsBytes("owner"), now_);
    const NamedFile file{{ExportId(1), *fs::Handle::FromBytes(AsBytes("file"))}, {}};
    const Share share{nfs4::OPEN4_SHARE_ACCESS_READ, 0};
    EXPECT_EQ(tables_.files.opens.AddOpen(*owner, file, share, nullptr, DialectOf(1), now_).status, nfs4::NFS4_OK);
  }
  void TakeOpens(ClientId client) { tables_.files.ForgetClient(client, Ending::kReleased, now_); }

  // ---- SEQUENCE ----

  Result<Sessions::StartedRequest, nfs4::nfsstat4> Start(const SessionId& session, uint32_t slot, uint32_t sequence,
                                                         const Sessions::RequestFacts& facts = {.size = 200,
                                                                                                .operations = 2},
                                                         bool keep = true, uint32_t highest = 0) {
    return sessions_.StartRequest({.sa_sessionid = session,
                                   .sa_sequenceid = sequence,
                                   .sa_slotid = slot,
                                   .sa_highest_slotid = std::max(slot, highest),
                                   .sa_cachethis = keep},
                                  facts, connection_, now_);
  }
  void Finish(const SessionId& session, uint32_t slot, uint32_t sequence, std::optional<xdr::Message> reply = {}) {
    sessions_.FinishRequest(session, SlotId(slot), SequenceId(sequence), std::move(reply), now_);
  }
  // Executes a request with SEQUENCE alone. Returns the status of SEQUENCE.
  nfs4::nfsstat4 Sequence(const SessionId& session, uint32_t slot = 0, uint32_t sequence = 1) {
    const auto started = Start(session, slot, sequence);
    if (!started) return started.error();
    if (started->outcome == Sessions::Outcome::kRun) Finish(session, slot, sequence);
    return nfs4::NFS4_OK;
  }
  uint32_t StatusFlags(const SessionId& session, uint32_t slot, uint32_t sequence) {
    const auto started = Start(session, slot, sequence);
    EXPECT_TRUE(started);
    Finish(session, slot, sequence);
    return started ? started->sequence.sr_status_flags : 0;
  }

  // ---- minor version 0 ----

  Result<SetClientIdResult, nfs4::nfsstat4> Set(std::string_view id, uint64_t verifier = 1, uint32_t uid = 0,
                                                uint16_t callback_port = 2049) {
    const CallbackAddress address{.program = 0x40000000,
                                  .endpoint = SocketAddress(asio::ip::address_v4::loopback(), callback_port),
                                  .identifier = 7};
    return tables_.Set({.verifier = Verifier(verifier), .id = id, .callback = address, .dialect = DialectOf(0)},
                       User(uid), ++random_, now_);
  }
  nfs4::nfsstat4 Confirm(const SetClientIdResult& set, uint32_t uid = 0) {
    return tables_.Confirm(set.id, set.confirmation, User(uid), now_);
  }
  ClientId OpenMinorZero(std::string_view id, uint64_t verifier = 1, uint32_t uid = 0) {
    const auto set = Set(id, verifier, uid);
    EXPECT_TRUE(set);
    EXPECT_EQ(Confirm(*set, uid), nfs4::NFS4_OK);
    return set->id;
  }

  Settings settings_{.lease = kLease};
  TimePoint now_{std::chrono::hours(1)};
  SessionConnection connection_{.number = 1};
  uint64_t random_ = 0;
  StateTables tables_{{.settings = settings_, .instance = 0x65000000}};
  Clients& clients_ = tables_.clients;
  Sessions& sessions_ = tables_.sessions;
};

}  // namespace penstock::nfs::v4
