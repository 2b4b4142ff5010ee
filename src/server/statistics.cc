#include "server/statistics.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "metrics/collect.h"
#include "protocol/nfs4_callback.h"

namespace penstock::server {
namespace {

using metrics::AddFamily;
using metrics::AddGauge;
using metrics::Families;
using metrics::Family;
using Type = Family::Type;

// The directories above exports, which NFS version 4 shows (nfs/v4/engine/namespace.h).
constexpr uint32_t kPseudoExport = 0;
constexpr const char* kPseudoPath = "(above exports)";

// A value of one label.
metrics::Labelled Count(std::string_view label, size_t count) { return {label, static_cast<double>(count)}; }

void CollectPool(const Workers& pool, Families& to) {
  const Workers::Statistics now = pool.statistics();
  AddFamily(to, "penstock_worker_threads", Type::kGauge, "Threads of the pool for calls that wait for a disk", "state",
            {Count("busy", now.busy), Count("idle", now.threads - std::min(now.threads, now.busy))});
  AddGauge(to, "penstock_worker_threads_limit", "The most threads of the pool", static_cast<double>(now.most));
  AddFamily(to, "penstock_worker_queue", Type::kGauge, "Work that waits for a thread of the pool", "kind",
            {Count("metadata", now.waiting_metadata), Count("data", now.waiting_data)});
}

void CollectShares(const StatisticsSources& sources, Families& to) {
  AddGauge(to, "penstock_connections_limit", "The most connections on all ports",
           static_cast<double>(sources.connections.limits().connections));
  AddGauge(to, "penstock_call_memory_bytes", "Shared memory that calls and replies use",
           static_cast<double>(sources.memory.shared_octets()));
  AddGauge(to, "penstock_call_memory_limit_bytes", "Shared memory for calls and replies",
           static_cast<double>(sources.memory.octets()));
  AddGauge(to, "penstock_reply_cache_entries", "Entries of the reply cache",
           static_cast<double>(sources.replies.entries()));
  AddGauge(to, "penstock_reply_cache_bytes", "Memory of the kept replies",
           static_cast<double>(sources.replies.octets()));
  AddGauge(to, "penstock_reply_cache_clients", "Clients that the reply cache knows",
           static_cast<double>(sources.replies.clients()));
  if (sources.open_files) {
    AddGauge(to, "penstock_open_files", "Files of exports that are open between calls",
             static_cast<double>(sources.open_files->descriptors()));
  }
  if (sources.acceptor) {
    AddGauge(to, "penstock_gss_contexts", "Established contexts of RPCSEC_GSS",
             static_cast<double>(sources.acceptor->contexts().established()));
  }
}

void CollectNfs4(Nfs4& nfs4, Families& to) {
  const Nfs4::Statistics now = nfs4.statistics();
  AddGauge(to, "penstock_grace_period",
           "1 while clients may reclaim their state after a restart of this server, or of another one of its cluster",
           now.in_grace);
  AddFamily(to, "penstock_clients", Type::kGauge, "Clients with a lease (nfs4), and hosts that lock through NLM (nlm)",
            "kind", {Count("nfs4", now.clients), Count("nlm", now.hosts)});
  AddFamily(to, "penstock_sessions", Type::kGauge, "Sessions", "kind",
            {Count("4.1", now.sessions), Count("2004", now.bound_sessions)});
  AddFamily(to, "penstock_session_slots", Type::kGauge, "Slots of the sessions of RFC 8881", "state",
            {Count("busy", now.busy_slots), Count("free", now.slots - now.busy_slots)});
  AddGauge(to, "penstock_session_reply_bytes", "Memory of the replies that sessions keep",
           static_cast<double>(now.kept_octets));
  AddFamily(to, "penstock_states", Type::kGauge,
            "Opens, lock stateids, locked ranges, and delegations; asynchronous copies that are running", "kind",
            {Count("open", now.opens), Count("lock", now.locks), Count("range", now.ranges),
             Count("delegation", now.delegations), Count("copy", now.copies)});
  const auto& [of_shards, of_all] = now.visits;
  AddFamily(to, "penstock_state_visits_total", Type::kCounter, "Visits to the tables of version 4", "kind",
            {Count("client", of_shards.taken), Count("all", of_all.taken)});
  AddFamily(to, "penstock_state_waits_total", Type::kCounter, "Visits that had to wait for another thread", "kind",
            {Count("client", of_shards.waited), Count("all", of_all.waited)});
  const auto seconds = [](const ShardedLock::Waits& of) { return std::chrono::duration<double>(of.time).count(); };
  AddFamily(to, "penstock_state_wait_seconds_total", Type::kCounter, "The time that these visits waited", "kind",
            {{"client", seconds(of_shards)}, {"all", seconds(of_all)}});
  Family& callbacks =
      AddFamily(to, "penstock_callbacks_total", Type::kCounter, "Attempts to call a client, such as recalls");
  for (const auto& attempts : nfs4.callbacks().attempts()) {
    const std::string_view name = XdrName(attempts.operation);
    constexpr std::array<const char*, nfs::v4::CallbackSender::kResults> kResults = {"ok", "error", "no_answer"};
    for (size_t i = 0; i < kResults.size(); ++i) {
      callbacks.Add({{"operation", std::string(name.substr(name.find('_') + 1))}, {"result", kResults[i]}},
                    static_cast<double>(attempts.results[i].value()));
    }
  }
}

void CollectLoops(const LoopDelays& delays, Families& to) {
  Family& family =
      AddFamily(to, "penstock_loop_delay_seconds", Type::kGauge, "How long each event loop took to answer this scrape");
  Family answered{"penstock_loop_answers", "1 if the event loop answered this scrape in time", Type::kGauge};
  for (size_t i = 0; i < delays.size(); ++i) {
    const metrics::Labels labels{{"loop", fmt::format("{}", i)}};
    if (delays[i]) family.Add(labels, std::chrono::duration<double>(*delays[i]).count());
    answered.Add(labels, delays[i].has_value());
  }
  to.push_back(std::move(answered));
}

}  // namespace

LoopDelays AskLoops(std::span<Loop* const> loops, Duration limit) {
  struct Answers {
    std::mutex mutex;
    std::condition_variable all;
    size_t left;
    LoopDelays delays;
  };
  const auto answers = std::make_shared<Answers>();
  answers->left = loops.size();
  answers->delays.resize(loops.size());
  const auto began = std::chrono::steady_clock::now();
  for (size_t i = 0; i < loops.size(); ++i) {
    loops[i]->Post([answers, i, began] {
      const std::lock_guard lock(answers->mutex);
      answers->delays[i] = std::chrono::steady_clock::now() - began;
      if (--answers->left == 0) answers->all.notify_all();
    });
  }
  std::unique_lock lock(answers->mutex);
  answers->all.wait_for(lock, limit, [&] { return answers->left == 0; });
  return answers->delays;
}

std::optional<size_t> FirstHung(const LoopDelays& delays) {
  const auto hung = std::ranges::find_if(delays, [](const auto& delay) { return !delay; });
  if (hung == delays.end()) return std::nullopt;
  return hung - delays.begin();
}

Families CollectStatistics(const StatisticsSources& sources, bool ready, const LoopDelays& delays) {
  Families families;
  AddGauge(families, "penstock_ready", "1 while the server serves calls, as /readyz says", ready);
  metrics::ExportPaths paths{{kPseudoExport, kPseudoPath}};
  const auto table = sources.exports.Get();
  for (const auto& each : table->all()) paths[each->id().value()] = each->path();
  metrics::Collect(sources.counts, paths, families);
  CollectShares(sources, families);
  CollectNfs4(sources.nfs4, families);
  CollectPool(sources.pool, families);
  CollectLoops(delays, families);
  metrics::CollectProcess(families);
  return families;
}

}  // namespace penstock::server
