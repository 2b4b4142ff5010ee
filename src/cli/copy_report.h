// What a copy tells the user: a progress bar, the list of its actions, or JSON for programs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/client_runtime.h"
#include "cli/progress.h"
#include "copying/options.h"

namespace penstock::cli {

struct ReportOptions {
  bool list = false;   // each action
  bool json = false;   // one object for each event
  bool quiet = false;  // no progress bar
};

class CopyReport final : public copying::Observer {
 public:
  // `runtime` prints errors, and outlives this.
  CopyReport(ClientRuntime& runtime, const ReportOptions& options);

  void Started(const std::string& from, const std::string& to, uint64_t octets) override;
  void Done(copying::Action action, const std::string& from, const std::string& to, uint64_t octets) override;
  void Failed(const std::string& from, const std::string& to, const client::Error& error) override;
  void Moved(const copying::Totals& totals) override;

  // An error that concerns no file.
  void Failed(const client::Error& error);
  // Tells the end.
  void Ended(const copying::Totals& totals);

 private:
  void Write(std::string_view text);
  void Draw(const copying::Totals& totals, bool last);

  ClientRuntime& runtime_;
  const ReportOptions options_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::optional<ProgressBar> bar_;
  bool lost_output_ = false;
};

}  // namespace penstock::cli
