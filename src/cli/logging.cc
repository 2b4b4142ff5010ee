#include "cli/logging.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/texts.h"
#include "cli/log_writer.h"
#include "cli/printable.h"

namespace penstock::cli {
namespace {

constexpr int64_t kMicroseconds = 1'000'000;

// sd-daemon(3), as in syslog(3).
int PriorityOf(log::Level level) {
  switch (level) {
    case log::Level::kDebug:
      return 7;
    case log::Level::kInfo:
      return 6;
    case log::Level::kWarn:
      return 4;
    case log::Level::kError:
      break;
  }
  return 3;
}

// The levels of SetUpLogging().
std::vector<LogLevelSetting>& Levels() {
  static std::vector<LogLevelSetting> levels;
  return levels;
}
void SetLevels() {
  for (const LogLevelSetting& each : Levels()) {
    each.module.empty() ? log::SetLogLevel(each.least) : void(log::SetLogLevel(each.module, each.least));
  }
}

std::string ToLocalTime(int64_t time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}", fmt::localtime(static_cast<std::time_t>(time / kMicroseconds)),
                     time % kMicroseconds / 1000);
}

std::string ToJson(const log::Record& record, int64_t time) {
  nlohmann::ordered_json line{{"time", UtcText(time)},
                              {"level", log::ToString(record.level)},
                              {"module", record.module},
                              {"message", record.message}};
  for (const log::Field& field : record.fields) line[std::string(field.key)] = field.value;
  // A message may quote names that are not UTF-8.
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

std::optional<LogFormat> ParseLogFormat(std::string_view word) {
  if (word == "text") return LogFormat::kText;
  if (word == "json") return LogFormat::kJson;
  if (word == "journal") return LogFormat::kJournal;
  return std::nullopt;
}

LogFormat FormatForStderr() {
  // Read before the program has threads that change the environment.
  const char* const stream = std::getenv("JOURNAL_STREAM");  // NOLINT(concurrency-mt-unsafe)
  struct stat status{};
  if (!stream || ::fstat(STDERR_FILENO, &status) != 0) return LogFormat::kText;
  const bool is_journal = stream == fmt::format("{}:{}", status.st_dev, status.st_ino);
  return is_journal ? LogFormat::kJournal : LogFormat::kText;
}

SetupResult<LogLevelSetting> ParseLogLevel(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string word = equals == std::string::npos ? text : text.substr(equals + 1);
  const auto level = log::ParseLevel(word);
  if (!level) {
    return std::unexpected(
        SetupError{fmt::format("\"{}\" is not a level: debug, info, warning or error, or MODULE=LEVEL", word)});
  }
  LogLevelSetting setting{.least = *level};
  if (equals == std::string::npos) return setting;
  setting.module = text.substr(0, equals);
  if (!log::IsModule(setting.module)) {
    return std::unexpected(
        SetupError{fmt::format("no module \"{}\"; they are: {}", setting.module, fmt::join(log::kModules, ", "))});
  }
  return setting;
}

log::Level LevelFor(unsigned verbosity) {
  return verbosity == 0 ? log::Level::kWarn : verbosity == 1 ? log::Level::kInfo : log::Level::kDebug;
}

std::string FormatLogLine(LogFormat format, const log::Record& record, int64_t time) {
  switch (format) {
    case LogFormat::kJson:
      return ToJson(record, time);
    case LogFormat::kJournal:
      return fmt::format("<{}>{}", PriorityOf(record.level), Printable(record.message));
    case LogFormat::kText:
      break;
  }
  return fmt::format("{} {} {}", ToLocalTime(time), log::ToString(record.level), Printable(record.message));
}

void LogToSyslog() {
  ::openlog("penstock", LOG_PID, LOG_DAEMON);
  log::SetSink(
      [](const log::Record& record) { ::syslog(PriorityOf(record.level), "%s", Printable(record.message).c_str()); });
  SetLevels();
}

void SetUpLogging(const LogSettings& settings, std::shared_ptr<LogWriter> writer) {
  if (writer) writer->SetFormat(settings.format);
  log::SetSink([format = settings.format, writer = std::move(writer)](const log::Record& record) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    std::string line =
        FormatLogLine(format, record, std::chrono::duration_cast<std::chrono::microseconds>(now).count());
    line += '\n';
    if (writer) return writer->Add(std::move(line));
    // stderr has no buffer: this is one write(2), so that lines of several processes do not mix.
    std::fwrite(line.data(), 1, line.size(), stderr);
  });
  Levels() = settings.levels;
  SetLevels();
}

}  // namespace penstock::cli
