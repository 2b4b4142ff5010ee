#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <iterator>

namespace penstock::log {
namespace {

spdlog::level::level_enum Of(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

void Write(Level level, fmt::string_view text, fmt::format_args arguments) {
  spdlog::logger* const logger = spdlog::default_logger_raw();
  if (!logger->should_log(Of(level))) return;
  try {
    fmt::memory_buffer line;
    fmt::vformat_to(std::back_inserter(line), text, arguments);
    logger->log(Of(level), spdlog::string_view_t(line.data(), line.size()));
  } catch (
      const fmt::format_error& why) {  // for example from a width argument; an error in logging must not end the caller
    logger->error("a message cannot be formatted: {}", why.what());
  }
}

bool debugging() { return spdlog::should_log(spdlog::level::debug); }

}  // namespace penstock::log
