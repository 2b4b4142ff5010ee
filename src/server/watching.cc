// The pages for monitors and people: docs/metrics.md.
#include <fmt/core.h>

#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "server/server.h"
#include "server/statistics.h"
#include "watch/dashboard.h"
#include "watch/exposition.h"

namespace penstock::server {
namespace {

// A loop that does not run a function in this time hangs: its turns take milliseconds.
constexpr Duration kHealthLimit = std::chrono::seconds(2);
// A loop that has much to do answers in less.
constexpr Duration kReadyLimit = std::chrono::seconds(1);
// A scrape does not wait longer for the loops.
constexpr Duration kScrapeLimit = std::chrono::seconds(1);

std::string BoundsAsJson() {
  std::string json = "[";
  for (const int64_t bound : metrics::kLatencyNanoseconds) {
    json += fmt::format("{}{}", json.size() > 1 ? ", " : "", static_cast<double>(bound) / 1e9);
  }
  return json + "]";
}

}  // namespace

SetupResult<void> Server::OpenMetrics(std::vector<FileDescriptor> sockets) {
  if (!options_.metrics && sockets.empty()) return {};
  watch::HttpServer::Pages pages;
  pages["/metrics"] = [this] { return ShowMetrics(); };
  pages["/healthz"] = [this] { return ShowHealth(); };
  pages["/readyz"] = [this] { return ShowReadiness(); };
  pages["/dashboard.json"] = [this] { return ShowDashboardData(); };
  pages["/"] = [] {
    return watch::Response{.type = "text/html; charset=utf-8", .body = std::string(watch::DashboardPage())};
  };
  if (!sockets.empty()) {
    PENSTOCK_TRY(http_, watch::HttpServer::Adopt(std::move(sockets.front()), std::move(pages)));
  } else {
    PENSTOCK_TRY(http_, watch::HttpServer::Open(*options_.metrics, std::move(pages)));
  }
  return {};
}

std::string Server::WhyNotReady() const {
  switch (phase_.load()) {
    case Phase::kStarting:
      return "starting: the ports do not answer yet";
    case Phase::kServing:
      return connections_->is_draining() ? "draining: the server takes no new clients" : "";
    case Phase::kDraining:
      return "draining: the server stops, and accepts no more calls";
  }
  std::unreachable();
}

LoopDelays Server::DelaysOfLoops(Duration limit) const {
  std::vector<Loop*> loops;
  for (const auto& each : loops_) loops.push_back(&each->loop());
  return AskLoops(loops, limit);
}

bool Server::LoopsAnswer(Duration limit) const { return !FindHungLoop(limit); }

std::string Server::DescribeLoad() const {
  const auto count = [](size_t number, std::string_view what) {
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
  };
  std::string text =
      fmt::format("{}, {}, {} of version 4", count(exports_.Get()->all().size(), "export"),
                  count(connections_->connections(), "connection"), count(nfs4_->statistics().clients, "client"));
  if (nfs4_->InGrace()) text += "; grace period";
  return text;
}

// The first loop that does not answer in time. None unless the server serves: loops that have not begun, or that end,
// do not answer. The server may begin to stop meanwhile.
std::optional<size_t> Server::FindHungLoop(Duration limit) const {
  if (phase_ != Phase::kServing) return std::nullopt;
  const std::optional<size_t> hung = FirstHung(DelaysOfLoops(limit));
  return phase_ == Phase::kServing ? hung : std::nullopt;
}

watch::Response Server::ShowHealth() {
  const std::optional<size_t> hung = FindHungLoop(kHealthLimit);
  if (hung) return {.status = 503, .body = fmt::format("event loop {} has not answered for two seconds\n", *hung)};
  if (const std::string reason = WhyNotReady(); !reason.empty()) return {.body = "alive, but " + reason + "\n"};
  return {.body = "ok\n"};
}

watch::Response Server::ShowReadiness() {
  const std::optional<size_t> hung = FindHungLoop(kReadyLimit);
  if (const std::string reason = WhyNotReady(); !reason.empty()) return {.status = 503, .body = reason + "\n"};
  if (hung) return {.status = 503, .body = fmt::format("event loop {} has not answered for a second\n", *hung)};
  if (!nfs4_->InGrace()) return {.body = "ready\n"};
  return {
      .body =
          "ready; grace period: clients reclaim their state, and new opens and locks of version 4 wait for its end\n"};
}

metrics::Families Server::CollectMetrics() {
  const bool ready = WhyNotReady().empty();
  const LoopDelays delays = phase_ == Phase::kServing ? DelaysOfLoops(kScrapeLimit) : LoopDelays();
  return CollectStatistics({.counts = *counts_,
                            .exports = exports_,
                            .connections = *connections_,
                            .memory = *memory_,
                            .replies = replies_,
                            .pool = *pool_,
                            .nfs4 = *nfs4_,
                            .open_files = open_files_.get(),
                            .acceptor = acceptor_.get()},
                           ready, delays);
}

watch::Response Server::ShowMetrics() {
  if (!started_) return {.status = 503, .body = WhyNotReady() + "\n"};
  return {.type = std::string(watch::kPrometheusType), .body = watch::ToPrometheus(CollectMetrics())};
}

watch::Response Server::ShowDashboardData() {
  const std::string reason = WhyNotReady();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.type = "application/json",
          .body = fmt::format("{{\"time\": {}, \"ready\": {}, \"reason\": {}, \"bounds\": {}, \"metrics\": {}}}\n",
                              std::chrono::duration<double>(now).count(), reason.empty(), QuoteJson(reason),
                              BoundsAsJson(), started_ ? watch::ToJson(CollectMetrics()) : "{}")};
}

}  // namespace penstock::server
