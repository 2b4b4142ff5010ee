// A mistake or a doubt in a file of the configuration, with its place. Checks return lists of findings, so that one run
// shows the operator all mistakes of a file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <tuple>
#include <vector>

namespace penstock {

enum class Severity : unsigned char {
  kWarning,  // the server starts
  kError,    // the server does not start, or keeps its configuration
};

struct Finding {
  std::string file{};  // empty: the finding is about the command line or the environment
  size_t line = 0;     // from 1; 0: the finding is about the whole file
  Severity severity = Severity::kError;
  std::string message{};  // one line without a full stop
};

// Sorts the findings of a file by their lines, and those of a line by their messages.
inline void SortByLine(std::vector<Finding>& findings) {
  std::ranges::sort(findings, {}, [](const Finding& each) { return std::tie(each.line, each.message); });
}

// "FILE:LINE: message", "FILE: message" or "message"; a warning has "warning: " before its message.
inline std::string ToString(const Finding& finding) {
  std::string text = finding.file;
  if (!text.empty() && finding.line > 0) text += ":" + std::to_string(finding.line);
  if (!text.empty()) text += ": ";
  if (finding.severity == Severity::kWarning) text += "warning: ";
  return text + finding.message;
}

}  // namespace penstock
