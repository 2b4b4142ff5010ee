#include "cli/copy_report.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "cli/output.h"
#include "cli/printable.h"

namespace penstock::cli {
namespace {

using copying::Action;

std::string_view WordOf(Action action) {
  switch (action) {
    case Action::kCopied:
      return "copy";
    case Action::kSkipped:
      return "same";
    case Action::kMadeDirectory:
      return "mkdir";
    case Action::kMadeLink:
      return "symlink";
    case Action::kLinked:
      return "link";
    case Action::kMadeSpecial:
      return "mknod";
    case Action::kDeleted:
      return "delete";
    case Action::kSetAcl:
      return "acl";
    case Action::kSetXattrs:
      return "xattrs";
  }
  return "";
}

// Names need not be UTF-8, which JSON requires: other octets become U+FFFD.
std::string LineOf(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace

CopyReport::CopyReport(ClientRuntime& runtime, const ReportOptions& options) : runtime_(runtime), options_(options) {
  if (!options.quiet && !options.json) bar_.emplace();
}

void CopyReport::Write(std::string_view text) {
  const client::Result<void> written = WriteOutput(text);
  if (written || std::exchange(lost_output_, true)) return;
  runtime_.Report(written.error());
}

void CopyReport::Started(const std::string& from, const std::string& to, uint64_t octets) {
  if (!options_.json) return;
  Write(LineOf({{"event", "start"}, {"from", from}, {"to", to}, {"octets", octets}}));
}

void CopyReport::Done(Action action, const std::string& from, const std::string& to, uint64_t octets) {
  if (options_.json) {
    nlohmann::ordered_json object = {{"event", "file"}, {"action", WordOf(action)}};
    if (!from.empty()) object["from"] = from;
    object["to"] = to;
    if (action == Action::kCopied) object["octets"] = octets;
    Write(LineOf(object));
    return;
  }
  if (!options_.list || action == Action::kSkipped) return;
  if (bar_) bar_->Clear();
  const std::string source = from.empty() ? "" : from + " -> ";
  Write(fmt::format("{} {}\n", WordOf(action), Printable(source + to)));
}

void CopyReport::Failed(const std::string& from, const std::string& to, const client::Error& error) {
  client::Error named = error;
  std::string name = from;
  if (!to.empty() && !from.empty()) name += " -> ";
  name += to;
  named.message = fmt::format("{}: {}", name, error.message);
  if (options_.json) {
    nlohmann::ordered_json object = {{"event", "error"}, {"from", from}, {"to", to}, {"message", error.message}};
    Write(LineOf(object));
  }
  if (bar_) bar_->Clear();
  runtime_.Report(named);
}

void CopyReport::Failed(const client::Error& error) {
  if (options_.json) Write(LineOf({{"event", "error"}, {"message", error.message}}));
  if (bar_) bar_->Clear();
  runtime_.Report(error);
}

void CopyReport::Moved(const copying::Totals& totals) { Draw(totals, false); }

void CopyReport::Draw(const copying::Totals& totals, bool last) {
  if (!bar_) return;
  const uint64_t done = totals.files + totals.skipped;
  const std::string files = totals.files_found > 1 ? fmt::format("{} of {} files  ", done, totals.files_found) : "";
  bar_->Show(totals.octets, totals.octets_found, files, last);
}

void CopyReport::Ended(const copying::Totals& totals) {
  if (options_.json) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin_;
    const nlohmann::ordered_json object = {{"event", "end"},
                                           {"files", totals.files},
                                           {"octets", totals.octets},
                                           {"same", totals.skipped},
                                           {"others", totals.others},
                                           {"mended", totals.mended},
                                           {"deleted", totals.deleted},
                                           {"errors", totals.errors},
                                           {"seconds", seconds.count()}};
    Write(LineOf(object));
  }
  if (totals.files_found > 1) Draw(totals, true);
  bar_.reset();
}

}  // namespace penstock::cli
