// Logging: messages for the operator of the process. The library prints nothing by itself. The host process installs
// one sink with SetSink(), and the sink receives every message of the library; without a sink the messages are dropped.
//
// Bytes that a peer sent are quoted in bounded, printable form only. Nothing on the data path logs above debug level.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace penstock::log {

enum class Level : uint8_t { kDebug, kInfo, kWarn, kError };

// "debug", "info", "warning" or "error".
std::string_view ToString(Level level);

// Receives one message, without a time, a level or a line break in its text. One thread at a time calls the sink. The
// sink must not log, and should not block: the thread that logs waits for it.
using Sink = std::function<void(Level level, std::string_view message)>;

// Sends messages of the level `least` and above to `sink` from now on. An empty sink drops all messages, as before the
// first call. When this returns, the previous sink is no longer running and is not called again. Any thread.
void SetSink(Sink sink, Level least = Level::kWarn);

// Formats `text` and passes it to the sink, unless the sink does not take messages of `level`. Any thread.
void Write(Level level, fmt::string_view text, fmt::format_args arguments);

template <class... Args>
void debug(fmt::format_string<Args...> text, Args&&... arguments) {
  Write(Level::kDebug, text, fmt::make_format_args(arguments...));
}
template <class... Args>
void info(fmt::format_string<Args...> text, Args&&... arguments) {
  Write(Level::kInfo, text, fmt::make_format_args(arguments...));
}
template <class... Args>
void warn(fmt::format_string<Args...> text, Args&&... arguments) {
  Write(Level::kWarn, text, fmt::make_format_args(arguments...));
}
template <class... Args>
void error(fmt::format_string<Args...> text, Args&&... arguments) {
  Write(Level::kError, text, fmt::make_format_args(arguments...));
}

// Whether the sink takes debug messages. For messages whose arguments are expensive to make.
bool debugging();

}  // namespace penstock::log
