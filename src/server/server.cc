#include "server/server.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <latch>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "base/descriptor_limit.h"
#include "base/local_port.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/machine_memory.h"
#include "base/random.h"
#include "nfs/absent_file_system.h"
#include "protocol/mount.h"
#include "protocol/nfs3.h"
#include "rdma/choice/choice.h"
#include "rpc/tcp/server.h"
#include "rpc/udp/datagrams.h"
#include "server/interfaces.h"
#include "server/listeners.h"
#include "server/with_audit.h"

namespace penstock::server {
namespace {

// How many descriptors of files are closed when a connection gets none.
constexpr size_t kRoomForConnections = 64;
// How often unused descriptors for writing are closed. Until then, this host cannot execute a program that a client of
// version 3 has written by several stable calls.
constexpr Duration kCloseIdleInterval = std::chrono::milliseconds(250);
// At most; they are started when they are needed.
constexpr size_t kUserThreads = 32;

// Whether this host reserves ports below 1024 for root.
bool PortsAreReserved() {
  std::ifstream setting("/proc/sys/net/ipv4/ip_unprivileged_port_start");
  unsigned first = 0;
  return setting >> first && first >= kFirstUnreservedPort;
}

// Connections get at most half of the descriptors that the process may open, less those that it needs for other things,
// so that files have descriptors as well. Below that limit, each host can use its share of connections. If the
// descriptors ran out, no host could connect.
// The part of the memory for calls and replies that is added to it for messages over RDMA.
constexpr size_t kMessagesPart = 8;

rpc::ConnectionTable::Limits Affordable(rpc::ConnectionTable::Limits wanted, size_t listening) {
  const size_t all = DescriptorLimit();
  const size_t most = std::max(all / 4, all / 2 - std::min(all / 2, kOtherDescriptors + listening));
  if (wanted.connections <= most) return wanted;
  log::warn("no more than {} of {} connections are accepted: the process may have {} open files. {}", most,
            wanted.connections, all, kRaiseTheDescriptorLimit);
  wanted.connections = most;
  wanted.per_address = std::min(wanted.per_address, most);
  return wanted;
}

// Appends the addresses at which clients reach the listeners.
void Append(std::vector<SocketAddress>& to, const std::vector<rpc::tcp::Listener>& listeners) {
  for (const rpc::tcp::Listener& each : listeners) std::ranges::copy(ReachableAt(each), std::back_inserter(to));
}

std::vector<SocketAddress> AddressesOf(const std::vector<rpc::tcp::Listener>& listeners) {
  std::vector<SocketAddress> addresses;
  for (const rpc::tcp::Listener& each : listeners) addresses.push_back(each.local());
  return addresses;
}

size_t MemoryOf(const Options& options) { return options.memory > 0 ? options.memory : DefaultMemory(); }

}  // namespace

size_t DefaultMemory() { return std::max<uint64_t>(MachineMemory() / 4, 256 << 20); }

Server::Server(const Options& options, Parts parts, size_t listening)
    : options_(options),
      listening_(listening),
      state_directory_(std::move(parts.state_directory)),
      pool_(std::move(parts.pool)),
      connections_(std::make_shared<rpc::ConnectionTable>(Affordable(options.connections, listening_), refusals_)),
      memory_(std::make_shared<rpc::MemoryBudget>(rpc::MemoryBudget::Limits{.octets = MemoryOf(options)})),
      messages_(std::make_shared<rpc::MemoryBudget>(
          rpc::MemoryBudget::Limits{.octets = MemoryOf(options) / kMessagesPart, .own_octets = 0})),
      counts_(std::make_shared<metrics::Counts>(MeasuredInterfaces(), options.threads)),
      open_files_(std::move(parts.open_files)),
      shortage_(std::make_shared<DescriptorShortage>([this] { MakeRoomForConnections(); })),
      audit_(std::move(parts.audit)),
      cluster_(std::move(parts.cluster)),
      expelled_(std::move(parts.expelled)),
      user_threads_(kUserThreads, Workers::AtEnd::kWait, {.name = "penstock-users"}),
      host_threads_(kUserThreads, Workers::AtEnd::kWait, {.name = "penstock-hosts"}),
      host_names_(options.host_database ? *options.host_database : nfs::SystemHosts(), &std::chrono::steady_clock::now,
                  &host_threads_) {}

void Server::MakeRoomForConnections() {
  if (!open_files_) return;
  const size_t open = open_files_->descriptors();
  const size_t kept = DescriptorShortage::Reserved();
  if (open <= kept) return;
  pool_->Post([this, room = std::min(open - kept, kRoomForConnections)] { open_files_->GiveUp(room); });
}

Server::~Server() {
  if (!loops_.empty()) Stop();
}

SetupResult<std::unique_ptr<Server>> Server::Make(const Options& options, Parts parts) {
  assert(options.threads > 0 && parts.pool);
  assert(options.memory == 0 || options.memory >= kLeastMemory);
  std::unique_ptr<Server> server;  // destroyed after `exports`: file systems may use the pool to their end
  std::vector<Export> exports = std::move(parts.exports);
  PassedSockets sockets = std::move(parts.sockets);
  server.reset(new Server(options, std::move(parts), ListeningDescriptors(options, sockets)));
  if (!options.trace.empty()) {
    PENSTOCK_TRY(auto trace, rdma::trace::File::Open(options.trace, rdma::trace::File::RealEpoch()));
    server->recording_->Start(std::move(trace), std::nullopt);
  }
  PENSTOCK_CHECK(server->OpenMetrics(std::move(sockets.http)));
  PENSTOCK_CHECK(server->OpenKeytab());
  PENSTOCK_CHECK(server->OpenTls());
  PENSTOCK_CHECK(server->AddExports(std::move(exports)));
  PENSTOCK_CHECK(server->Listen(std::move(sockets)));
  return server;
}

// A missing keytab is an error only if Options::keytab names it.
SetupResult<void> Server::OpenKeytab() {
  auto kerberos = rpc::gss::Kerberos::Open(options_.keytab);
  if (kerberos) {
    kerberos_ = *std::move(kerberos);
    return {};
  }
  if (!options_.keytab.empty()) return std::unexpected(std::move(kerberos).error());
  no_kerberos_ = kerberos.error().message;
  log::debug("RPCSEC_GSS is not offered: {}", no_kerberos_);
  return {};
}

SetupResult<void> Server::OpenTls() {
  if (options_.tls.certificate.empty()) return {};
  PENSTOCK_TRY(tls_, rpc::tls::Credentials::Load(options_.tls));
  tls_->LogTo(refusals_);
  return {};
}

// Checks what the options of the exports need, and completes them.
SetupResult<void> Server::CompleteTerms(const Options& options, const std::string& path,
                                        nfs::ExportOptions& terms) const {
  if (terms.security.UsesGss() && !offers_gss()) {
    return std::unexpected(SetupError{fmt::format("export \"{}\" with sec={} needs Kerberos (--keytab), but {}", path,
                                                  terms.security.ToString(), no_kerberos_)});
  }
  if (terms.security.Has(nfs::SecurityFlavor::kCcm) && options.ccm_from.empty()) {
    return std::unexpected(SetupError{fmt::format("export \"{}\" with sec={} needs the protected networks (--ccm-from)",
                                                  path, terms.security.ToString())});
  }
  if (terms.protections.AsksForTls() && !offers_tls()) {
    return std::unexpected(SetupError{
        fmt::format("export \"{}\" with xprtsec={} needs a certificate of the server (--tls-cert and --tls-key)", path,
                    terms.protections.ToString())});
  }
  if (terms.protections.AsksForMutualTls() && options.tls.authorities.empty()) {
    return std::unexpected(SetupError{
        fmt::format("export \"{}\" with xprtsec={} needs the authorities of clients' certificates (--tls-ca)", path,
                    terms.protections.ToString())});
  }
  terms.groups = groups_;
  const auto foreign_root_to_root = [](nfs::Squash& squash) {
    if (squash == nfs::Squash::kForeignRoot) squash = nfs::Squash::kRoot;
  };
  if (!PortsAreReserved()) {
    foreign_root_to_root(terms.squash);
    for (auto& each : terms.by_flavor) foreign_root_to_root(each.squash);
  }
  return {};
}

SetupResult<std::shared_ptr<const nfs::ExportTable>> Server::MakeTable(const Options& options,
                                                                       std::vector<Export> exports) const {
  const auto takes_ccm = [](const nfs::Admission& each) {
    return each.options.security.Has(nfs::SecurityFlavor::kCcm);
  };
  const auto is_for_ccm = [&](const Export& each) { return std::ranges::any_of(each.admissions, takes_ccm); };
  if (!options.ccm_from.empty() && std::ranges::none_of(exports, is_for_ccm)) {
    return std::unexpected(SetupError{"--ccm-from is without effect: no export has the option sec=ccm"});
  }
  const std::shared_ptr<const nfs::ExportTable> current = exports_.Get();
  auto table = std::make_shared<nfs::ExportTable>();
  for (Export& each : exports) {
    bool is_referral = false;
    for (nfs::Admission& admission : each.admissions) {
      PENSTOCK_CHECK(CompleteTerms(options, each.path, admission.options));
      is_referral |= admission.options.locations.referral;
    }
    const auto same = std::ranges::find(current->all(), each.path, [](const auto& old) { return old->path(); });
    const bool known = same != current->all().end();
    if (is_referral) {
      // The same object as before, so that an unchanged referral stays the same export.
      each.file_system =
          known && (*same)->is_referral() ? (*same)->shared_file_system() : std::make_shared<nfs::AbsentFileSystem>();
    }
    if (known && (*same)->shared_file_system() == each.file_system && (*same)->admissions() == each.admissions &&
        (*same)->is_root() == each.is_root && !table->Find((*same)->id())) {
      table->Keep(*same);
      continue;
    }
    PENSTOCK_CHECK(
        table->Add(each.path, std::move(each.file_system), std::move(each.admissions), &host_names_, each.is_root));
  }
  return table;
}

std::vector<nfs::ClientSpec> Server::ClientsOf(const nfs::ExportTable& table) {
  std::vector<nfs::ClientSpec> clients;
  for (const auto& each : table.all()) {
    for (const nfs::Admission& admission : each->admissions()) clients.push_back(admission.clients);
  }
  return clients;
}

SetupResult<void> Server::AddExports(std::vector<Export> exports) {
  if (options_.manage_gids || offers_gss()) {
    groups_ =
        std::make_shared<nfs::UserGroups>(&nfs::UserGroups::OfSystem, &std::chrono::steady_clock::now, &user_threads_,
                                          nfs::UserGroups::Settings{.of_everybody = options_.manage_gids});
  }
  PENSTOCK_TRY(auto table, MakeTable(options_, std::move(exports)));
  TrustNetworks(options_.ccm_from);
  host_names_.LookFor(ClientsOf(*table));
  exports_.Replace(std::move(table));
  return {};
}

void Server::TrustNetworks(const std::vector<nfs::Network>& networks) {
  const auto known = ccm_from_.Get();
  if (known && *known == networks) return;
  for (const nfs::Network& network : networks) {
    if (!network.HasAllHosts()) continue;
    log::warn(
        "--ccm-from {} trusts every network: everybody who can send packets to this host can use a client's "
        "calls, unless something protects all of its connections",
        network.ToString());
  }
  ccm_from_.Set(std::make_shared<const std::vector<nfs::Network>>(networks));
}

SetupResult<void> Server::Reload(const Options& options, std::vector<Export> exports) {
  // Everything that can fail or takes long comes first.
  PENSTOCK_TRY(auto table, MakeTable(options, std::move(exports)));
  PENSTOCK_TRY(auto names, nfs4_->MakeNames(table));
  std::shared_ptr<const rpc::tls::Context> context;
  if (tls_ && !options.tls.certificate.empty()) {
    PENSTOCK_TRY(context, rpc::tls::Credentials::Read(options.tls));
  }
  const std::vector<nfs::ClientSpec> clients = ClientsOf(*table);
  host_names_.Prepare(clients);

  if (context) tls_->Use(options.tls, std::move(context));
  connections_->SetLimits(Affordable(options.connections, listening_));
  memory_->SetOctets(MemoryOf(options));
  messages_->SetOctets(MemoryOf(options) / kMessagesPart);
  TrustNetworks(options.ccm_from);
  // New clients first, so that the names of their hosts are known when the exports admit them.
  host_names_.LookFor(clients);
  auto old = exports_.Replace(std::move(table));
  nfs4_->Replace(std::move(names));
  nfs4_->HandleNewExports([now = exports_.Get()](nfs::ExportId id) {
    const nfs::Export* const at = now->Find(id);
    return at && at->is_referral();
  });
  if (nfs2_) TellLongHandles();
  retired_->Add(std::move(old));
  return {};
}

SetupResult<void> Server::Listen(PassedSockets passed) {
  PENSTOCK_TRY(Listeners listeners, OpenListeners(options_.listen, options_.rdma, std::move(passed)));
  if (listeners.tcp.empty() && listeners.rdma.empty()) {
    return std::unexpected(SetupError{"the server offers NFS at no address"});
  }
  if (listeners.tcp.empty() && options_.nfs4.inter_server_copy) {
    return std::unexpected(SetupError{"copies between servers need NFS over TCP, which this server does not offer"});
  }
  addresses_ = {.tcp = AddressesOf(listeners.tcp), .rdma = {}, .mount = AddressesOf(listeners.mount)};
  Addresses reachable;
  Append(reachable.tcp, listeners.tcp);
  Append(reachable.mount, listeners.mount);

  const auto registry = std::make_shared<rdma::verbs::Registry>();
  std::vector<std::unique_ptr<ServingLoop>> loops;
  for (unsigned i = 0; i < options_.threads; ++i) {
    loops.push_back(std::make_unique<ServingLoop>(options_, shortage_, metrics::Recorder(counts_, i)));
    std::set<rdma::Kind> made;
    for (const RdmaPlace& each : listeners.rdma) {
      if (!made.insert(each.chosen.kind).second) continue;
      PENSTOCK_CHECK(loops.back()->MakeProvider(each.chosen, registry, recording_));
    }
  }
  loops_ = std::move(loops);
  Loop& home = loops_.front()->loop();
  dispatcher_ = std::make_unique<rpc::Dispatcher>(replies_, home);
  datagrams_ = std::make_unique<rpc::Dispatcher>(replies_, home);
  beside_ = std::make_unique<rpc::Dispatcher>(replies_, home);
  for (rpc::Dispatcher* const each : {dispatcher_.get(), datagrams_.get(), beside_.get()}) {
    each->LogRefusals(*refusals_, [nfs2 = options_.nfs2](uint32_t program, uint32_t version) -> std::string {
      const bool is_of_nfs2 =
          (program == nfs3::NFS_PROGRAM && version == 2) || (program == mount3::MOUNT_PROGRAM && version < 3);
      return is_of_nfs2 && !nfs2 ? "option nfs2 serves it" : "";
    });
  }
  if (offers_gss()) {
    acceptor_ = std::make_unique<rpc::gss::Acceptor>(rpc::gss::Acceptor::Parts{
        .mechanism = *kerberos_,
        .clock = home,
        .random = &FillRandomly,
        .pool = pool_.get(),
        .negotiators = &user_threads_,
        .is_protected =
            [this](const IpAddress& address) {
              return std::ranges::any_of(*ccm_from_.Get(),
                                         [&](const nfs::Network& network) { return network.Contains(address); });
            },
        .refusals = refusals_.get()});
    dispatcher_->Offer(*acceptor_);
    beside_->Offer(*acceptor_);
  }
  const auto set_up = [&]() -> SetupResult<void> {
    PENSTOCK_TRY(nfs4_, Nfs4::Make(options_.nfs4, {.exports = exports_,
                                                   .pool = *pool_,
                                                   .home = home,
                                                   .state_directory = state_directory_.path(),
                                                   .tcp = reachable.tcp,
                                                   .gss = acceptor_.get(),
                                                   .keytab = options_.keytab,
                                                   .loops = loops_.size(),
                                                   .cluster = std::move(cluster_),
                                                   .expelled = std::move(expelled_)}));
    retired_.emplace(exports_, home, *pool_, [this](const std::function<bool(const nfs::FileHandle&)>& is_gone) {
      locking_->ForgetFiles(is_gone);
      nfs4_->RevokeState(is_gone);
    });
    nfs3_.emplace(exports_, nfs::v3::Settings{}, &nfs4_->claims());
    Serve(*nfs3_);
    if (options_.nfs2) ServeVersion2();
    nfs_acl_.emplace(exports_, &nfs4_->claims(), nfs2_ ? &*nfs2_ : nullptr);
    Serve(*nfs_acl_);
    Serve(nfs4_->program());
    ServeBeside(audit_ ? *with_audit_.emplace_back(std::make_unique<WithAuditOfMounts>(mount_, *audit_)) : mount_);
    ServeBeside(WithGroups(rquota_));
    locking_ = std::make_unique<Locking>(exports_, *nfs4_, discovery_, home, options_.nfs2);
    for (rpc::Program* each : locking_->lock_managers()) ServeBeside(WithGroups(*each));
    ServeBeside(locking_->status_monitor());
    std::vector<RdmaListeners> rdma;
    for (const RdmaPlace& each : listeners.rdma) {
      PENSTOCK_TRY(RdmaListeners made, ListenForRdma(each));
      addresses_.rdma.push_back(made.front()->local());
      rdma_descriptions_.push_back(each.chosen.description);
      if (each.socket) {
        std::ranges::copy(ReachableAt(*each.socket), std::back_inserter(reachable.rdma));
      } else {
        reachable.rdma.push_back(addresses_.rdma.back());
      }
      rdma.push_back(std::move(made));
    }
    // If the server does not offer NFS over TCP, the ports of MOUNT do not, either.
    rpc::Dispatcher& beside = addresses_.tcp.empty() ? *beside_ : *dispatcher_;
    for (size_t i = 0; i < loops_.size(); ++i) {
      ServingLoop& loop = *loops_[i];
      loop.Prepare(*dispatcher_, connections_, memory_, messages_, tls_);
      for (const rpc::tcp::Listener& each : listeners.tcp) PENSTOCK_CHECK(loop.ServeNfs(each));
      for (const rpc::tcp::Listener& each : listeners.mount) PENSTOCK_CHECK(loop.ServeStreams(beside, each));
      for (size_t k = 0; k < rdma.size(); ++k) loop.ServeRdma(listeners.rdma[k].chosen.kind, std::move(rdma[k][i]));
    }
    // A mount takes a few datagrams, so one loop is enough.
    for (rpc::udp::Listener& each : listeners.mount_udp) {
      PENSTOCK_CHECK(loops_.front()->ServeDatagrams(*datagrams_, std::move(each)));
    }
    return TellPorts(reachable);
  };
  auto result = set_up();
  if (!result) {
    if (!loops_.front()->prepared()) {
      retired_.reset();
      locking_.reset();
      nfs4_.reset();
    }
    std::erase_if(loops_, [](const auto& each) { return !each->prepared(); });
  }
  return result;
}

// The listeners of all loops for one address.
SetupResult<Server::RdmaListeners> Server::ListenForRdma(const RdmaPlace& place) {
  RdmaListeners made;
  if (place.socket) {
    const auto turns = std::make_shared<AcceptTurns>();
    for (const auto& each : loops_) {
      PENSTOCK_TRY(made.emplace_back(), each->AdoptIwarp(place.socket->fd(), turns));
    }
    return made;
  }
  PENSTOCK_TRY(made.emplace_back(), loops_.front()->provider(place.chosen.kind).Listen(place.address));
  for (size_t i = 1; i < loops_.size(); ++i) {
    PENSTOCK_TRY(auto shared, made.front()->Share(loops_[i]->provider(place.chosen.kind)));
    made.push_back(std::move(shared));
  }
  return made;
}

// Last, when all that clients would find is there.
SetupResult<void> Server::TellPorts(const Addresses& reachable) {
  ServiceTable services(reachable);
  for (const rpc::Program* each : nfs_programs_) services.AddNfs(*each);
  for (const rpc::Program* each : small_programs_) services.AddBeside(*each);
  return discovery_.Start(services.Take(), addresses_, *loops_.front());
}

rpc::Program& Server::WithGroups(rpc::Program& program) {
  if (!groups_) return program;
  return *with_groups_.emplace_back(std::make_unique<nfs::WithGroups>(program, *groups_));
}

rpc::Program& Server::WithAudit(rpc::Program& program) {
  if (!audit_) return program;
  return *with_audit_.emplace_back(std::make_unique<server::WithAudit>(program, *audit_));
}

rpc::Program& Server::WithHostNames(rpc::Program& program) {
  return *with_host_names_.emplace_back(std::make_unique<nfs::WithHostNames>(program, host_names_));
}

void Server::ServeVersion2() {
  nfs2_.emplace(exports_, nfs::v2::Settings{}, &nfs4_->claims());
  Serve(*nfs2_);
  TellLongHandles();
}

// Logs which exports clients of version 2 cannot use.
void Server::TellLongHandles() const {
  for (const auto& each : exports_.Get()->all()) each->PaddedHandleOf(each->file_system().Root());
}

void Server::Serve(rpc::Program& program) {
  dispatcher_->Add(WithAudit(WithHostNames(WithGroups(program))));
  nfs_programs_.push_back(&program);
}

void Server::ServeBeside(rpc::Program& program) {
  small_programs_.push_back(&program);
  rpc::Program& with_names = WithHostNames(program);
  dispatcher_->Add(with_names);
  datagrams_->Add(with_names);
  beside_->Add(with_names);
}

void Server::Start() {
  for (auto& each : loops_) each->Start();
  started_ = true;
  phase_ = Phase::kServing;
  loops_.front()->loop().Post([this] {
    nfs4_->Start();
    locking_->Start();
    discovery_.KeepRegistered(loops_.front()->loop(), *pool_);
    tell_refusals_ = loops_.front()->loop().MakeTimer([this] { TellRefusals(); });
    TellRefusals();
    if (!open_files_) return;
    close_idle_ = loops_.front()->loop().MakeTimer([this] { CloseIdle(); });
    CloseIdle();
  });
}

void Server::TellRefusals() {
  tell_refusals_->ExpireAfter(std::chrono::seconds(1));
  refusals_->Flush();
}

// Closing runs on the pool, because it may wait for the disk; one run at a time.
void Server::CloseIdle() {
  close_idle_->ExpireAfter(kCloseIdleInterval);
  if (is_closing_idle_.exchange(true)) return;
  pool_->Post([this] {
    open_files_->CloseIdle();
    is_closing_idle_ = false;
  });
}

void Server::LookAtLocalLeases() {
  loops_.front()->loop().Post([this] { nfs4_->LookAtLocalLeases(); });
}

void Server::EndCopies(Duration limit) {
  if (!nfs4_->IsCopying()) return;
  std::promise<void> ended;
  loops_.front()->loop().Post([this, limit, &ended] {
    Spawn([](Nfs4& nfs4, Duration until, std::promise<void>& done) -> Task<> {
      co_await nfs4.EndCopies(until);
      done.set_value();
    }(*nfs4_, limit, ended));
  });
  ended.get_future().wait();
}

void Server::Drain() {
  drained_ = true;
  const TimePoint began = loops_.front()->loop().Now();
  phase_ = Phase::kDraining;
  discovery_.Withdraw();
  if (nfs2_) nfs2_->StopWaiting();
  EndCopies(options_.drain_limit * 2 / 5);
  // Shared with the last function that counts, which may still run when the wait is over.
  const auto serving = std::make_shared<std::latch>(static_cast<std::ptrdiff_t>(loops_.size()) + 1);
  const std::function<void()> ended = [serving] { serving->count_down(); };
  // The last fifth is for the work that follows when the connections are closed.
  const Duration for_peers = options_.drain_limit * 4 / 5 - (loops_.front()->loop().Now() - began);
  for (auto& each : loops_) each->StopServing(for_peers, ended);
  loops_.front()->loop().Post([this, ended] {
    close_idle_.reset();
    tell_refusals_.reset();
    retired_->Stop();
    discovery_.StopLooking();
    Spawn([](Locking& locking, Nfs4& nfs4, std::function<void()> then) -> Task<> {
      co_await locking.Stop();
      co_await nfs4.Stop();
      then();
    }(*locking_, *nfs4_, ended));
  });
  serving->wait();
}

void Server::Stop() {
  if (!drained_) Drain();
  for (auto& each : loops_) each->Stop();
  for (auto& each : loops_) each->Join();
  http_.reset();
  // NFSv4's state holds files, which are closed on the pool.
  retired_.reset();
  locking_.reset();
  nfs4_.reset();
  // A thread of a pool may still be in a loop's Post(), although no call waits for it; so the loops go last.
  user_threads_.Join();
  host_threads_.Join();
  pool_->Join();
  loops_.clear();
  refusals_->Finish();
}

}  // namespace penstock::server
