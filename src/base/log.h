// Logging: messages for the operator, through the one logger that main sets up. What a peer sent is quoted only in
// bounded, printable form. Nothing on the data path logs above debug level.
#pragma once

#include <fmt/core.h>

#include <cstdint>

namespace penstock::log {

enum class Level : uint8_t { kDebug, kInfo, kWarn, kError };

// Formats `text` where messages of `level` are wanted. Any thread.
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

// For messages whose arguments cost something to make.
bool debugging();

}  // namespace penstock::log
