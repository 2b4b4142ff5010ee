// Sends sequences of COMPOUNDs of the sessions of 2004 to an NFSv4 server over a file system in memory: three clients
// and six connections, which are bound, lost and bound again; requests with good and wrong numbers, in chains and
// alone; and retries over any connection. The network holds up requests and retries on the connections over which they
// were sent. Time passes, and the server restarts with the sessions that it has stored.
//
// Each COMPOUND must get a reply that decodes as the results of its operations, and the tables must be consistent after
// it. The clients retry only the last request of a streamid, and use a streamid again only after they have had the
// answer to its last request. Then no request that makes something may be executed twice: each copy of it gets the same
// reply, or an error of OPERATION_CONTROL.
//
// Input: a sequence of steps. Each begins with an octet for its kind, and takes further octets as it needs them.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fs/memory/file_system.h"
#include "input.h"
#include "nfs/exports.h"
#include "nfs/v4/attributes/owner_names.h"
#include "nfs/v4/engine/compound_head.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/engine/program.h"
#include "nfs/v4/operations/lease.h"
#include "nfs/v4/state/stable/recovery_queue.h"
#include "nfs/v4/state/stable/reply_writer.h"
#include "nfs/v4/state/state.h"
#include "protocol/nfs4_compound.h"
#include "protocol/nfs4_sess01.h"
#include "rpc/dispatch.h"
#include "sess01_connection.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace {

using namespace penstock;           // NOLINT: a program of its own
using namespace penstock::nfs4;     // NOLINT: the protocol's own names
using namespace penstock::nfs::v4;  // NOLINT
using fuzz::Clock;
using fuzz::Connection;
using fuzz::Input;
using fuzz::Sent;
using fuzz::SilentCallbacks;

constexpr size_t kConnections = 6;
constexpr std::array<std::string_view, 3> kOwners = {"one", "two", "three"};

[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

class Server {
 public:
  Server() {
    auto tree = std::make_shared<fs::memory::FileSystem>(fs::memory::Options{
        .capacity = 1 << 20, .root_mode = 0777, .clock = [this] { return fs::Timestamp{++ticks_, 0}; }});
    if (!exports_.Add("/", tree,
                      {.squash = nfs::Squash::kNone, .security = nfs::SecurityFlavors{nfs::SecurityFlavor::kNone}}))
      Die("no export");
    auto names = Namespace::Make(exports_, {1000, 0});
    if (!names) Die("no namespace");
    names_ = *std::move(names);
    auto store = std::make_unique<MemoryRecoveryStore>();
    store_ = store.get();
    recovery_.emplace(std::move(store));
    Start();
    states_.resize(1);
  }

  void Step(Input& input) {
    const uint8_t kind = input.Octet();
    if (kind < 16) {
      Create(input);
    } else if (kind < 48) {
      Bind(input);
    } else if (kind < 56) {
      connections_[input.Octet() % kConnections].reset();
    } else if (kind < 64) {
      Pass(input.Octet());
    } else if (kind < 88) {
      Retry(input);
    } else if (kind < 96) {
      Deliver(Over(input.Octet()));
    } else if (kind < 100) {
      Start();
    } else {
      Request(input);
    }
    Spawn(KeepLeases(MakeServices(), nullptr));
    if (const char* wrong = run_->state.Run([&](StateTables& state) { return state.FindInconsistency(); })) Die(wrong);
  }

 private:
  static constexpr size_t kMost = 16;

  struct Session {
    uint64_t id = 0;
    bool keeps = false;  // asked for exactly-once semantics
  };
  // One run of the server.
  struct Running {
    Running(const Settings& settings, const RecoveryStore::Restart& restart, std::vector<SavedSession> dead,
            std::vector<SavedBoundSession> bound, TimePoint now)
        : state({.settings = settings,
                 .instance = restart.instance,
                 .secret = SipKey{1, 2},
                 .limits = {.lease = settings.lease},
                 .grace = Grace(restart, settings.grace, now),
                 .dead_sessions = DeadSessions(std::move(dead), settings.lease, now),
                 .bound_sessions = std::move(bound),
                 .bound_dialect = &DialectOfBoundSessions(),
                 .now = now}) {}
    State state;
    std::optional<Program> program;
    rpc::Dispatcher dispatcher;
  };

  // The first start, or one after kill -9: all connections are gone.
  void Start() {
    for (auto& connection : connections_) connection.reset();
    const auto restart = store_->Begin(settings_.lease, std::chrono::sys_seconds(std::chrono::seconds(1000)));
    run_ = std::make_unique<Running>(settings_, *restart, reply_store_.Load(), stream_store_.Load(), clock_.now);
    run_->state.SendBy(callbacks_);
    run_->program.emplace(MakeServices());
    run_->dispatcher.Add(*run_->program);
  }

  Services MakeServices() {
    return {.names = *names_,
            .settings = settings_,
            .owners = owners_,
            .state = run_->state,
            .callbacks = callbacks_,
            .recovery = *recovery_,
            .clock = clock_,
            .replies = &replies_};
  }

  void Pass(uint8_t what) {
    clock_.now += what < 200 ? Duration(std::chrono::seconds(what / 16)) : settings_.lease + std::chrono::seconds(1);
  }

  Connection& Over(uint8_t which) {
    auto& connection = connections_[which % kConnections];
    if (!connection || !connection->connected()) {
      connection = std::make_unique<Connection>(buffers_, (which & 0x40) != 0);
    }
    return *connection;
  }

  // ---- sessions

  void Create(Input& input) {
    Connection& connection = Over(input.Octet());
    const uint8_t how = input.Octet();
    SESSIONCREATE4args arguments{.clientid = {}, .persist = how % 4 != 0, .totalrequests = how / 4u % 8};
    const size_t client = how / 32 % kOwners.size();
    arguments.clientid.id = AsBytes(kOwners[client]);
    arguments.clientid.verifier[0] = std::byte(input.Octet() % 4);
    Begin(1);
    Add(OP_SESSION_CREATE, arguments);
    const COMPOUND4res results = Run(connection);
    if (results.resarray.empty()) return;
    const SESSIONCREATE4res& made = results.resarray[0].opsession_create();
    if (!made.is_resok4()) return;
    const uint64_t id = made.resok4().sessionid;
    const auto known = std::ranges::find(sessions_, id, &Session::id);
    if (known == sessions_.end()) {
      if (sessions_.size() == 4 * kMost) return;
      sessions_.push_back({.id = id, .keeps = arguments.persist});
    }
  }

  void Bind(Input& input) {
    Connection& connection = Over(input.Octet());
    if (sessions_.empty()) return;
    const uint8_t how = input.Octet();
    // The latest ones are the ones that live.
    const size_t session = sessions_.size() - 1 - how % std::min<size_t>(sessions_.size(), 4);
    const bool is_rdma = connection.peer.transport == rpc::TransportKind::kRdma;
    const uint8_t sizes = input.Octet();
    constexpr std::array<uint32_t, 6> kSizes = {0, 4096, 2048, 2047, 1 << 20, UINT32_MAX};
    const SESSIONBIND4args arguments{.sessionid = sessions_[session].id ^ (how == 255 ? 1 : 0),
                                     .channel = how / 4 % 4 == 0 ? BACK : OPERATION,
                                     .mode = is_rdma || how / 16 % 4 == 0 ? RDMA : STREAM,
                                     .maxrequestsize = kSizes[sizes % kSizes.size()],
                                     .maxresponsesize = kSizes[sizes / 6 % kSizes.size()],
                                     .headerpadsize = how,
                                     .maxrequests = sizes,
                                     .maxrdmareads = sizes,
                                     .transportattrs = {}};
    Begin(2);
    Add(OP_SESSION_BIND, arguments);
    AddNumber(OP_PUTROOTFH);
    const COMPOUND4res results = Run(connection);
    if (results.resarray.empty()) return;
    const SESSIONBIND4res& bound = results.resarray[0].opsession_bind();
    if (!bound.is_resok4()) return;
    if (connection.session != SIZE_MAX && connection.session != session) Die("a connection with two sessions");
    connection.session = session;
    last_channel_ = bound.resok4().channelid;
    if (last_channel_ == 0) Die("channelid 0");
    if (arguments.channel == OPERATION) connection.channel = last_channel_;
  }

  // ---- requests

  void Request(Input& input) {
    Connection& connection = Over(input.Octet());
    const uint8_t network = input.Octet();
    connection.room = network % 16 != 15 ? SIZE_MAX : 600;
    const uint8_t how = input.Octet();
    const uint32_t count = how % 5;
    const uint32_t channel = how < 200 ? connection.channel : last_channel_ + 2 - how % 8;
    const uint8_t numbers = input.Octet();
    const uint32_t stream = numbers % 9;
    const size_t session = connection.session;
    const bool keeps = session != SIZE_MAX && sessions_[session].keeps;
    const bool is_proper = keeps && channel == connection.channel && stream < settings_.max_streams;
    // The client waits for the answer to the last request of the streamid.
    if (const auto last = Last(session, stream); is_proper && last && !last->over) return Repeat(connection, last);
    Begin(2 + 2 * count);
    Add(OP_OPERATION_CONTROL,
        OPERATIONCONTROL4args{
            .channelid = channel, .streamid = stream, .chainflags = static_cast<ChainFlags>(numbers / 16 % 4)});
    AddNumber(numbers < 224 ? OP_PUTROOTFH : OP_GETFH);  // GETFH needs the filehandle of a chain
    for (uint32_t i = 0; i < count; ++i) AddOne(input);
    // From now on the client does not retry the request before.
    std::erase_if(sent_, [&](const auto& each) { return each->session == session && each->stream == stream; });
    auto sent = std::make_shared<Sent>(Sent{.session = session, .stream = stream, .call = encoder_->Finish()});
    if (is_proper) sent_.push_back(sent);
    if (is_proper && network >= 224) {
      connection.held.push_back(std::move(sent));
    } else {
      Repeat(connection, sent);
    }
  }

  void Retry(Input& input) {
    Connection& connection = Over(input.Octet());
    const uint8_t which = input.Octet();
    if (sent_.empty()) return;
    const auto sent = sent_[which % sent_.size()];
    if (which >= 192 && connection.held.size() < kMost) {
      connection.held.push_back(sent);
    } else {
      Repeat(connection, sent);
    }
  }

  std::shared_ptr<Sent> Last(size_t session, uint32_t stream) const {
    const auto found = std::ranges::find_if(
        sent_, [&](const auto& each) { return each->session == session && each->stream == stream; });
    return found == sent_.end() ? nullptr : *found;
  }

  // Sends a copy of a request, behind what the network still holds.
  void Repeat(Connection& connection, const std::shared_ptr<Sent>& sent) {
    Deliver(connection);
    Arrive(connection, *sent);
  }
  void Deliver(Connection& connection) {
    while (!connection.held.empty()) {
      const auto sent = std::move(connection.held.front());
      connection.held.pop_front();
      Arrive(connection, *sent);
    }
  }

  // A copy of a request arrives. If the connection is lost meanwhile, nothing does.
  void Arrive(Connection& connection, Sent& sent) {
    if (!connection.connected()) return;
    const COMPOUND4res results = Send(connection, sent.call);
    for (const nfs_resop4& result : results.resarray) Remember(result);
    if (IsEnded(results)) Forget(connection.session);
    // The numbers of another session mean something else.
    if (connection.session != sent.session) return;
    sent.over = true;
    if (!IsOpened(results)) return;
    const auto octets = reply_.stream.bytes();
    if (sent.reply && !std::ranges::equal(octets, *sent.reply)) Die("a change was executed twice");
    const bool made = std::ranges::any_of(results.resarray, [](const nfs_resop4& result) {
      return result.resop() == OP_CREATE && result.opcreate().status() == NFS4_OK;
    });
    if (made) sent.reply.emplace(octets.begin(), octets.end());
  }

  static bool IsOpened(const COMPOUND4res& results) {
    return !results.resarray.empty() && results.resarray[0].resop() == OP_OPERATION_CONTROL &&
           results.resarray[0].opoperation_control().status() == NFS4_OK;
  }
  static bool IsEnded(const COMPOUND4res& results) {
    return !results.resarray.empty() && results.resarray.back().resop() == OP_SESSION_DESTROY &&
           results.status == NFS4_OK;
  }
  void Forget(size_t session) {
    std::erase_if(sent_, [&](const auto& each) { return each->session == session; });
  }

  void AddOne(Input& input) {
    const uint8_t kind = input.Octet();
    const stateid4& state = states_[input.Octet() % states_.size()];
    AddNumber(OP_PUTROOTFH);
    if (kind < 80) {
      const std::string name = "made" + std::to_string(++made_);
      Add(OP_CREATE, CREATE4args{.objtype = createtype4(NF4DIR), .objname = name, .createattrs = {}});
    } else if (kind < 120) {
      AddOpen(input);
    } else if (kind < 136) {
      Add(OP_CLOSE, CLOSE4args{.seqid = kind, .open_stateid = state});
    } else if (kind < 152) {
      Add(OP_READ, READ4args{.stateid = state, .offset = 0, .count = kind});
    } else if (kind < 156) {
      AddNumber(OP_SESSION_DESTROY);
    } else if (kind < 164) {
      AddNumber(OP_SAVEFH);
    } else if (kind < 172) {
      AddNumber(OP_RESTOREFH);
    } else {
      constexpr std::array<uint32_t, 8> kNumbers = {200401, 200402, 200403, 200404, 200405, 200406, 53, 9};
      encoder_->U32(kind < 200 ? kNumbers[kind % kNumbers.size()] : kind % 80);
      encoder_->Fixed(input.Take(size_t{4} * (input.Octet() % 16)));
    }
  }

  void AddOpen(Input& input) {
    static constexpr std::array<std::string_view, 3> kNames = {"a", "b", "c"};
    const uint8_t how = input.Octet();
    OPEN4args arguments{};
    arguments.share_access = 1 + how % 3;
    arguments.owner = {.clientid = 0, .owner = {AsBytes(kNames[how / 3 % 3])}};
    arguments.openhow = openflag4(OPEN4_CREATE, createhow4(UNCHECKED4, fattr4{}));
    arguments.claim = how < 224 ? open_claim4(CLAIM_NULL, component4(kNames[how / 9 % 3]))
                                : open_claim4(CLAIM_PREVIOUS, OPEN_DELEGATE_NONE);
    Add(OP_OPEN, arguments);
  }

  void Begin(uint32_t count) {
    encoder_.emplace(buffers_);
    rpc::EncodeCallHeader(*encoder_, {rpc::Xid(++xid_), NFS4_PROGRAM, NFS_V4, NFSPROC4_COMPOUND::kNumber, {}, {}});
    xdr::Encode(*encoder_, COMPOUND4args_head{.tag = {}, .minorversion = 1, .count = count});
  }
  template <class Arguments>
  void Add(nfs_opnum4 number, const Arguments& arguments) {
    AddNumber(number);
    xdr::Encode(*encoder_, arguments);
  }
  void AddNumber(nfs_opnum4 number) { encoder_->U32(static_cast<uint32_t>(number)); }

  Task<> Call(rpc::Message call, const rpc::Peer& peer, std::optional<rpc::Message>& reply) {
    reply.emplace(co_await run_->dispatcher.HandleCall(std::move(call), peer));
  }

  // Sends what is encoded, behind what the network still holds.
  COMPOUND4res Run(Connection& connection) {
    const rpc::Message call = encoder_->Finish();
    Deliver(connection);
    return Send(connection, call);
  }

  // The results view reply_.
  COMPOUND4res Send(Connection& connection, const rpc::Message& call) {
    std::optional<rpc::Message> reply;
    Spawn(Call(call, connection.peer, reply));
    if (!reply) Die("a COMPOUND did not come to an end");
    reply_ = *std::move(reply);
    if (reply_.empty()) return {};
    xdr::Decoder decoder(reply_);
    rpc::ReplyHeader header;
    if (!rpc::DecodeReplyHeader(decoder, header) || !header.body.is_areply()) Die("no reply");
    if (header.body.areply().reply_data.discriminant() != rpc::AcceptStatus::SUCCESS) return {};  // GARBAGE_ARGS
    COMPOUND4res results{};
    if (!xdr::Decode(decoder, results) || !decoder.Finish()) Die("undecodable results");
    return results;
  }

  void Remember(const nfs_resop4& result) {
    if (result.resop() != OP_OPEN || result.opopen().status() != NFS4_OK || states_.size() == kMost) return;
    states_.push_back(result.opopen().resok4().stateid);
  }

  BufferPool buffers_;
  int64_t ticks_ = 0;
  nfs::Exports exports_;
  std::unique_ptr<const Namespace> names_;
  const Settings settings_{
      .max_read = 4096, .max_write = 4096, .max_unconfirmed_clients = 3, .bound_sessions = true, .max_streams = 6};
  OwnerNames owners_;
  SilentCallbacks callbacks_;
  MemoryRecoveryStore* store_ = nullptr;  // owned by recovery_
  std::optional<RecoveryQueue> recovery_;
  MemoryReplyStore reply_store_;
  MemoryStreamStore stream_store_;
  ReplyWriter replies_{reply_store_, stream_store_};
  Clock clock_;
  std::unique_ptr<Running> run_;
  std::array<std::unique_ptr<Connection>, kConnections> connections_;
  uint32_t xid_ = 0;
  uint32_t made_ = 0;
  uint32_t last_channel_ = 0;
  std::vector<Session> sessions_;
  std::vector<std::shared_ptr<Sent>> sent_;  // the last request of each streamid
  std::vector<stateid4> states_;
  std::optional<xdr::Encoder> encoder_;
  rpc::Message reply_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Server server;
  while (!input.empty()) server.Step(input);
  return 0;
}
