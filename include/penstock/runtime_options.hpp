/**
 * @file
 * The settings of runtimes.
 */
#ifndef PENSTOCK_RUNTIME_OPTIONS_HPP
#define PENSTOCK_RUNTIME_OPTIONS_HPP

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "penstock/penstock.h"

namespace penstock::inline v1 {

/** How important a message is. */
enum class LogLevel {
  kDebug = PENSTOCK_LOG_DEBUG,     /**< For developers. */
  kInfo = PENSTOCK_LOG_INFO,       /**< Something normal has happened. */
  kWarning = PENSTOCK_LOG_WARNING, /**< Something is wrong, and the library goes on. */
  kError = PENSTOCK_LOG_ERROR      /**< Something has failed. */
};

/** The settings of a Runtime. */
struct RuntimeOptions {
  /**
   * The number of event loops, each on a thread of its own. Mounts are spread over them. Zero: there is one loop, which
   * the program drives by Runtime::descriptor() and Runtime::Dispatch(). At most 256.
   */
  unsigned threads = 1;
  /**
   * The most threads for calls of the system that block: the look-up of a server's name, Kerberos, local files.
   * Zero: 16. From 4 to 1024.
   */
  unsigned blocking_threads = 0;
  /**
   * Receives the messages of the runtime: one line each, without a line break. `module` names the part of the library,
   * such as "rdma.iwarp". All threads of the runtime call the function, one at a time. It must not use objects of this
   * library and should not block. An exception that leaves it ends the process. Empty: messages are dropped.
   */
  std::function<void(LogLevel level, std::string_view module, std::string_view message)> log{};
  /** The least important messages that `log` gets. */
  LogLevel log_level = LogLevel::kWarning;
  /**
   * How connections over RDMA are made: "verbs" by an RDMA adapter, "iwarp" in software, "auto" by an adapter if one
   * leads to the server, otherwise in software. Empty: "auto".
   */
  std::string rdma{};
  /** The only RDMA adapter to use, such as "mlx5_0". Empty: any. */
  std::string rdma_device{};
  /**
   * Makes all connections over RDMA, in the place of `rdma` and `rdma_device`, which must be empty: Provider::shared()
   * of provider.hpp. The runtime keeps it alive. Null: the program has none.
   */
  std::shared_ptr<penstock_provider> provider{};
};

/** A duration that stands for no time limit, where a function takes a time limit. So does any longer duration. */
inline constexpr std::chrono::milliseconds kNoLimit = std::chrono::hours(24 * 365 * 100);

}  // namespace penstock::inline v1

#endif
