#include "server/nfs4.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/log.h"
#include "base/state_directory.h"
#include "cluster/reply_objects.h"
#include "nfs/v4/engine/compound_head.h"
#include "nfs/v4/engine/time_of_day.h"
#include "nfs/v4/operations/copy.h"
#include "nfs/v4/operations/lease.h"
#include "nfs/v4/operations/local_leases.h"
#include "rpc/gss/kerberos_client.h"
#include "server/server_id.h"

namespace penstock::server {
namespace {

namespace stdfs = std::filesystem;

// How often leases are checked.
constexpr Duration kLook = std::chrono::seconds(1);

nfs::v4::StateTables::Beginning BeginTables(const nfs::v4::Settings& settings,
                                            const nfs::v4::RecoveryStore::Restart& restart,
                                            nfs::v4::ReplyStore& replies, nfs::v4::StreamStore& streams,
                                            const cluster::Cluster* cluster, TimePoint now) {
  // A session of the previous run is kept as long as its client could have kept it without the restart.
  const Duration patience = std::max(settings.lease, restart.last_lease);
  nfs::v4::Grace grace(restart, settings.grace, now);
  // Until the cluster says otherwise.
  if (cluster) grace.Hold();
  return {.settings = settings,
          .instance = restart.instance,
          .secret = SipKey{nfs::v4::SystemRandom(), nfs::v4::SystemRandom()},
          .limits = {.delegations = settings.max_delegations, .lease = settings.lease},
          .grace = std::move(grace),
          .dead_sessions = nfs::v4::DeadSessions(replies.Load(), patience, now),
          .bound_sessions = streams.Load(),
          .bound_dialect = &nfs::v4::DialectOfBoundSessions(),
          .now = now};
}

}  // namespace

SetupResult<std::unique_ptr<Nfs4>> Nfs4::Make(nfs::v4::Settings settings, const Surroundings& surroundings) {
  PENSTOCK_TRY(auto names, nfs::v4::Namespace::Make(surroundings.exports, nfs::v4::SystemTime()));
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  auto opened = OpenMemory(surroundings, settings, now);
  if (!opened && surroundings.cluster) surroundings.cluster->Leave();
  if (!opened) return std::unexpected(std::move(opened).error());
  Memory memory = *std::move(opened);
  if (surroundings.cluster) {
    // File handles and client owners mean the same at all members, but each has clients of its own.
    settings.server_scope = surroundings.cluster->scope();
    settings.server_owner = settings.server_scope + "-" + surroundings.cluster->node();
  } else {
    PENSTOCK_TRY(settings.server_owner, LoadServerId(surroundings.state_directory));
    settings.server_scope = settings.server_owner;
  }
  return std::unique_ptr<Nfs4>(new Nfs4(std::move(settings), surroundings, std::move(names), std::move(memory)));
}

SetupResult<void> Nfs4::OpenClusterMemory(cluster::Cluster& cluster, Memory& memory, const nfs::v4::Settings& settings,
                                          std::chrono::sys_seconds now) {
  if (settings.grace == Duration::zero()) {
    return std::unexpected(SetupError{"a server of a cluster needs a grace period (--grace)"});
  }
  memory.clients = cluster.MakeRecoveryStore();
  PENSTOCK_TRY(memory.restart, memory.clients->Begin(settings.lease, now));
  PENSTOCK_TRY(memory.replies, cluster::OpenReplyObjects(cluster.store(), cluster.instance(), cluster.earlier_runs()));
  return {};
}

SetupResult<Nfs4::Memory> Nfs4::OpenMemory(const Surroundings& surroundings, const nfs::v4::Settings& settings,
                                           std::chrono::sys_seconds now) {
  const stdfs::path& directory = surroundings.state_directory;
  Memory memory;
  const stdfs::path clients = directory / "nfs4-clients.sqlite";
  if (surroundings.cluster) {
    PENSTOCK_CHECK(OpenClusterMemory(*surroundings.cluster, memory, settings, now));
  } else {
    PENSTOCK_TRY(memory.clients, nfs::v4::OpenRecoveryStore(clients.string()));
    PENSTOCK_TRY(memory.restart, memory.clients->Begin(settings.lease, now));
    PENSTOCK_TRY(memory.replies, nfs::v4::OpenReplyStore((directory / "nfs4-replies").string()));
  }
  for (nfs::v4::RecoveryRecord& client : memory.restart.clients) {
    const auto host = nfs::v4::ParseLockHostRecord(client);
    if (!host) continue;
    memory.hosts.push_back(*host);
    client.principal = {};  // a host may reclaim whichever address of the server it uses
  }
  if (settings.grace == Duration::zero()) {
    // Without a grace period clients cannot reclaim the state of the previous run, after this start or a later one.
    if (!memory.clients->EndGrace()) {
      return std::unexpected(SetupError{fmt::format(
          "--grace 0: cannot forget the clients of the last run in {}; make sure that its disk works and has room",
          clients.string())});
    }
    memory.restart.clients.clear();
  }
  if (settings.bound_sessions) {
    PENSTOCK_TRY(memory.streams, nfs::v4::OpenStreamStore((directory / "nfs4-streams").string()));
  } else {
    memory.streams = std::make_unique<nfs::v4::MemoryStreamStore>();
  }
  return memory;
}

std::optional<std::string> Nfs4::KeytabForCallbacks(const Surroundings& surroundings) {
  if (!surroundings.gss) return std::nullopt;
  auto keytab = surroundings.keytab.empty() ? rpc::gss::DefaultKeytab() : surroundings.keytab;
  if (!keytab)
    log::warn("clients of version 4.0 that use Kerberos get no delegations: the host's keytab is not a file");
  return keytab;
}

Nfs4::Nfs4(nfs::v4::Settings settings, const Surroundings& surroundings,
           std::shared_ptr<const nfs::v4::Namespace> names, Memory memory)
    : departure_{surroundings.cluster},
      expelled_(surroundings.expelled),
      settings_(std::move(settings)),
      instance_(memory.restart.instance),
      remembered_hosts_(std::move(memory.hosts)),
      home_(surroundings.home),
      gss_(surroundings.gss),
      exports_(surroundings.exports),
      names_(std::move(names)),
      lookups_(&idmap::AskHost, home_, idmap::Lookups::OnThreads()),
      owners_(settings_.domain, lookups_),
      reply_store_(std::move(memory.replies)),
      stream_store_(std::move(memory.streams)),
      replies_(*reply_store_, *stream_store_, &surroundings.pool),
      state_(BeginTables(settings_, memory.restart, *reply_store_, *stream_store_, surroundings.cluster.get(),
                         home_.Now()),
             surroundings.loops),
      recovery_(std::move(memory.clients)),
      connections_({.loop = home_,
                    .pool = surroundings.pool,
                    .call_limit = settings_.callback_limit(),
                    .keytab = KeytabForCallbacks(surroundings)}),
      caller_(state_, &home_, home_, home_.buffers(),
              [this](const nfs::v4::CallbackAddress& client) { return connections_.To(client); },
              {.patience = settings_.lease}),
      copy_sources_({}, surroundings.tcp),
      program_(MakeServices()),
      claims_(MakeServices()),
      timer_(home_.MakeTimer([this] { Spawn(KeepLeases()); })) {
  state_.SendBy(caller_);
}

Nfs4::~Nfs4() {
  if (departure_.from) departure_.from->Stop();
}

void Nfs4::FollowCluster() {
  const auto with_grace = [this](auto change) {
    state_.Run([&](nfs::v4::StateTables& state) { change(state.clients.grace()); });
  };
  departure_.from->Start({.hold = [=] { with_grace([](nfs::v4::Grace& grace) { grace.Hold(); }); },
                          .release = [=] { with_grace([](nfs::v4::Grace& grace) { grace.Release(); }); },
                          .expelled = expelled_});
}

nfs::v4::Services Nfs4::MakeServices() {
  return {.names = names_,
          .settings = settings_,
          .owners = owners_,
          .state = state_,
          .callbacks = caller_,
          .recovery = recovery_,
          .clock = home_,
          .copy_sources = settings_.inter_server_copy ? &copy_sources_ : nullptr,
          .gss = gss_,
          .replies = &replies_};
}

SetupResult<std::shared_ptr<const nfs::v4::Namespace>> Nfs4::MakeNames(
    std::shared_ptr<const nfs::ExportTable> table) const {
  return nfs::v4::Namespace::Make(exports_, std::move(table), nfs::v4::SystemTime());
}

void Nfs4::HandleNewExports(const std::function<bool(nfs::ExportId)>& is_referral) {
  state_.Run([&](nfs::v4::StateTables& state) { state.files.HandleNewExports(is_referral, home_.Now()); });
}

void Nfs4::RevokeState(const std::function<bool(const nfs::FileHandle&)>& is_gone) {
  state_.Run([&](nfs::v4::StateTables& state) { state.files.RevokeState(is_gone, home_.Now()); });
}

bool Nfs4::InGrace() {
  return state_.Run([](nfs::v4::StateTables& state) { return state.clients.InGrace(); });
}

Nfs4::Statistics Nfs4::statistics() {
  // Before this visit, so that it does not count itself.
  const ShardedLock::Counts visits = state_.visits();
  return state_.Run([&](nfs::v4::StateTables& state) {
    const auto slots = state.sessions.CountSlots();
    return Statistics{.in_grace = state.clients.InGrace(),
                      .clients = state.clients.client_count(),
                      .hosts = state.lock_hosts.size(),
                      .sessions = state.sessions.session_count(),
                      .bound_sessions = state.bound_sessions.size(),
                      .slots = slots.slots,
                      .busy_slots = slots.busy,
                      .kept_octets = state.sessions.kept_octets() + state.bound_sessions.kept_octets(),
                      .opens = state.files.count(nfs::v4::StateKind::kOpen),
                      .locks = state.files.count(nfs::v4::StateKind::kLocks),
                      .delegations = state.files.delegations.count(),
                      .ranges = state.files.locks.ranges(),
                      .copies = state.offloads.running(),
                      .visits = visits};
  });
}

void Nfs4::Start() {
  if (departure_.from) FollowCluster();
  if (!stopping_) timer_->ExpireAfter(kLook);
}

Task<> Nfs4::KeepLeases() {
  under_way_.Begin();
  co_await nfs::v4::KeepLeases(MakeServices(), &home_);
  if (!stopping_) timer_->ExpireAfter(kLook);
  under_way_.End();
}

void Nfs4::LookAtLocalLeases() {
  look_again_ = !stopping_;
  if (look_again_ && !looking_) Spawn(LookAgain());
}

// The loop runs again if a lease may have been broken after it was checked.
Task<> Nfs4::LookAgain() {
  under_way_.Begin();
  looking_ = true;
  while (std::exchange(look_again_, false)) co_await nfs::v4::LookAtLocalLeases(MakeServices(), &home_);
  looking_ = false;
  under_way_.End();
}

bool Nfs4::IsCopying() {
  return state_.Run([](nfs::v4::StateTables& state) { return state.offloads.running() > 0; });
}

Task<> Nfs4::EndCopies(Duration limit) {
  copy_sources_.Abort();
  co_await nfs::v4::EndCopies(state_, home_, home_.Now() + limit);
}

Task<> Nfs4::Stop() {
  stopping_ = true;
  timer_->Cancel();
  caller_.Stop();
  connections_.Stop();
  copy_sources_.Abort();
  co_await nfs::v4::EndCopies(state_, home_);
  co_await copy_sources_.Stop(home_);
  co_await under_way_.Ended();
  co_await caller_.Ended();
}

}  // namespace penstock::server
