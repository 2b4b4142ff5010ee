// Standard output of a command. A full disk and a closed pipe are errors of the command, which name standard output:
// no command ends with success whose output is lost.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "client/error.h"

namespace penstock::cli {

// The beginning of the errors.
inline constexpr std::string_view kStandardOutput = "standard output: ";

// Writes the text to the buffer of standard output. An error may concern earlier texts.
[[nodiscard]] client::Result<void> WriteOutput(std::string_view text);

// The same for a text that fmt::format() makes.
template <class... Values>
[[nodiscard]] client::Result<void> Print(fmt::format_string<Values...> format, Values&&... values) {
  return WriteOutput(fmt::format(format, std::forward<Values>(values)...));
}

// Writes what the buffer holds. RunProgram() calls it after each command: a command does so only to show a line at
// once.
[[nodiscard]] client::Result<void> FlushOutput();

// Writes the text at once. Prints an error on stderr. Returns the exit code, 0 or 1.
[[nodiscard]] int PrintOutput(std::string_view text);

}  // namespace penstock::cli
