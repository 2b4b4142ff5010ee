// What a client command runs in: one loop on this thread, a few threads for calls that block, and RDMA.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/workers.h"
#include "cli/commands.h"
#include "client/mount.h"
#include "rdma/choice/choice.h"
#include "rdma/provider.h"
#include "rdma/trace/file.h"

namespace penstock::cli {

class ClientRuntime {
 public:
  // `trace`: a capture file of the RDMA connections; empty: none.
  explicit ClientRuntime(const std::string& trace = {}, const RdmaOptions& rdma = {});
  ~ClientRuntime();

  Loop& loop() { return loop_; }
  Workers& workers() { return workers_; }

  // Mounts the export that `url` leads into, and gives it back when `use` is done with it.
  using Use = std::function<Task<client::Result<void>>(client::Mount&)>;
  Task<client::Result<void>> WithMount(const client::Url& url, Use use);

  // Runs `command` to its end, and gives the exit code; an error, of the set-up too, is printed to stderr as one line.
  int Run(Task<client::Result<void>> command);

 private:
  Loop loop_;
  Workers workers_{16};  // one user of a pool gets a quarter
  const rdma::Choice choice_;
  const std::shared_ptr<rdma::verbs::Registry> registry_ = std::make_shared<rdma::verbs::Registry>();
  SetupResult<std::unique_ptr<rdma::trace::File>> trace_;   // null without a trace
  std::vector<std::unique_ptr<rdma::Provider>> providers_;  // one for each mount
};

// The options are among those that the command line allows.
rdma::Choice ChoiceOf(const RdmaOptions& options);

// A URL from the command line, and the version from its options, unless that is empty.
SetupResult<client::Url> ParseUrl(const std::string& text, const std::string& vers);

// Mounts what each URL leads into, in turn, and uses it, until one fails; none is mounted where one is no URL. Gives the
// exit code.
using UseMount = std::function<Task<client::Result<void>>(ClientRuntime&, client::Mount&)>;
int RunOnMounts(const std::vector<std::string>& urls, const ClientOptions& options, const UseMount& use);

// One line on stderr, with the program's name.
void PrintError(const std::string& message);

}  // namespace penstock::cli
