#include "cli/logging.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string_view>

#include "base/log.h"

namespace penstock::cli {
namespace {

spdlog::level::level_enum SpdlogLevelOf(log::Level level) {
  switch (level) {
    case log::Level::kDebug:
      return spdlog::level::debug;
    case log::Level::kInfo:
      return spdlog::level::info;
    case log::Level::kWarn:
      return spdlog::level::warn;
    case log::Level::kError:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

void SetUpLogging(unsigned verbosity) {
  const log::Level least = verbosity == 0 ? log::Level::kWarn : verbosity == 1 ? log::Level::kInfo : log::Level::kDebug;
  auto logger = std::make_shared<spdlog::logger>("penstock", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  logger->set_level(spdlog::level::debug);
  log::SetSink(
      [logger](log::Level level, std::string_view message) {
        logger->log(SpdlogLevelOf(level), spdlog::string_view_t(message.data(), message.size()));
      },
      least);
}

}  // namespace penstock::cli
