#include "base/log.h"

#include <fmt/format.h>

#include <atomic>
#include <iterator>
#include <mutex>
#include <utility>

namespace penstock::log {
namespace {

constexpr int kNoLevel = static_cast<int>(Level::kError) + 1;

struct Destination {
  std::atomic<int> least = kNoLevel;  // the lowest level that the sink takes
  std::mutex mutex;                   // guards `sink`, and is held while the sink runs
  Sink sink;
};

// Never destroyed: threads may log while the process ends.
Destination& TheDestination() {
  static auto* const destination = new Destination;
  return *destination;
}

bool IsTaken(Level level) { return static_cast<int>(level) >= TheDestination().least.load(std::memory_order_relaxed); }

void Pass(Level level, std::string_view message) {
  Destination& to = TheDestination();
  const std::scoped_lock lock(to.mutex);
  if (to.sink) to.sink(level, message);
}

}  // namespace

std::string_view ToString(Level level) {
  switch (level) {
    case Level::kDebug:
      return "debug";
    case Level::kInfo:
      return "info";
    case Level::kWarn:
      return "warning";
    case Level::kError:
      break;
  }
  return "error";
}

void SetSink(Sink sink, Level least) {
  Destination& to = TheDestination();
  const std::scoped_lock lock(to.mutex);
  to.least = sink ? static_cast<int>(least) : kNoLevel;
  to.sink = std::move(sink);
}

void Write(Level level, fmt::string_view text, fmt::format_args arguments) {
  if (!IsTaken(level)) return;
  fmt::memory_buffer line;
  try {
    fmt::vformat_to(std::back_inserter(line), text, arguments);
  } catch (const fmt::format_error& why) {
    // For example a width argument is out of range. An error in logging must not end the caller.
    Pass(Level::kError, fmt::format("a message cannot be formatted: {}", why.what()));
    return;
  }
  Pass(level, std::string_view(line.data(), line.size()));
}

bool debugging() { return IsTaken(Level::kDebug); }

}  // namespace penstock::log
