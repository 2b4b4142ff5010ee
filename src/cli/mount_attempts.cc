#include "cli/mount_attempts.h"

#include <fmt/core.h>
#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace penstock::cli {
namespace {

using client::RecoveryOptions;
using namespace std::chrono_literals;

constexpr Duration kFirstDelay = 100ms;
constexpr Duration kLongestDelay = 10s;
// An attempt is several calls, and a host that is busy may need this time for them.
constexpr Duration kShortestAttempt = 10s;

// nfs(5): in the background the command tries for almost a week.
uint32_t MinutesOf(const client::Url& url) { return url.retry_for_minutes.value_or(url.in_background ? 10000 : 2); }

Duration AttemptLimitOf(RecoveryOptions recovery) {
  if (recovery.kind != RecoveryOptions::Kind::kHard) return client::kNoTimeLimit;
  recovery.kind = RecoveryOptions::Kind::kSoft;
  return std::max(recovery.CallLimit(), kShortestAttempt);
}

// As in mount.nfs. ESTALE: the server is just replacing the export.
bool MayPass(const client::Error& error) {
  return client::IsOfConnection(error.number) || error.number == ESTALE || error.number == EAGAIN;
}

}  // namespace

MountAttempts::MountAttempts(const client::Url& url, TimePoint now)
    : minutes_(MinutesOf(url)),
      give_up_(now + std::min(std::chrono::minutes(minutes_),
                              std::chrono::floor<std::chrono::minutes>(client::kNoTimeLimit))),
      attempt_limit_(AttemptLimitOf(url.recovery)),
      delay_(kFirstDelay) {}

std::string MountAttempts::PatienceText() const {
  return minutes_ == 1 ? "1 minute" : fmt::format("{} minutes", minutes_);
}

std::optional<Duration> MountAttempts::HandleFailure(const client::Error& error, TimePoint now) {
  if (!MayPass(error) || now >= give_up_) return std::nullopt;
  const Duration delay = std::exchange(delay_, std::min(2 * delay_, kLongestDelay));
  return std::min(delay, give_up_ - now);
}

bool IsUnknownHost(const std::string& host) {
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (error == 0) ::freeaddrinfo(found);
  return error == EAI_NONAME;
}

}  // namespace penstock::cli
