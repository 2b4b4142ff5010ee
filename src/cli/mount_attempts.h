// How often `penstock mount` tries to mount: what the options bg, fg and retry of nfs(5) say, as mount.nfs obeys them.
#pragma once

#include <optional>
#include <string>

#include "base/timer.h"
#include "client/error.h"
#include "client/url.h"

namespace penstock::cli {

class MountAttempts {
 public:
  MountAttempts(const client::Url& url, TimePoint now);

  // The time limit of one attempt. Calls of a mount with `hard` have no limit of their own: then it is the one that
  // they would have with `soft`.
  Duration attempt_limit() const { return attempt_limit_; }
  // The time for which the command tries again, for messages: "2 minutes".
  std::string PatienceText() const;

  // An attempt has failed. Returns the delay before the next one; nothing if that would fail as well, or if the time is
  // over.
  std::optional<Duration> HandleFailure(const client::Error& error, TimePoint now);

 private:
  const uint32_t minutes_;
  const TimePoint give_up_;
  const Duration attempt_limit_;
  Duration delay_;
};

// Whether no name service knows the host, so that further attempts are useless. A name service that does not answer is
// no reason. Blocks.
bool IsUnknownHost(const std::string& host);

}  // namespace penstock::cli
