#include "cli/reload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/thread.h"
#include "cli/configuration.h"

namespace penstock::cli {
namespace {

// One line for each export that differs.
std::vector<std::string> ChangesBetween(const nfs::ExportTable& before, const nfs::ExportTable& after) {
  std::vector<std::string> changes;
  for (const auto& each : after.all()) {
    const nfs::Export* const old = before.Find(each->id());
    if (!old) {
      changes.push_back(fmt::format("exports {}", each->path()));
    } else if (each->is_referral() && !old->is_referral()) {
      changes.push_back(
          fmt::format("refers clients of {} to other servers: those of version 4 go on there", each->path()));
    } else if (old->shared_file_system() != each->shared_file_system()) {
      changes.push_back(
          fmt::format("exports {} with another directory, or other exports below it: its clients must mount it again",
                      each->path()));
    } else if (old != each.get()) {
      changes.push_back(fmt::format("exports {} with other options", each->path()));
    }
  }
  for (const auto& each : before.all()) {
    if (!after.Find(each->id())) changes.push_back(fmt::format("no longer exports {}", each->path()));
  }
  std::ranges::sort(changes);
  return changes;
}

Finding Mistake(std::string message) {
  return {.file = {}, .line = 0, .severity = Severity::kError, .message = std::move(message)};
}

Reloaded Stopped(Reloaded reloaded) {
  reloaded.findings.push_back(Mistake("the server stops"));
  return reloaded;
}

}  // namespace

bool Reloaded::succeeded() const {
  return std::ranges::none_of(findings, [](const Finding& each) { return each.severity == Severity::kError; });
}

Reloader::~Reloader() {
  if (later_.joinable()) later_.join();
}

void Reloader::RunLater(std::string why) {
  const std::lock_guard lock(mutex_);
  // A file may have changed after the reload that runs has read it.
  wanted_ = true;
  if (std::exchange(is_busy_, true)) return;
  if (later_.joinable()) later_.join();
  later_ = StartThread("penstock-reload", [this, reason = std::move(why)] { RunAll(reason); });
}

void Reloader::RunAll(const std::string& why) {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(wanted_, false)) {
        is_busy_ = false;
        return;
      }
    }
    LogReload(why, Run());
  }
}

Reloaded Reloader::Run() {
  const std::lock_guard lock(running_);
  hooks_.on_begin();
  Reloaded reloaded;
  // On a thread of its own: see ServedExports::Open().
  StartThread("penstock-reload", [&] { reloaded = Apply(); }).join();
  hooks_.on_end(reloaded);
  return reloaded;
}

Reloaded Reloader::Apply() {
  Reloaded reloaded;
  auto configured = configure_();
  if (!configured) {
    reloaded.findings = std::move(configured).error();
    return reloaded;
  }
  auto options = ServerOptionsOf(*configured);
  auto specs = options ? ExportsOf(*configured, reloaded.findings) : std::unexpected(options.error());
  if (!specs) {
    reloaded.findings.push_back(Mistake(specs.error().message));
    return reloaded;
  }
  if (!reloaded.succeeded()) return reloaded;
  if (stopped_) return Stopped(std::move(reloaded));
  auto exports = exports_.Open(*std::move(specs), reloaded.findings);
  if (!exports) {
    reloaded.findings.push_back(Mistake(exports.error().message));
    return reloaded;
  }
  if (stopped_) return Stopped(std::move(reloaded));
  const auto before = server_.exports().Get();
  if (const auto changed = server_.Reload(*options, *std::move(exports)); !changed) {
    reloaded.findings.push_back(Mistake(changed.error().message));
    return reloaded;
  }
  hooks_.adopt(*configured);
  reloaded.changes = ChangesBetween(*before, *server_.exports().Get());
  for (const std::string& key : Differences(now_, *configured)) {
    if (!CanChange(key)) {
      reloaded.after_restart.push_back(key);
    } else if (!key.starts_with("exports.")) {
      reloaded.changes.push_back(fmt::format("takes another value of {}", key));
    }
  }
  if (server_.offers_tls()) reloaded.changes.push_back("uses the certificates that are now in the files");
  now_ = *std::move(configured);
  return reloaded;
}

void LogReload(std::string_view why, const Reloaded& reloaded) {
  for (const Finding& each : reloaded.findings) {
    if (each.severity == Severity::kError) {
      log::error("{}: {}", why, ToString(each));
    } else {
      log::warn("{}: {}", why, ToString(each));
    }
  }
  if (!reloaded.succeeded()) {
    log::error("{}: the server goes on with its old configuration", why);
    return;
  }
  for (const std::string& each : reloaded.changes) log::warn("{}: the server {}", why, each);
  if (!reloaded.after_restart.empty()) {
    log::warn("{}: changed, but only from the next start on: {}", why, fmt::join(reloaded.after_restart, ", "));
  }
  if (reloaded.changes.empty() && reloaded.after_restart.empty()) {
    log::warn("{}: the configuration is the same as before", why);
  }
}

}  // namespace penstock::cli
