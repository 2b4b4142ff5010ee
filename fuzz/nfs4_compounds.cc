// Sequences of COMPOUNDs on a live NFSv4 server over a file system in memory: some operations with arguments as they come,
// some built around handles and stateids that the server has given, so that its state is reached. Each reply must be one,
// and decode as the results of the operations that were sent.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "fs/memory/file_system.h"
#include "input.h"
#include "nfs/exports.h"
#include "nfs/v4/attributes/owner_names.h"
#include "nfs/v4/callbacks.h"
#include "nfs/v4/namespace.h"
#include "nfs/v4/program.h"
#include "nfs/v4/state/recovery_queue.h"
#include "nfs/v4/state/state.h"
#include "protocol/nfs4_compound.h"
#include "rpc/dispatch.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace {

using namespace penstock;           // NOLINT: a program of its own
using namespace penstock::nfs4;     // NOLINT: the protocol's own names
using namespace penstock::nfs::v4;  // NOLINT
using fuzz::Input;

[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// Time that passes between COMPOUNDs.
class Clock : public TimerService {
 public:
  TimePoint Now() const override { return now; }
  std::unique_ptr<Timer> MakeTimer(std::function<void()>) override { return nullptr; }
  TimePoint now{};
};

// Clients that are never heard of when they are called.
class SilentCallbacks : public Callbacks {
 public:
  void Recall(ClientId, const stateid4&, const nfs::FileHandle&, bool) override {}
  Task<HolderAttributes> GetAttributes(Loop*, ClientId, const nfs::FileHandle&) override {
    co_return HolderAttributes{};
  }
  void NotifyLock(ClientId, const nfs::FileHandle&, ConstBytes) override {}
  void OffloadDone(ClientId, const nfs::FileHandle&, const stateid4&, const offload_info4&) override {}
};

class Server {
 public:
  Server() {
    auto tree = std::make_shared<fs::memory::FileSystem>(fs::memory::Options{
        .capacity = 1 << 20, .root_mode = 0777, .clock = [this] { return fs::Timestamp{++ticks_, 0}; }});
    if (!exports_.Add("/", tree, {.squash = nfs::Squash::kNone})) Die("no export");
    auto names = Namespace::Make(exports_, {1000, 0});
    if (!names) Die("no namespace");
    names_ = *std::move(names);
    program_.emplace(Services{.names = *names_,
                              .settings = settings_,
                              .owners = owners_,
                              .state = state_,
                              .callbacks = callbacks_,
                              .recovery = recovery_,
                              .clock = clock_});
    dispatcher_.Add(*program_);
    handles_.push_back(nfs_fh4(nfs::EncodedHandle(exports_.all()[0]->root()).bytes()));
    states_.resize(1);
    peer_.buffers = &buffers_;
    peer_.connection = 1;
  }

  void SetUp() {
    const EXCHANGE_ID4args who{.eia_clientowner = {.co_verifier = {}, .co_ownerid = {AsBytes("client")}},
                               .eia_flags = 0,
                               .eia_state_protect = state_protect4_a(SP4_NONE),
                               .eia_client_impl_id = {}};
    Begin(2, 1);
    Add(OP_EXCHANGE_ID, who);
    const auto known = Run();
    const auto& exchanged = known.resarray.at(0).opexchange_id().eir_resok4();
    const channel_attrs4 channel{.ca_headerpadsize = 0,
                                 .ca_maxrequestsize = 1 << 16,
                                 .ca_maxresponsesize = 1 << 16,
                                 .ca_maxresponsesize_cached = 4096,
                                 .ca_maxoperations = 32,
                                 .ca_maxrequests = 4,
                                 .ca_rdma_ird = {}};
    Begin(2, 1);
    Add(OP_CREATE_SESSION, CREATE_SESSION4args{.csa_clientid = exchanged.eir_clientid,
                                               .csa_sequence = exchanged.eir_sequenceid,
                                               .csa_flags = 0,
                                               .csa_fore_chan_attrs = channel,
                                               .csa_back_chan_attrs = channel,
                                               .csa_cb_program = 0x40000000,
                                               .csa_sec_parms = {}});
    session_ = Run().resarray.at(0).opcreate_session().csr_resok4().csr_sessionid;
    client_ = exchanged.eir_clientid;
  }

  void Execute(Input& input) {
    const uint8_t how = input.Octet();
    const uint32_t minor_version = how % 3;
    const uint32_t count = 1 + how / 3 % 6;
    clock_.now += std::chrono::seconds(how / 18);
    const bool in_session = minor_version > 0;
    Begin(minor_version, (in_session ? 1 : 0) + 2 * count);
    if (in_session) {
      Add(OP_SEQUENCE, SEQUENCE4args{.sa_sessionid = session_,
                                     .sa_sequenceid = ++sequence_,
                                     .sa_slotid = 0,
                                     .sa_highest_slotid = 0,
                                     .sa_cachethis = (how & 0x80) != 0});
    }
    for (uint32_t i = 0; i < count; ++i) {
      Add(OP_PUTFH, PUTFH4args{handles_[input.Octet() % handles_.size()]});
      AddOne(input);
    }
    const COMPOUND4res results = Run();
    if (const char* wrong = state_.Lock()->FindInconsistency()) Die(wrong);
    if (in_session && !results.resarray.empty() && results.resarray[0].opsequence().sr_status() != NFS4_OK) {
      sequence_ = 0;
      SetUp();
    }
    for (const nfs_resop4& result : results.resarray) Remember(result);
  }

 private:
  static constexpr size_t kMost = 16;

  void AddOne(Input& input) {
    const uint8_t kind = input.Octet();
    const stateid4& state = states_[input.Octet() % states_.size()];
    if (kind < 32) return AddOpen(input);
    if (kind < 48) return AddLock(input, state);
    // A stateid that there is, and the rest as it comes.
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
      encoder_->U32(kind % 80);  // some that there are not
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
    arguments.owner = {.clientid = client_, .owner = {owner}};
    if ((how & 1) != 0) arguments.openhow = openflag4(OPEN4_CREATE, createhow4(UNCHECKED4, fattr4{}));
    arguments.claim = open_claim4(CLAIM_NULL, component4(kNames[input.Octet() % 4]));
    Add(OP_OPEN, arguments);
  }

  void AddLock(Input& input, const stateid4& state) {
    const uint8_t how = input.Octet();
    LOCK4args arguments{};
    arguments.locktype = how % 2 == 0 ? READ_LT : WRITE_LT;
    arguments.offset = input.Octet();
    arguments.length = input.Octet();
    if (how % 3 == 0) {
      arguments.locker = locker4(true, open_to_lock_owner4{.open_seqid = 0,
                                                           .open_stateid = state,
                                                           .lock_seqid = 0,
                                                           .lock_owner = {.clientid = client_, .owner = {}}});
    } else {
      arguments.locker = locker4(false, exist_lock_owner4{.lock_stateid = state, .lock_seqid = how});
    }
    Add(OP_LOCK, arguments);
  }

  void Begin(uint32_t minor_version, uint32_t count) {
    encoder_.emplace(buffers_);
    rpc::EncodeCallHeader(*encoder_, {rpc::Xid(++xid_), NFS4_PROGRAM, NFS_V4, NFSPROC4_COMPOUND::kNumber, {}, {}});
    xdr::Encode(*encoder_, COMPOUND4args_head{.tag = {}, .minorversion = minor_version, .count = count});
  }
  template <class Arguments>
  void Add(nfs_opnum4 number, const Arguments& arguments) {
    encoder_->U32(static_cast<uint32_t>(number));
    xdr::Encode(*encoder_, arguments);
  }

  Task<> Call(rpc::Message call, std::optional<rpc::Message>& reply) {
    reply.emplace(co_await dispatcher_.HandleCall(std::move(call), peer_));
  }

  // The results view reply_.
  COMPOUND4res Run() {
    std::optional<rpc::Message> reply;
    Spawn(Call(encoder_->Finish(), reply));
    if (!reply) Die("a COMPOUND did not come to an end");
    reply_ = *std::move(reply);
    xdr::Decoder decoder(reply_);
    rpc::ReplyHeader header;
    if (!rpc::DecodeReplyHeader(decoder, header) || !header.body.is_areply()) Die("no reply");
    if (header.body.areply().reply_data.discriminant() != rpc::AcceptStatus::SUCCESS) return {};  // GARBAGE_ARGS
    COMPOUND4res results{};
    if (!xdr::Decode(decoder, results) || !decoder.Finish()) Die("undecodable results");
    return results;
  }

  // What later operations may name. A few are enough, and keep the input's octets meaningful.
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

  BufferPool buffers_;
  int64_t ticks_ = 0;
  nfs::Exports exports_;
  std::unique_ptr<const Namespace> names_;
  const Settings settings_{.max_read = 4096, .max_write = 4096};
  OwnerNames owners_;
  SilentCallbacks callbacks_;
  RecoveryQueue recovery_{std::make_unique<MemoryRecoveryStore>()};
  Clock clock_;
  State state_{StateTables{Clients(settings_, 7), Files(7, Files::Limits{.lease = settings_.lease})}};
  std::optional<Program> program_;
  rpc::Dispatcher dispatcher_;
  rpc::Peer peer_;
  uint32_t xid_ = 0;
  uint32_t sequence_ = 0;
  SessionId session_{};
  uint64_t client_ = 0;
  std::vector<nfs_fh4> handles_;
  std::vector<stateid4> states_;
  std::optional<xdr::Encoder> encoder_;
  rpc::Message reply_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Server server;
  server.SetUp();
  while (!input.empty()) server.Execute(input);
  return 0;
}
