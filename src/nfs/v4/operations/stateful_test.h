// Fixtures for tests of the operations on opens, locks and delegations. They send the same requests in minor version 0,
// by a client that keeps its seqids, and in sessions.
#pragma once

#include <map>
#include <string>

#include "nfs/v4/engine/nfs4_test.h"
#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {

inline constexpr uint32_t kRead = OPEN4_SHARE_ACCESS_READ;
inline constexpr uint32_t kWrite = OPEN4_SHARE_ACCESS_WRITE;
inline constexpr uint32_t kBoth = OPEN4_SHARE_ACCESS_BOTH;
inline constexpr uint64_t kWholeFile = UINT64_MAX;

inline auto Opening(ClientId client, uint32_t seqid, std::string_view owner, uint32_t access, uint32_t deny,
                    open_claim4 claim, openflag4 how = {}) {
  return Op(OP_OPEN, OPEN4args{.seqid = seqid,
                               .share_access = access,
                               .share_deny = deny,
                               .owner = {.clientid = client.value(), .owner = AsBytes(owner)},
                               .openhow = std::move(how),
                               .claim = std::move(claim)});
}
inline open_claim4 Named(std::string_view name) { return {CLAIM_NULL, component4(name)}; }
inline auto Closing(const stateid4& id, uint32_t seqid = 0) { return Op(OP_CLOSE, CLOSE4args{seqid, id}); }
inline auto Reading(const stateid4& id) { return Op(OP_READ, READ4args{id, 0, 100}); }
inline auto Writing(const stateid4& id) {
  return Op(OP_WRITE, WRITE4args{id, 0, FILE_SYNC4, xdr::Payload<>::Borrowed(std::string_view("data"))});
}
inline locker4 NewLocker(ClientId client, const stateid4& open, std::string_view owner, uint32_t open_seqid = 0,
                         uint32_t lock_seqid = 0) {
  return {true, open_to_lock_owner4{.open_seqid = open_seqid,
                                    .open_stateid = open,
                                    .lock_seqid = lock_seqid,
                                    .lock_owner = {.clientid = client.value(), .owner = AsBytes(owner)}}};
}
inline locker4 KnownLocker(const stateid4& lock, uint32_t lock_seqid = 0) {
  return {false, exist_lock_owner4{.lock_stateid = lock, .lock_seqid = lock_seqid}};
}
inline auto Locking(nfs_lock_type4 type, uint64_t offset, uint64_t length, locker4 locker, bool reclaim = false) {
  return Op(OP_LOCK, LOCK4args{type, reclaim, offset, length, std::move(locker)});
}
inline auto Unlocking(const stateid4& id, uint64_t offset, uint64_t length, uint32_t seqid = 0) {
  return Op(OP_LOCKU, LOCKU4args{READ_LT, seqid, id, offset, length});
}
inline auto TestingLock(ClientId client, std::string_view owner, uint64_t offset, uint64_t length,
                        nfs_lock_type4 type = WRITE_LT) {
  return Op(OP_LOCKT, LOCKT4args{type, offset, length, {.clientid = client.value(), .owner = AsBytes(owner)}});
}

inline constexpr stateid4 kCurrent{.seqid = 1, .other = {}};

// A client of minor version 0.
class Client0 {
 public:
  Client0(Nfs4Server& server, std::string_view name, const verifier4& verifier = {}) : server_(server) {
    const SETCLIENTID4args who{.client = {.verifier = verifier, .id = AsBytes(name)},
                               .callback = {.cb_program = 0x40000000, .cb_location = {"tcp", "127.0.0.1.1.1"}},
                               .callback_ident = 0};
    const auto known = server.Run(0, Op(OP_SETCLIENTID, who)).Next<SETCLIENTID4res>();
    EXPECT_EQ(known.status(), NFS4_OK);
    id_ = ClientId(known.resok4().clientid);
    const SETCLIENTID_CONFIRM4args confirmation{id_.value(), known.resok4().setclientid_confirm};
    EXPECT_EQ(server.Run(0, Op(OP_SETCLIENTID_CONFIRM, confirmation)).status, NFS4_OK);
  }

  ClientId id() const { return id_; }
  // Returns the seqid of an owner's next request. The seqid stays the same until `Advance` is called.
  uint32_t seqid(const std::string& owner) { return seqids_.try_emplace(owner, 1).first->second; }
  void Advance(const std::string& owner) { ++seqids_.at(owner); }

  OPEN4res TryOpen(const std::string& owner, std::string_view name, uint32_t access, uint32_t deny = 0,
                   openflag4 how = {}) {
    auto reply = server_.Run(0, PutRoot(), Opening(id_, seqid(owner), owner, access, deny, Named(name), std::move(how)),
                             GetFh());
    auto opened = reply.Skip().Next<OPEN4res>();
    if (IsSequenced(opened.status())) Advance(owner);
    if (opened.status() == NFS4_OK) file = reply.Next<GETFH4res>().resok4().object;
    return opened;
  }
  // Opens the file, and sends OPEN_CONFIRM if the server requests it.
  stateid4 Open(const std::string& owner, std::string_view name, uint32_t access, uint32_t deny = 0,
                openflag4 how = {}) {
    const auto opened = TryOpen(owner, name, access, deny, std::move(how));
    EXPECT_EQ(opened.status(), NFS4_OK);
    if (!(opened.resok4().rflags & OPEN4_RESULT_CONFIRM)) return opened.resok4().stateid;
    const OPEN_CONFIRM4args confirmation{opened.resok4().stateid, seqid(owner)};
    Advance(owner);
    auto reply = server_.Run(0, PutFh(file), Op(OP_OPEN_CONFIRM, confirmation));
    return reply.Skip().Next<OPEN_CONFIRM4res>().resok4().open_stateid;
  }

  nfs_fh4 file;  // the file of the last successful OPEN

 private:
  Nfs4Server& server_;
  ClientId id_;
  std::map<std::string, uint32_t> seqids_;
};

class StatefulTest : public Nfs4Test {
 protected:
  explicit StatefulTest(Settings settings = {}, const Files::Limits& limits = {})
      : Nfs4Test(std::move(settings), limits) {}

  // Sends OPEN in a session.
  OPEN4res TryOpen(SessionClient& client, std::string_view name, uint32_t access, uint32_t deny = 0, openflag4 how = {},
                   std::string_view owner = "owner") {
    auto reply = client.Run(PutRoot(), Opening(client.client(), 0, owner, access, deny, Named(name), std::move(how)));
    return reply.Skip().Next<OPEN4res>();
  }
  stateid4 OpenBy(SessionClient& client, std::string_view name, uint32_t access, uint32_t deny = 0,
                  std::string_view owner = "owner") {
    const auto opened = TryOpen(client, name, access, deny, {}, owner);
    EXPECT_EQ(opened.status(), NFS4_OK);
    return opened.resok4().stateid;
  }
  SessionClient& Other() {
    if (!other_) other_.emplace(server, "other client");
    return *other_;
  }

  fattr4 Mode(uint32_t mode) { return Keep().Add(FATTR4_MODE, mode).Take(); }
  fattr4 Size(uint64_t size) { return Keep().Add(FATTR4_SIZE, size).Take(); }
  openflag4 Creating(createmode4 mode, fattr4 attributes = {}) {
    return {OPEN4_CREATE, createhow4(mode, std::move(attributes))};
  }
  static openflag4 Exclusively(std::string_view verifier) {
    verifier4 octets;
    CopyBytes(octets, AsBytes(verifier));
    return {OPEN4_CREATE, createhow4(EXCLUSIVE4, octets)};
  }

  // Makes the server able to call the client.
  void LetCall(const SessionClient& client) {
    server.peer.back_channel = std::make_shared<TestBackChannel>(server.buffers);
    const BIND_CONN_TO_SESSION4args both{client.session(), CDFC4_BACK, false};
    server.peer.connection += 1000;
    EXPECT_EQ(server.Run(client.minor_version(), Op(OP_BIND_CONN_TO_SESSION, both)).status, NFS4_OK);
    server.peer.connection -= 1000;
    server.peer.back_channel.reset();
  }
  void LetCall(const Client0& client) {
    server.state.Run([&](StateTables& state) { state.clients.SetPath(client.id(), PathState::kWorks); });
  }
  // Returns the name by which the tables know a file of the first export.
  NamedFile NameOf(const nfs_fh4& handle) const {
    return server.exports.table().all().front()->Name(FileHandle::Parse(handle.bytes())->object);
  }
  void Pass(Duration time) { server.clock.now += time; }
  void PassLease() { Pass(server.settings.lease + std::chrono::seconds(1)); }

 private:
  GivenValues& Keep() { return given_.emplace_back(server.buffers); }

  std::optional<SessionClient> other_;
  std::deque<GivenValues> given_;
};

}  // namespace penstock::nfs::v4
