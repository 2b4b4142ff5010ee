#include "base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

namespace penstock::log {

constinit std::array<std::atomic<uint8_t>, kModules.size()> internal::taken{};

namespace {

struct Destination {
  std::mutex mutex;  // guards `sink`, and is held while the sink runs
  Sink sink;
};

// Never destroyed: threads may log while the process ends.
Destination& TheDestination() {
  static auto* const destination = new Destination;
  return *destination;
}

thread_local std::shared_ptr<Logger> thread_logger;
thread_local bool logger_is_running = false;  // on this thread

void Pass(const Record& record) {
  if (thread_logger) return thread_logger->Pass(record);
  Destination& to = TheDestination();
  const std::scoped_lock lock(to.mutex);
  if (to.sink) to.sink(record);
}

constexpr uint8_t TakenFrom(Level least) { return static_cast<uint8_t>(kLevels - static_cast<size_t>(least)); }

// How many levels each sink takes. The lock orders changes; messages read without it.
struct Levels {
  std::mutex mutex;
  std::array<std::atomic<uint8_t>, kModules.size()> of_process{};
  std::array<size_t, kLevels + 1> loggers{};  // how many of them take that many levels

  // The following methods require the lock.
  void SetProcess(size_t module, uint8_t taken) {
    of_process[module].store(taken, std::memory_order_relaxed);
    Refresh(module);
  }
  void Add(uint8_t taken) {
    ++loggers[taken];
    RefreshAll();
  }
  void Remove(uint8_t taken) {
    --loggers[taken];
    RefreshAll();
  }

 private:
  void Refresh(size_t module) {
    size_t most = of_process[module].load(std::memory_order_relaxed);
    for (size_t taken = most + 1; taken <= kLevels; ++taken) {
      if (loggers[taken] > 0) most = taken;
    }
    internal::taken[module].store(static_cast<uint8_t>(most), std::memory_order_relaxed);
  }
  void RefreshAll() {
    for (size_t module = 0; module < kModules.size(); ++module) Refresh(module);
  }
};

// Never destroyed, like the destination.
Levels& TheLevels() {
  static auto* const levels = new Levels;
  return *levels;
}

void SetAll(uint8_t taken) {
  Levels& levels = TheLevels();
  const std::scoped_lock lock(levels.mutex);
  for (size_t module = 0; module < kModules.size(); ++module) levels.SetProcess(module, taken);
}

// Whether `module` is the one that `name` names, or lies below it.
bool IsIn(std::string_view module, std::string_view name) {
  return module.starts_with(name) && (module.size() == name.size() || module[name.size()] == '.');
}

// Returns the full name, or an empty text if there is no such module.
std::string_view FullName(std::string_view name) {
  if (name.empty()) return {};
  if (const auto found = std::ranges::find(kModules, name); found != kModules.end()) return *found;
  const auto ends_with = [&](std::string_view module) {
    return module.size() > name.size() && module.ends_with(name) && module[module.size() - name.size() - 1] == '.';
  };
  const auto found = std::ranges::find_if(kModules, ends_with);
  return found == kModules.end() ? std::string_view() : *found;
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

std::optional<Level> ParseLevel(std::string_view word) {
  if (word == "warn") return Level::kWarn;
  for (const Level each : {Level::kDebug, Level::kInfo, Level::kWarn, Level::kError}) {
    if (word == ToString(each)) return each;
  }
  return std::nullopt;
}

void SetSink(Sink sink, Level least) {
  Destination& to = TheDestination();
  const std::scoped_lock lock(to.mutex);
  SetAll(sink ? TakenFrom(least) : 0);
  to.sink = std::move(sink);
}

Logger::Logger(Sink sink, Level least) : sink_(std::move(sink)), taken_(TakenFrom(least)) {
  const std::scoped_lock lock(TheLevels().mutex);
  TheLevels().Add(taken_);
}

Logger::~Logger() {
  const std::scoped_lock lock(TheLevels().mutex);
  TheLevels().Remove(taken_);
}

void Logger::SetLevel(Level least) {
  const std::scoped_lock lock(TheLevels().mutex);
  const uint8_t before = taken_.exchange(TakenFrom(least));
  TheLevels().Add(taken_);
  TheLevels().Remove(before);
}

void Logger::End() {
  const std::scoped_lock lock(mutex_);
  sink_ = {};
}

void Logger::Pass(const Record& record) {
  if (logger_is_running) return;
  const std::scoped_lock lock(mutex_);
  if (!sink_) return;
  logger_is_running = true;
  sink_(record);
  logger_is_running = false;
}

std::shared_ptr<Logger> ThreadLogger() { return thread_logger; }

ThreadLoggerScope::ThreadLoggerScope(std::shared_ptr<Logger> logger)
    : before_(std::exchange(thread_logger, std::move(logger))) {}

ThreadLoggerScope::~ThreadLoggerScope() { thread_logger = std::move(before_); }

bool internal::TakesHere(Level level, Module module) {
  if (thread_logger) return thread_logger->Takes(level);
  const size_t levels = TheLevels().of_process[static_cast<size_t>(module)].load(std::memory_order_relaxed);
  return static_cast<size_t>(level) + levels >= kLevels;
}

void SetLogLevel(Level least) { SetAll(TakenFrom(least)); }

bool SetLogLevel(std::string_view module, Level least) {
  const std::string_view name = FullName(module);
  if (name.empty()) return false;
  Levels& levels = TheLevels();
  const std::scoped_lock lock(levels.mutex);
  for (size_t i = 0; i < kModules.size(); ++i) {
    if (IsIn(kModules[i], name)) levels.SetProcess(i, TakenFrom(least));
  }
  return true;
}

bool IsModule(std::string_view module) { return !FullName(module).empty(); }

std::vector<ModuleLevel> LogLevels() {
  std::vector<ModuleLevel> levels;
  for (size_t i = 0; i < kModules.size(); ++i) {
    const size_t taken = TheLevels().of_process[i].load(std::memory_order_relaxed);
    const auto least = taken == 0 ? std::nullopt : std::optional(static_cast<Level>(kLevels - taken));
    levels.push_back({.module = kModules[i], .least = least});
  }
  return levels;
}

void Write(Level level, Module module, fmt::string_view text, fmt::format_args arguments) {
  if (!Takes(level, module)) return;
  fmt::memory_buffer line;
  try {
    fmt::vformat_to(std::back_inserter(line), text, arguments);
  } catch (const fmt::format_error& why) {
    // For example a width argument is out of range. An error in logging must not end the caller.
    const std::string message = fmt::format("a message cannot be formatted: {}", why.what());
    Pass({.level = Level::kError, .module = NameOf(module), .message = message});
    return;
  }
  Pass({.level = level, .module = NameOf(module), .message = std::string_view(line.data(), line.size())});
}

void Write(Level level, Module module, std::string_view message, Fields fields) {
  if (Takes(level, module)) {
    Pass({.level = level, .module = NameOf(module), .message = message, .fields = fields});
  }
}

}  // namespace penstock::log
