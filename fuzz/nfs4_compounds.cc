// Sends sequences of COMPOUNDs of three clients to an NFSv4 server over a file system in memory. Some operations have
// arbitrary arguments; others use handles and stateids from the server, so that they reach its state. The machine
// credential of one client protects its state, and calls use different flavors. Time passes, and the server restarts
// with its stored state. Each COMPOUND must get a reply that decodes as the results of its operations, and the tables
// must be consistent after it.
#include <array>
#include <optional>
#include <vector>

#include "nfs/test_initiator.h"
#include "nfs4_server.h"

namespace {

using namespace penstock;           // NOLINT: a program of its own
using namespace penstock::nfs4;     // NOLINT: the protocol's own names
using namespace penstock::nfs::v4;  // NOLINT
using fuzz::Die;
using fuzz::Input;
using nfs::SecurityFlavor;

// The export does not accept all flavors of the calls.
constexpr nfs::SecurityFlavors kFlavors{SecurityFlavor::kNone, SecurityFlavor::kKrb5, SecurityFlavor::kKrb5i};

constexpr size_t kClients = 3;
constexpr size_t kProtected = 2;  // the client that requests SP4_MACH_CRED
constexpr std::array<std::string_view, kClients> kOwners = {"one", "two", "machine"};

class Server : fuzz::Nfs4Server {
 public:
  Server() : Nfs4Server(Settings{.max_read = 4096, .max_write = 4096}, kFlavors) {
    Start();
    handles_.push_back(nfs_fh4(nfs::EncodedHandle(exports_.table().all()[0]->root()).bytes()));
    states_.resize(1);
    peer_.buffers = &buffers_;
    peer_.connection = 1;
  }

  // Sets up the client again: with its old state if the server knows it, otherwise as a restarted client.
  void SetUp(size_t which) {
    client_ = which;
    BeMaintainer();
    sequence() = 0;
    while (!Exchange() || !CreateSession()) {
      verifiers_[which][0] = std::byte(std::to_integer<unsigned>(verifiers_[which][0]) + 1);
      // Another principal may use its name.
      if (verifiers_[which][0] == std::byte(0)) clock_.now += settings_.lease + std::chrono::seconds(1);
    }
  }

  void Execute(Input& input) {
    Pass(input.Octet());
    const uint8_t how = input.Octet();
    const uint32_t minor_version = how % 3;
    const uint32_t count = 1 + how / 3 % 6;
    const bool in_session = minor_version > 0;
    Begin(minor_version, (in_session ? 1 : 0) + 2 * count);
    if (in_session) AddSequence((how & 0x80) != 0);
    ComeAs(input.Octet());
    for (uint32_t i = 0; i < count; ++i) {
      Add(OP_PUTFH, PUTFH4args{handles_[input.Octet() % handles_.size()]});
      AddOne(input);
    }
    const COMPOUND4res results = Run();
    CheckConsistency();
    const bool lost =
        in_session && !results.resarray.empty() && results.resarray[0].opsequence().sr_status() != NFS4_OK;
    for (const nfs_resop4& result : results.resarray) Remember(result);
    if (lost) SetUp(client_);
  }

 private:
  static constexpr size_t kMost = 16;

  // The machine credential for the protected client, AUTH_NONE for the others.
  void BeMaintainer() { ComeAs(client_ == kProtected ? 2 : 0); }
  // AUTH_NONE, or one of two initiators with one of three services.
  void ComeAs(uint8_t who) {
    secured_.reset();
    who %= 7;
    if (who == 0) return;
    const auto service = static_cast<rpc::GssService>(1 + (who - 1) % 3);
    secured_ = (who <= 3 ? machine_ : user_).With(service);
  }

  // The events between COMPOUNDs, and the choice of the next client.
  void Pass(uint8_t what) {
    client_ = what % kClients;
    what /= kClients;
    if (what < 64) {
      clock_.now += std::chrono::seconds(what / 8);
    } else if (what < 80) {
      clock_.now += settings_.lease + std::chrono::seconds(1);  // every lease has expired
    } else {
      Start();
    }
    KeepLeases();
  }

  bool Exchange() {
    const EXCHANGE_ID4args who{
        .eia_clientowner = {.co_verifier = verifiers_[client_], .co_ownerid = {AsBytes(kOwners[client_])}},
        .eia_flags = 0,
        .eia_state_protect = client_ == kProtected ? AllThereIs() : state_protect4_a(SP4_NONE),
        .eia_client_impl_id = {}};
    Begin(2, 1);
    Add(OP_EXCHANGE_ID, who);
    const auto results = Run();
    const EXCHANGE_ID4res& known = results.resarray.at(0).opexchange_id();
    if (!known.is_eir_resok4()) return false;
    ids_[client_] = known.eir_resok4().eir_clientid;
    create_sequence_ = known.eir_resok4().eir_sequenceid;
    return true;
  }

  static state_protect4_a AllThereIs() {
    const bitmap4 all(3, UINT32_MAX);
    return state_protect4_a(SP4_MACH_CRED, state_protect_ops4{.spo_must_enforce = all, .spo_must_allow = all});
  }

  // After the grace period, also sends RECLAIM_COMPLETE. In the grace period, the client first reclaims state.
  bool CreateSession() {
    const channel_attrs4 channel{.ca_headerpadsize = 0,
                                 .ca_maxrequestsize = 1 << 16,
                                 .ca_maxresponsesize = 1 << 16,
                                 .ca_maxresponsesize_cached = 4096,
                                 .ca_maxoperations = 32,
                                 .ca_maxrequests = 4,
                                 .ca_rdma_ird = {}};
    Begin(2, 1);
    Add(OP_CREATE_SESSION, CREATE_SESSION4args{.csa_clientid = ids_[client_],
                                               .csa_sequence = create_sequence_,
                                               .csa_flags = CREATE_SESSION4_FLAG_PERSIST,
                                               .csa_fore_chan_attrs = channel,
                                               .csa_back_chan_attrs = channel,
                                               .csa_cb_program = 0x40000000,
                                               .csa_sec_parms = {}});
    const auto results = Run();
    const CREATE_SESSION4res& created = results.resarray.at(0).opcreate_session();
    if (!created.is_csr_resok4()) return false;
    sessions_[client_] = created.csr_resok4().csr_sessionid;
    if (state().Run([&](StateTables& state) { return state.clients.InGrace(); })) return true;
    Begin(2, 2);
    AddSequence(true);
    Add(OP_RECLAIM_COMPLETE, RECLAIM_COMPLETE4args{});
    Run();
    return true;
  }

  uint32_t& sequence() { return sequences_[client_]; }
  void AddSequence(bool cached) {
    Add(OP_SEQUENCE, SEQUENCE4args{.sa_sessionid = sessions_[client_],
                                   .sa_sequenceid = ++sequence(),
                                   .sa_slotid = 0,
                                   .sa_highest_slotid = 0,
                                   .sa_cachethis = cached});
  }

  void AddOne(Input& input) {
    const uint8_t kind = input.Octet();
    const stateid4& state = states_[input.Octet() % states_.size()];
    if (kind < 32) return AddOpen(input);
    if (kind < 48) return AddLock(input, state);
    // An existing stateid and arbitrary other arguments.
    constexpr std::array kUnderState = {OP_READ,       OP_WRITE,     OP_SETATTR,     OP_DELEGRETURN, OP_FREE_STATEID,
                                        OP_ALLOCATE,   OP_SEEK,      OP_READ_PLUS,   OP_DEALLOCATE,  OP_OPEN_DOWNGRADE,
                                        OP_WRITE_SAME, OP_IO_ADVISE, OP_OPEN_CONFIRM};
    if (kind < 96) {
      encoder_->U32(static_cast<uint32_t>(kUnderState[kind % kUnderState.size()]));
      xdr::Encode(*encoder_, state);
      encoder_->Fixed(input.Take(input.Octet()));
    } else if (kind < 112) {
      Add(OP_CLOSE, CLOSE4args{.seqid = input.Octet(), .open_stateid = state});
    } else {
      encoder_->U32(kind % 80);  // including numbers that do not exist
      encoder_->Fixed(input.Take(input.Octet()));
    }
  }

  void AddOpen(Input& input) {
    static constexpr std::array<std::string_view, 4> kNames = {"a", "b", "c", ""};
    const uint8_t how = input.Octet();
    OPEN4args arguments{};
    arguments.seqid = how;
    arguments.share_access = how % 5;
    arguments.share_deny = how / 5 % 5;
    const ConstBytes owner = AsBytes(kNames[how / 25 % 4]);
    arguments.owner = {.clientid = ids_[client_], .owner = {owner}};
    if ((how & 1) != 0) arguments.openhow = openflag4(OPEN4_CREATE, createhow4(UNCHECKED4, fattr4{}));
    const uint8_t claim = input.Octet();
    arguments.claim = claim < 192 ? open_claim4(CLAIM_NULL, component4(kNames[claim % 4]))
                                  : open_claim4(CLAIM_PREVIOUS, OPEN_DELEGATE_NONE);
    Add(OP_OPEN, arguments);
  }

  void AddLock(Input& input, const stateid4& state) {
    const uint8_t how = input.Octet();
    LOCK4args arguments{};
    arguments.locktype = how % 2 == 0 ? READ_LT : WRITE_LT;
    arguments.reclaim = how >= 192;
    arguments.offset = input.Octet();
    arguments.length = input.Octet();
    if (how % 3 == 0) {
      arguments.locker = locker4(true, open_to_lock_owner4{.open_seqid = 0,
                                                           .open_stateid = state,
                                                           .lock_seqid = 0,
                                                           .lock_owner = {.clientid = ids_[client_], .owner = {}}});
    } else {
      arguments.locker = locker4(false, exist_lock_owner4{.lock_stateid = state, .lock_seqid = how});
    }
    Add(OP_LOCK, arguments);
  }

  COMPOUND4res Run() {
    auto results = Send(encoder_->Finish(), peer_);
    if (!results) Die("no reply");
    return *std::move(results);
  }

  // Objects for later operations. A few are enough, and keep the input's octets meaningful.
  void Remember(const nfs_resop4& result) {
    if (result.resop() == OP_GETFH && result.opgetfh().status() == NFS4_OK && handles_.size() < kMost) {
      handles_.push_back(result.opgetfh().resok4().object);
    }
    if (result.resop() == OP_OPEN && result.opopen().status() == NFS4_OK) Keep(result.opopen().resok4().stateid);
    if (result.resop() == OP_LOCK && result.oplock().status() == NFS4_OK) Keep(result.oplock().resok4().lock_stateid);
  }
  void Keep(const stateid4& state) {
    if (states_.size() < kMost) states_.push_back(state);
  }

  const nfs::TestInitiator machine_{"nfs/client.example.org@EXAMPLE.ORG"}, user_{"alice@EXAMPLE.ORG", 1000};
  rpc::Peer peer_;
  // One for each client.
  size_t client_ = 0;  // the client of the next COMPOUND
  std::array<verifier4, kClients> verifiers_{};
  std::array<uint64_t, kClients> ids_{};
  std::array<SessionId, kClients> sessions_{};
  std::array<uint32_t, kClients> sequences_{};
  uint32_t create_sequence_ = 0;
  std::vector<nfs_fh4> handles_;
  std::vector<stateid4> states_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Server server;
  for (size_t client = 0; client < kClients; ++client) server.SetUp(client);
  while (!input.empty()) server.Execute(input);
  return 0;
}
