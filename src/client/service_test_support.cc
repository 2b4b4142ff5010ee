#include "client/service_test_support.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <list>
#include <optional>

#include "base/siphash.h"
#include "base/test_loop.h"
#include "fs/memory/file_system.h"
#include "idmap/mapper.h"
#include "nfs/absent_file_system.h"
#include "nfs/acl/program.h"
#include "nfs/exports.h"
#include "nfs/locations.h"
#include "nfs/mount/program.h"
#include "nfs/nlm/local_monitor.h"
#include "nfs/nlm/lock_manager.h"
#include "nfs/nlm/program.h"
#include "nfs/v3/program.h"
#include "nfs/v4/callback/callback_sender.h"
#include "nfs/v4/callback/test_callbacks.h"
#include "nfs/v4/engine/namespace.h"
#include "nfs/v4/engine/program.h"
#include "nfs/v4/operations/host_locks.h"
#include "nfs/v4/operations/lease.h"
#include "nfs/v4/state/clients/lock_hosts.h"
#include "nfs/v4/state/stable/recovery_queue.h"
#include "nfs/v4/state/state.h"
#include "protocol/nfs4.h"
#include "rdma/iwarp/provider.h"
#include "rpc/dispatch.h"
#include "rpc/tcp/server.h"
#include "rpc/universal_address.h"
#include "rpcrdma/server.h"
#include "xdr/decode.h"

namespace penstock::client {
namespace {

using nfs4::nfs_opnum4;
using nfs4::nfsstat4;

// The store of all runs of a server, for one run.
class SharedStore final : public nfs::v4::RecoveryStore {
 public:
  explicit SharedStore(nfs::v4::RecoveryStore& store) : store_(store) {}
  SetupResult<Restart> Begin(Duration lease, std::chrono::sys_seconds now) override { return store_.Begin(lease, now); }
  bool Record(const nfs::v4::RecoveryRecord& client) override { return store_.Record(client); }
  bool Remove(const std::string& owner) override { return store_.Remove(owner); }
  bool EndGrace() override { return store_.EndGrace(); }

 private:
  nfs::v4::RecoveryStore& store_;
};

// No host answers the lock manager.
class NoHosts final : public nfs::nlm::HostCalls {
 public:
  Task<Outcome> Call(nfs::nlm::HostCall, std::function<void(xdr::Encoder&)>,
                     std::function<bool(xdr::Decoder&)>) override {
    co_return Outcome::kNotReached;
  }
};

// One run of version 4, from a start of the server to the next.
class Nfs4Run {
 public:
  Nfs4Run(Loop& loop, const nfs::Exports& exports, nfs::v4::RecoveryStore& store, const TestService::Options& options)
      : loop_(loop),
        names_(MakeNames(exports)),
        settings_{.lease = options.lease,
                  .grace = options.lease,
                  .server_owner = options.identity,
                  .server_scope = options.identity,
                  .max_read = options.max_transfer,
                  .max_write = options.max_transfer,
                  .delegations = options.delegations > 0,
                  .max_delegations = options.delegations},
        owners_(options.owners),
        gss_(options.gss),
        recovery_(std::make_unique<SharedStore>(store)),
        state_(BeginTables(store)),
        lock_manager_(exports, host_locks_, no_hosts_, local_monitor_, &loop, loop),
        timer_(loop.MakeTimer([this] { KeepLeases(); })) {
    state_.SendBy(callbacks_);
    timer_->ExpireAfter(kLeaseInterval);
  }

  rpc::Program& program() { return program_; }
  rpc::Program& lock_manager() { return lock_program_; }
  void Stop() {
    timer_->Cancel();
    sender_.Stop();
    Spawn(local_monitor_.Stop());
    Spawn(lock_manager_.Stop());
  }
  // As the server does, which waits for calls under way before it revokes state.
  void HandleNewExports(const nfs::Exports& exports) {
    names_.Set(MakeNames(exports));
    const auto is_referral = [table = exports.Get()](nfs::ExportId id) {
      const nfs::Export* const at = table->Find(id);
      return at && at->is_referral();
    };
    state_.Run([&](nfs::v4::StateTables& state) { state.files.HandleNewExports(is_referral, loop_.Now()); });
    RevokeState([&](const nfs::FileHandle& handle) { return is_referral(handle.export_id); });
  }
  void RevokeState(const std::function<bool(const nfs::FileHandle&)>& is_gone) {
    state_.Run([&](nfs::v4::StateTables& state) { state.files.RevokeState(is_gone, loop_.Now()); });
  }
  size_t delegations() {
    return state_.Run([](nfs::v4::StateTables& state) { return state.files.delegations.count(); });
  }

 private:
  static constexpr Duration kLeaseInterval = std::chrono::milliseconds(50);

  static std::shared_ptr<const nfs::v4::Namespace> MakeNames(const nfs::Exports& exports) {
    return *nfs::v4::Namespace::Make(exports, {1000, 0});
  }
  nfs::v4::StateTables::Beginning BeginTables(nfs::v4::RecoveryStore& store) {
    auto restart = store.Begin(settings_.lease, std::chrono::sys_seconds(std::chrono::seconds(1000)));
    EXPECT_TRUE(restart);
    // As the server does: a host may reclaim whichever address of the server it uses.
    for (nfs::v4::RecoveryRecord& client : restart->clients) {
      if (nfs::v4::ParseLockHostRecord(client)) client.principal = {};
    }
    return {.settings = settings_,
            .instance = restart->instance,
            .secret = SipKey{1, 2},
            .limits = {.delegations = settings_.max_delegations, .lease = settings_.lease},
            .grace = nfs::v4::Grace(*restart, settings_.grace, loop_.Now())};
  }
  void KeepLeases() {
    Spawn(nfs::v4::KeepLeases(services_, &loop_));
    timer_->ExpireAfter(kLeaseInterval);
  }

  Loop& loop_;
  Published<nfs::v4::Namespace> names_;
  const nfs::v4::Settings settings_;
  const idmap::Mapper owners_;
  rpc::SecurityFlavor* const gss_;
  nfs::v4::RecoveryQueue recovery_;
  nfs::v4::State state_;
  nfs::v4::NoCallbacks no_callbacks_;
  nfs::v4::CallbackSender sender_{
      state_,
      &loop_,
      loop_,
      loop_.buffers(),
      [](const nfs::v4::CallbackAddress&) -> Task<std::shared_ptr<rpc::Channel>> { co_return nullptr; },
      {.patience = settings_.lease}};
  nfs::v4::Callbacks& callbacks_ = settings_.delegations ? static_cast<nfs::v4::Callbacks&>(sender_) : no_callbacks_;
  const nfs::v4::Services services_{.names = names_,
                                    .settings = settings_,
                                    .owners = owners_,
                                    .state = state_,
                                    .callbacks = callbacks_,
                                    .recovery = recovery_,
                                    .clock = loop_,
                                    .gss = gss_};
  nfs::v4::Program program_{services_};
  NoHosts no_hosts_;
  nfs::v4::HostLocks host_locks_{services_};
  nfs::nlm::LocalMonitor local_monitor_{no_hosts_, loop_};
  nfs::nlm::LockManager lock_manager_;
  nfs::nlm::Program lock_program_{lock_manager_, 4};
  std::unique_ptr<Timer> timer_;
};

rpc::CallHeader HeaderOf(const rpc::Message& call) {
  xdr::Decoder decoder(call);
  rpc::CallHeader header;
  EXPECT_EQ(rpc::DecodeCallHeader(decoder, header), rpc::HeaderProblem::kNone);
  return header;
}

// The beginning of a COMPOUND.
struct CompoundStart {
  nfs4::COMPOUND4args_head head{};
  std::optional<nfs4::SEQUENCE4args> sequence{};
  std::vector<nfs_opnum4> operations{};  // see SeenCall
};

CompoundStart StartOf(const rpc::Message& call) {
  CompoundStart start;
  xdr::Decoder decoder(call);
  rpc::CallHeader header;
  EXPECT_EQ(rpc::DecodeCallHeader(decoder, header), rpc::HeaderProblem::kNone);
  EXPECT_TRUE(xdr::Decode(decoder, start.head));
  while (start.operations.size() < start.head.count) {
    nfs_opnum4 operation;
    EXPECT_TRUE(xdr::Decode(decoder, operation));
    start.operations.push_back(operation);
    if (operation == nfs_opnum4::OP_SEQUENCE) {
      EXPECT_TRUE(xdr::Decode(decoder, start.sequence.emplace()));
    } else if (operation == nfs_opnum4::OP_PUTFH) {
      nfs4::PUTFH4args handle;
      EXPECT_TRUE(xdr::Decode(decoder, handle));
    } else if (operation != nfs_opnum4::OP_PUTROOTFH) {
      break;
    }
  }
  return start;
}

SeenCall Look(const rpc::Message& call) {
  const rpc::CallHeader header = HeaderOf(call);
  SeenCall seen{.program = header.program, .version = header.version, .procedure = header.procedure};
  const bool is_secured = header.credential.flavor == rpc::AuthFlavor::RPCSEC_GSS;
  if (!is_secured && CallsOf<nfs4::NFSPROC4_COMPOUND>()(seen)) seen.operations = StartOf(call).operations;
  return seen;
}

// Adds flags to those of a successful SEQUENCE, which are its last word.
void AddFlags(rpc::Message& reply, uint32_t flags) {
  xdr::Decoder decoder(reply);
  rpc::ReplyHeader header;
  nfs4::COMPOUND4res_head head;
  nfs_opnum4 operation;
  nfs4::SEQUENCE4res result;
  const bool decoded = rpc::DecodeReplyHeader(decoder, header) && xdr::Decode(decoder, head) && head.count > 0 &&
                       xdr::Decode(decoder, operation) && xdr::Decode(decoder, result);
  if (!decoded || !result.is_sr_resok4()) return;
  const size_t end = reply.stream.size() - decoder.remaining();
  // Nobody else has the reply yet.
  auto* const word = const_cast<std::byte*>(reply.stream.data()) + end - sizeof(uint32_t);
  StoreBig<uint32_t>(word, result.sr_resok4().sr_status_flags | flags);
}

}  // namespace

CallMatcher CompoundsWith(nfs_opnum4 operation) {
  return [operation](const SeenCall& call) {
    return std::ranges::find(call.operations, operation) != call.operations.end();
  };
}

CallMatcher AllCalls() {
  return [](const SeenCall& call) { return call.program == nfs4::NFSPROC4_COMPOUND::kProgram && call.procedure != 0; };
}

// Reserves a port of the loopback interface: its socket is bound and does not listen. With SO_REUSEADDR on both
// sockets, a listener can be bound as well.
class KeptPort {
 public:
  // Zero: any port.
  explicit KeptPort(uint16_t port = 0) {
    socket_.set_option(asio::ip::tcp::socket::reuse_address(true));
    socket_.bind({asio::ip::address_v4::loopback(), port});
  }
  SocketAddress address() const { return socket_.local_endpoint(); }

 private:
  asio::io_context context_;
  asio::ip::tcp::socket socket_{context_, asio::ip::tcp::v4()};
};

// Stands between the transports and the programs.
class TestService::Server final : public rpc::CallHandler {
 public:
  Server(Loop& loop, Options options) : loop_(loop), options_(std::move(options)) {
    for (const std::string& path : options_.exports) {
      const auto own = options_.sec_of.find(path);
      const std::string& sec = own == options_.sec_of.end() ? options_.sec : own->second;
      EXPECT_TRUE(exports_.Add(path, files_, OptionsWith(sec)));
    }
    Start();
    if (options_.rdma) {
      tcp_port_.emplace();
      rdma_port_.emplace(options_.rdma_port);
      iwarp_.emplace(loop);
      Listen(rpc::TransportKind::kRdma);
    }
    Listen(rpc::TransportKind::kTcp);
  }
  ~Server() override {
    released_ = true;
    release_.Notify();
    for (const auto& run : runs_) {
      if (run->nfs4) run->nfs4->Stop();
    }
    if (rdma_) Stop(rdma_);
    if (tcp_) Stop(tcp_);
  }

  void Listen(rpc::TransportKind transport) {
    if (transport == rpc::TransportKind::kTcp) {
      const SocketAddress any{asio::ip::make_address("127.0.0.1"), options_.port};
      auto listener = rpc::tcp::Listener::Open(tcp_port_ ? tcp_port_->address() : any);
      EXPECT_TRUE(listener);
      port_ = listener->local().port();
      tcp_ = std::make_unique<rpc::tcp::Server>(loop_, *this);
      EXPECT_TRUE(tcp_->Start(*listener));
    } else {
      auto listener = iwarp_->Listen(rdma_port_->address());
      EXPECT_TRUE(listener);
      rpcrdma::ServerOptions rdma_options;
      rdma_options.loop = &loop_;
      rdma_ = std::make_unique<rpcrdma::Server>(loop_, *this, std::move(rdma_options));
      rdma_->Start(*std::move(listener));
    }
  }
  void Refuse(rpc::TransportKind transport) {
    if (transport == rpc::TransportKind::kTcp) {
      Stop(tcp_);
    } else {
      Stop(rdma_);
    }
  }

  // Starts another run. Calls of the previous run finish in that run.
  void Start() {
    if (!runs_.empty() && runs_.back()->nfs4) runs_.back()->nfs4->Stop();
    Run& run = *runs_.emplace_back(std::make_unique<Run>(loop_));
    if (options_.gss) run.dispatcher.Offer(*options_.gss);
    if (options_.nfs3) {
      run.dispatcher.Add(nfs3_);
      run.dispatcher.Add(nfs_acl_);
    }
    if (options_.mount) run.dispatcher.Add(mount_);
    if (!options_.nfs4) return;
    Nfs4Run& nfs4 = run.nfs4.emplace(loop_, exports_, store_, options_);
    run.dispatcher.Add(nfs4.program());
    if (options_.nlm) run.dispatcher.Add(nfs4.lock_manager());
  }

  static nfs::ExportOptions ReferralTo(std::string_view locations) {
    nfs::ExportOptions options;
    options.locations = {.referral = true, .list = *nfs::ParseLocations(locations)};
    return options;
  }
  void AddReferral(const std::string& path, std::string_view locations) {
    EXPECT_TRUE(exports_.Add(path, std::make_shared<nfs::AbsentFileSystem>(), ReferralTo(locations)));
  }
  // Without locations it is an export of the file system.
  void Replace(const std::string& path, std::string_view locations) {
    auto table = std::make_shared<nfs::ExportTable>();
    for (const auto& each : exports_.Get()->all()) {
      if (each->path() != path) table->Keep(each);
    }
    exports_.Replace(std::move(table));
    if (locations.empty()) {
      EXPECT_TRUE(exports_.Add(path, files_, OptionsWith(options_.sec)));
    } else {
      AddReferral(path, locations);
    }
    if (runs_.back()->nfs4) runs_.back()->nfs4->HandleNewExports(exports_);
  }

  Task<rpc::Message> HandleCall(rpc::Message call, const rpc::Peer& peer) override {
    SeenCall seen = Look(call);
    seen.connection = peer.connection;
    seen.transport = peer.transport;
    seen_.push_back(seen);
    for (Interception& each : interceptions_) {
      if (each.times == 0 || !each.matches(seen)) continue;
      if (each.skip > 0) {
        --each.skip;
        continue;
      }
      --each.times;
      return each.handle(std::move(call), peer);
    }
    return Execute(std::move(call), peer);
  }
  Task<rpc::Message> Execute(rpc::Message call, const rpc::Peer& peer) {
    const bool has_flags = status_flags_ != 0 && CompoundsWith(nfs_opnum4::OP_SEQUENCE)(Look(call));
    rpc::Message reply = co_await runs_.back()->dispatcher.HandleCall(std::move(call), peer);
    if (has_flags) AddFlags(reply, status_flags_);
    co_return reply;
  }
  void set_status_flags(uint32_t flags) { status_flags_ = flags; }
  void RevokeState() {
    runs_.back()->nfs4->RevokeState([](const nfs::FileHandle&) { return true; });
  }

  struct Interception {
    CallMatcher matches;
    CallFunction handle;
    size_t times;
    size_t skip;
  };
  void Add(Interception interception) { interceptions_.push_back(std::move(interception)); }

  Task<void> WaitForRelease() {
    while (!released_) co_await release_;
  }
  size_t delegations() { return runs_.back()->nfs4 ? runs_.back()->nfs4->delegations() : 0; }
  BufferPool& buffers() { return loop_.buffers(); }
  uint16_t port() const { return port_; }
  uint16_t rdma_port() const { return rdma_port_->address().port(); }
  fs::faulty::FileSystem& files() { return *files_; }
  const std::vector<SeenCall>& seen() const { return seen_; }

 private:
  // Ends the connections of a server, and destroys it.
  template <class T>
  void Stop(std::unique_ptr<T>& server) {
    bool stopped = false;
    Spawn([](T& each, bool& done) -> Task<void> {
      co_await each.Stop(Duration::zero());
      done = true;
    }(*server, stopped));
    EXPECT_TRUE(TurnUntil(loop_, [&] { return stopped; }));
    TurnFor(loop_, std::chrono::milliseconds(1));
    server.reset();
  }
  nfs::ExportOptions OptionsWith(std::string_view sec) const {
    nfs::ExportOptions options;
    options.squash = nfs::Squash::kNone;
    options.security = *nfs::SecurityFlavors::Parse(sec);
    if (!options_.replicas.empty()) options.locations.list = *nfs::ParseLocations(options_.replicas);
    return options;
  }

  struct Run {
    explicit Run(Loop& loop) : dispatcher(cache, loop) {}
    rpc::ReplyCache cache;
    std::optional<Nfs4Run> nfs4;
    rpc::Dispatcher dispatcher;
  };

  Loop& loop_;
  const Options options_;
  const std::shared_ptr<fs::faulty::FileSystem> files_ =
      std::make_shared<fs::faulty::FileSystem>(std::make_shared<fs::memory::FileSystem>());
  nfs::Exports exports_;
  nfs::v3::Program nfs3_{
      exports_,
      {.max_read = options_.max_transfer, .max_write = options_.max_transfer, .max_directory = options_.max_directory}};
  nfs::acl::Program nfs_acl_{exports_};
  nfs::mount::Program mount_{exports_};
  nfs::v4::MemoryRecoveryStore store_;
  std::vector<std::unique_ptr<Run>> runs_;
  std::list<Interception> interceptions_;
  std::vector<SeenCall> seen_;
  bool released_ = false;
  Signal release_;
  uint32_t status_flags_ = 0;
  uint16_t port_ = 0;
  std::optional<KeptPort> tcp_port_, rdma_port_;
  std::optional<rdma::iwarp::Provider> iwarp_;
  std::unique_ptr<rpc::tcp::Server> tcp_;
  std::unique_ptr<rpcrdma::Server> rdma_;
};

TestService::TestService(Loop& loop, Options options) : server_(std::make_unique<Server>(loop, std::move(options))) {}
TestService::~TestService() = default;

uint16_t TestService::port() const { return server_->port(); }
uint16_t TestService::rdma_port() const { return server_->rdma_port(); }
void TestService::Refuse(rpc::TransportKind transport) { server_->Refuse(transport); }
void TestService::Listen(rpc::TransportKind transport) { server_->Listen(transport); }
fs::faulty::FileSystem& TestService::files() { return server_->files(); }
void TestService::Restart() { server_->Start(); }
void TestService::AddReferral(const std::string& path, std::string_view locations) {
  server_->AddReferral(path, locations);
  server_->Start();
}

void TestService::Move(const std::string& path, std::string_view locations) { server_->Replace(path, locations); }
void TestService::MoveBack(const std::string& path) { server_->Replace(path, {}); }

void TestService::SetStatusFlags(uint32_t flags) { server_->set_status_flags(flags); }
void TestService::RevokeState() { server_->RevokeState(); }

size_t TestService::delegations() const { return server_->delegations(); }

size_t TestService::CountCalls(const CallMatcher& matches) const {
  return static_cast<size_t>(std::ranges::count_if(server_->seen(), matches));
}

std::set<uint64_t> TestService::ConnectionsOf(const CallMatcher& matches, size_t skip) const {
  std::set<uint64_t> connections;
  size_t seen = 0;
  (void)CountCalls([&](const SeenCall& call) {
    if (matches(call) && seen++ >= skip) connections.insert(call.connection);
    return false;
  });
  return connections;
}

void TestService::Intercept(CallMatcher matches, CallFunction handle, size_t times, size_t skip) {
  server_->Add({std::move(matches), std::move(handle), times, skip});
}

void TestService::LoseCall(CallMatcher matches, size_t times, size_t skip) {
  const auto handle = [](rpc::Message, const rpc::Peer&) -> Task<rpc::Message> { co_return rpc::Message(); };
  Intercept(std::move(matches), handle, times, skip);
}

void TestService::LoseReply(CallMatcher matches, size_t times, size_t skip) {
  const auto handle = [this](rpc::Message call, const rpc::Peer& peer) -> Task<rpc::Message> {
    (void)co_await server_->Execute(std::move(call), peer);
    co_return rpc::Message();
  };
  Intercept(std::move(matches), handle, times, skip);
}

void TestService::LoseReplyInRestart(CallMatcher matches) {
  const auto handle = [this](rpc::Message call, const rpc::Peer& peer) -> Task<rpc::Message> {
    (void)co_await server_->Execute(std::move(call), peer);
    Restart();
    co_return rpc::Message();
  };
  Intercept(std::move(matches), handle);
}

void TestService::DelayReply(CallMatcher matches, std::function<Task<void>()> until) {
  const auto handle = [this, until = std::move(until)](rpc::Message call, const rpc::Peer& peer) -> Task<rpc::Message> {
    rpc::Message reply = co_await server_->Execute(std::move(call), peer);
    co_await until();
    co_return reply;
  };
  Intercept(std::move(matches), handle);
}

void TestService::TruncateReply(CallMatcher matches, size_t times) {
  const auto handle = [this](rpc::Message call, const rpc::Peer& peer) -> Task<rpc::Message> {
    rpc::Message reply = co_await server_->Execute(std::move(call), peer);
    EXPECT_GT(reply.stream.size(), rpc::kMaxReplyHeader);
    reply.items.clear();
    reply.stream = reply.stream.Sub(0, reply.stream.size() - 4);
    co_return reply;
  };
  Intercept(std::move(matches), handle, times);
}

void TestService::HoldCall(CallMatcher matches, size_t times) {
  const auto handle = [this](rpc::Message, const rpc::Peer&) -> Task<rpc::Message> {
    co_await server_->WaitForRelease();
    co_return rpc::Message();
  };
  Intercept(std::move(matches), handle, times);
}

void TestService::Reply(CallMatcher matches, std::function<void(xdr::Encoder&, rpc::Xid)> encode, size_t times,
                        size_t skip) {
  const auto handle = [this, encode = std::move(encode)](rpc::Message call, const rpc::Peer&) -> Task<rpc::Message> {
    xdr::Encoder encoder(server_->buffers());
    encode(encoder, HeaderOf(call).xid);
    co_return encoder.Finish();
  };
  Intercept(std::move(matches), handle, times, skip);
}

void TestService::FailOperation(nfs_opnum4 operation, nfsstat4 status, size_t times, size_t skip) {
  const auto handle = [this, operation, status](rpc::Message call, const rpc::Peer& peer) -> Task<rpc::Message> {
    const rpc::CallHeader header = HeaderOf(call);
    const CompoundStart start = StartOf(call);
    const auto failed = std::ranges::find(start.operations, operation);
    EXPECT_NE(failed, start.operations.end());
    xdr::Encoder reply(server_->buffers());
    rpc::EncodeAccepted(reply, header.xid, rpc::AcceptStatus::SUCCESS);
    const auto count = static_cast<uint32_t>(failed - start.operations.begin() + 1);
    xdr::Encode(reply, nfs4::COMPOUND4res_head{status, start.head.tag, count});
    if (start.sequence && operation != nfs_opnum4::OP_SEQUENCE) {
      // The server executes SEQUENCE alone, so that the sequence id of the slot advances.
      xdr::Encoder alone(server_->buffers());
      rpc::EncodeCallHeader(alone, header);
      xdr::Encode(alone, nfs4::COMPOUND4args_head{start.head.tag, start.head.minorversion, 1});
      xdr::Encode(alone, nfs_opnum4::OP_SEQUENCE);
      xdr::Encode(alone, *start.sequence);
      const rpc::Message answer = co_await server_->Execute(alone.Finish(), peer);
      xdr::Decoder decoder(answer);
      rpc::ReplyHeader reply_header;
      nfs4::COMPOUND4res_head head;
      nfs_opnum4 number;
      nfs4::SEQUENCE4res result;
      const bool decoded = rpc::DecodeReplyHeader(decoder, reply_header) && xdr::Decode(decoder, head) &&
                           xdr::Decode(decoder, number) && xdr::Decode(decoder, result);
      EXPECT_TRUE(decoded && head.status == nfsstat4::NFS4_OK);
      xdr::Encode(reply, number);
      xdr::Encode(reply, result);
    }
    for (auto each = start.operations.begin(); each != failed; ++each) {
      if (*each == nfs_opnum4::OP_SEQUENCE) continue;
      xdr::Encode(reply, *each);
      xdr::Encode(reply, nfsstat4::NFS4_OK);
    }
    xdr::Encode(reply, operation);
    xdr::Encode(reply, status);
    // SETATTR also tells which attributes it has set: none.
    if (operation == nfs_opnum4::OP_SETATTR) xdr::Encode(reply, nfs4::bitmap4());
    co_return reply.Finish();
  };
  Intercept(CompoundsWith(operation), handle, times, skip);
}

std::string At(uint16_t port, std::string_view path) {
  return fmt::format("{}@{}", path, rpc::UniversalAddress({asio::ip::make_address("127.0.0.1"), port}));
}

}  // namespace penstock::client
