// Walks the way to a file on a server step by step, and says at which step it fails, why, and what may help.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/timer.h"
#include "base/workers.h"
#include "client/mount.h"
#include "client/url.h"

namespace penstock::client {

struct Step {
  enum class Outcome : uint8_t { kOk, kFailed, kSkipped };
  std::string name;
  Outcome outcome = Outcome::kSkipped;
  Duration took = Duration::zero();
  std::string detail{};  // what the step has found, or why it fails; empty if it is skipped
  std::string advice{};  // what to try; only of a step that fails
};

struct StepLimits {
  // A server that is alive accepts a connection and answers a NULL call at once. The user waits for the answer.
  Duration call = std::chrono::seconds(10);
  // For each later step, which may need several calls.
  Duration step = std::chrono::seconds(30);
};

// Returns the steps: the look-up of the name, the connection, a NULL call, the mount, the path, the permission. After
// one that fails, all others are skipped. The limits of time are those of the URL, and at most `limits`. `loop`,
// `workers` and options.provider outlive the call.
Task<std::vector<Step>> Examine(Loop& loop, Workers& workers, const Url& url, MountOptions options,
                                StepLimits limits = {});

}  // namespace penstock::client
