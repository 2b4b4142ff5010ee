// The parts of a URL that describe how a client works: how long it waits, what it caches, whose locks the server has.
// The names are those of the options of nfs(5).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/timer.h"

namespace penstock::client {

// An option of a URL that stands elsewhere: on the command line, in the environment or in a file of defaults.
struct UrlOption {
  std::string name{};
  std::optional<std::string> value{};  // absent: the option is written without a value
  // The place for messages, such as "-o soft" or "config.toml:3".
  std::string source{};
};

// The addresses of a host that a connection may use.
enum class AddressFamily : uint8_t { kAny, kIpv4, kIpv6 };

// A call never ends for lack of a reply. No sum of a time and this overflows.
inline constexpr Duration kNoTimeLimit = std::chrono::hours(24 * 365 * 30);

// How long the client repeats a call whose server does not answer.
struct RecoveryOptions {
  enum class Kind : uint8_t {
    kTimeout,  // for `timeout`
    kSoft,     // until `retrans` repetitions had no reply
    kHard,     // without an end
  };
  Kind kind = Kind::kTimeout;
  uint32_t timeout = 600;  // seconds
  // The client waits so many tenths of a second for a reply before it makes another connection and repeats the call.
  uint32_t timeo = 600;
  uint32_t retrans = 2;

  // The time limit of a call, over any number of connections.
  Duration CallLimit() const;
  // The time limit of the first attempt. Later ones wait longer, see ReconnectingChannel.
  Duration ReplyLimit() const { return timeo * std::chrono::milliseconds(100); }
  // Ends calls after at most so many seconds.
  void LimitTo(uint32_t seconds);
  bool operator==(const RecoveryOptions&) const = default;
};

// What a file system of `penstock mount` caches. Other users of a mount do not cache.
struct CacheOptions {
  bool attributes = true;  // noac: false; then writes are synchronous as well
  // Seconds for which attributes of files and directories are cached.
  uint32_t file_min = 3;
  uint32_t file_max = 60;
  uint32_t directory_min = 30;
  uint32_t directory_max = 60;
  bool close_to_open = true;
  enum class Names : uint8_t { kAll, kPositive, kNone };
  Names names = Names::kAll;
  bool operator==(const CacheOptions&) const = default;
};

// Which locks of a file system of `penstock mount` the server has. The others exist on this host only.
struct LockOptions {
  bool flock_on_server = true;
  bool posix_on_server = true;
  bool operator==(const LockOptions&) const = default;
};

}  // namespace penstock::client
