// Where the program's log messages go, and in which form.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/result.h"

namespace penstock::cli {

class LogWriter;

enum class LogFormat : uint8_t {
  kText,     // a time, a level and the message
  kJson,     // one object in each line
  kJournal,  // the message behind the priority that systemd reads (sd-daemon(3)): "<4>"
};

// Parses "text", "json" or "journal".
std::optional<LogFormat> ParseLogFormat(std::string_view word);
// kJournal if stderr is connected to the journal of systemd (systemd.exec(5), JOURNAL_STREAM), else kText.
LogFormat FormatForStderr();

// A level for all modules, or for one: "debug", "rpc.gss=info".
struct LogLevelSetting {
  std::string module{};  // empty: all
  log::Level least = log::Level::kWarn;
};
// The error does not name the option.
SetupResult<LogLevelSetting> ParseLogLevel(const std::string& text);

struct LogSettings {
  LogFormat format = LogFormat::kText;
  // In the order in which they apply: a later one changes what an earlier one has set. At first all modules log
  // warnings and errors.
  std::vector<LogLevelSetting> levels{};
};

// The level of all modules for so many options -v. 0: warnings and errors; 1: also informational messages; 2 and more:
// also debug messages.
log::Level LevelFor(unsigned verbosity);

// Writes the library's log messages to stderr from now on, one line each: through `writer` (cli/log_writer.h), or,
// without one, on the thread that logs, which then waits for the reader of stderr. One thread at a time.
void SetUpLogging(const LogSettings& settings, std::shared_ptr<LogWriter> writer = nullptr);

// Sends the library's log messages to the log of this host (syslog(3)) from now on, with the levels of SetUpLogging().
// For a program that has left its terminal. Not while another thread sets up logging.
void LogToSyslog();

// Returns the line of a message, without its end. `time`: microseconds since 1970, in UTC.
std::string FormatLogLine(LogFormat format, const log::Record& record, int64_t time);

}  // namespace penstock::cli
