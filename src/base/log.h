// Logging: messages for the operator of the process. The library prints nothing by itself. The host process installs
// one sink with SetSink(), and the sink receives every message of the library; without a sink the messages are dropped.
// A thread may have a Logger of its own instead, so that parts of one process (two servers, say) log to different
// places.
//
// A message belongs to a module: the folder of the source file that logs it ("rpc.gss" for src/rpc/gss). Each module
// has a level of its own, which may change at any time. A message below the level of its module costs one load.
//
// Bytes that a peer sent are quoted in bounded, printable form only. Nothing on the data path logs above debug level.
#pragma once

#include <fmt/core.h>

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock::log {

enum class Level : uint8_t { kDebug, kInfo, kWarn, kError };
inline constexpr size_t kLevels = 4;

// "debug", "info", "warning" or "error".
std::string_view ToString(Level level);
// The level of such a word; "warn" is accepted as well.
std::optional<Level> ParseLevel(std::string_view word);

// ---- modules ----

// All modules, sorted. A folder that is not listed belongs to the module of the folder around it. A test compares the
// list with the folders.
inline constexpr std::array<std::string_view, 43> kModules{
    "base",    "cli",        "client",          "client.nfs3",  "client.nfs4",  "cluster",   "control",
    "copying", "fs",         "fs.faulty",       "fs.posix",     "fuse",         "idmap",     "library",
    "metrics", "nfs",        "nfs.acl",         "nfs.mount",    "nfs.nlm",      "nfs.quota", "nfs.v2",
    "nfs.v3",  "nfs.v4",     "nfs.v4.callback", "nfs.v4.state", "nfs_protocol", "objects",   "other",
    "rdma",    "rdma.iwarp", "rdma.trace",      "rdma.verbs",   "refusals",     "rpc",       "rpc.gss",
    "rpc.tcp", "rpc.tls",    "rpc.udp",         "rpcbind",      "rpcrdma",      "server",    "watch",
    "xdr"};

// A place in kModules.
enum class Module : uint8_t {};
constexpr std::string_view NameOf(Module module) { return kModules[static_cast<size_t>(module)]; }

// Requires a name in kModules.
consteval Module Named(std::string_view name) {
  for (size_t i = 0; i < kModules.size(); ++i) {
    if (kModules[i] == name) return static_cast<Module>(i);
  }
  throw "no such module";
}

// The module of a source file. Files outside src belong to "other": those of programs that embed the library.
constexpr Module ModuleOf(std::string_view file) {
  constexpr std::string_view kSources = "src/";
  size_t best = static_cast<size_t>(Named("other"));
  const size_t sources = file.rfind(kSources);
  if (sources == std::string_view::npos || (sources > 0 && file[sources - 1] != '/')) return static_cast<Module>(best);
  file.remove_prefix(sources + kSources.size());
  size_t longest = 0;
  for (size_t i = 0; i < kModules.size(); ++i) {
    const std::string_view name = kModules[i];
    if (name.size() <= longest || file.size() <= name.size() || file[name.size()] != '/') continue;
    bool same = true;
    for (size_t at = 0; at < name.size() && same; ++at) same = file[at] == (name[at] == '.' ? '/' : name[at]);
    if (!same) continue;
    best = i;
    longest = name.size();
  }
  return static_cast<Module>(best);
}

consteval Module ModuleHere(std::source_location where = std::source_location::current()) {
  return ModuleOf(where.file_name());
}

// ---- the sink ----

// A part of a message for programs that read the log.
struct Field {
  std::string_view key;
  std::string_view value;
};
using Fields = std::span<const Field>;

// One message, without a time, and without a line break in its text. All views end with the call of the sink.
struct Record {
  Level level = Level::kDebug;
  std::string_view module;
  std::string_view message;
  Fields fields{};
};

// One thread at a time calls the sink. The sink must not log, and should not block: the thread that logs waits for it.
using Sink = std::function<void(const Record& record)>;

// Sends messages of the level `least` and above, of all modules, to `sink` from now on, but those of threads that have
// a logger. An empty sink drops all
// messages, as before the first call. When this returns, the previous sink is no longer running and is not called
// again. Any thread.
void SetSink(Sink sink, Level least = Level::kWarn);

// A sink for the messages of some threads, with a level of its own. Any thread.
class Logger {
 public:
  // A message that the sink itself logs is dropped.
  Logger(Sink sink, Level least);
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  // Sets the lowest level that the sink gets, of all modules.
  void SetLevel(Level least);
  // Drops all messages from now on. When this returns, the sink is no longer running and is not called again. Not
  // called by the sink.
  void End();

  bool Takes(Level level) const {
    return static_cast<size_t>(level) + taken_.load(std::memory_order_relaxed) >= kLevels;
  }
  void Pass(const Record& record);

 private:
  std::mutex mutex_;  // guards `sink_`, and is held while the sink runs
  Sink sink_;
  std::atomic<uint8_t> taken_;  // how many levels the sink takes: the highest ones
};

// The logger of the calling thread; null if its messages go to the process's sink.
std::shared_ptr<Logger> ThreadLogger();

// While an instance lives, the messages of the calling thread go to `logger`, or to the process's sink if that is null.
class ThreadLoggerScope {
 public:
  explicit ThreadLoggerScope(std::shared_ptr<Logger> logger);
  ~ThreadLoggerScope();
  ThreadLoggerScope(const ThreadLoggerScope&) = delete;
  ThreadLoggerScope& operator=(const ThreadLoggerScope&) = delete;

 private:
  std::shared_ptr<Logger> before_;
};

// ---- levels of the process's sink, while the process runs. Any thread; a message that another thread logs meanwhile
// may follow either level.

// Sets the lowest level that the sink gets, of all modules.
void SetLogLevel(Level least);
// The same for one module with those below it: "rpc" is "rpc.tcp" as well. The name may leave out the outer folders:
// "iwarp" is "rdma.iwarp". Returns false, and changes nothing, if there is no such module.
bool SetLogLevel(std::string_view module, Level least);
// Whether SetLogLevel() knows the module.
bool IsModule(std::string_view module);
// The levels of all modules, in the order of kModules; none of a module without a sink.
struct ModuleLevel {
  std::string_view module;
  std::optional<Level> least;
};
std::vector<ModuleLevel> LogLevels();

namespace internal {

// For each module, how many levels some sink takes, that of the process or that of a logger: the highest ones.
extern std::array<std::atomic<uint8_t>, kModules.size()> taken;

// Whether the sink of the calling thread takes messages of this level.
bool TakesHere(Level level, Module module);

}  // namespace internal

// Whether the sink of the calling thread takes messages of this level.
inline bool Takes(Level level, Module module) {
  const uint8_t taken = internal::taken[static_cast<size_t>(module)].load(std::memory_order_relaxed);
  return static_cast<size_t>(level) + taken >= kLevels && internal::TakesHere(level, module);
}

// ---- messages. Any thread.

// Formats `text` and passes it to the sink, unless the sink does not take messages of `level`.
void Write(Level level, Module module, fmt::string_view text, fmt::format_args arguments);
// The same for a message that is complete, with its fields.
void Write(Level level, Module module, std::string_view message, Fields fields);

// The text of a message, which is checked against its arguments, and the place that logs it.
template <class... Args>
class Text {
 public:
  template <class String>
    requires std::convertible_to<const String&, std::string_view>
  consteval Text(const String& text,  // NOLINT(google-explicit-constructor)
                 std::source_location where = std::source_location::current())
      : text_(text), module_(ModuleOf(where.file_name())) {}

  fmt::string_view text() const { return text_; }
  Module module() const { return module_; }

 private:
  fmt::format_string<Args...> text_;
  Module module_;
};

template <class... Args>
void debug(std::type_identity_t<Text<Args...>> text, Args&&... arguments) {
  if (Takes(Level::kDebug, text.module())) {
    Write(Level::kDebug, text.module(), text.text(), fmt::make_format_args(arguments...));
  }
}
template <class... Args>
void info(std::type_identity_t<Text<Args...>> text, Args&&... arguments) {
  Write(Level::kInfo, text.module(), text.text(), fmt::make_format_args(arguments...));
}
template <class... Args>
void warn(std::type_identity_t<Text<Args...>> text, Args&&... arguments) {
  Write(Level::kWarn, text.module(), text.text(), fmt::make_format_args(arguments...));
}
template <class... Args>
void error(std::type_identity_t<Text<Args...>> text, Args&&... arguments) {
  Write(Level::kError, text.module(), text.text(), fmt::make_format_args(arguments...));
}

// Whether the sink takes debug messages of this module, ModuleHere(). For messages whose arguments are expensive to
// make. (As a default argument, g++ 12 would take the module of this file.)
inline bool debugging(Module module) { return Takes(Level::kDebug, module); }

}  // namespace penstock::log
