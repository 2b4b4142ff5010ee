// The environment of a client command: one loop on this thread, a few threads for calls that block, and RDMA.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/workers.h"
#include "cli/common_options.h"
#include "client/mount.h"
#include "idmap/lookups.h"
#include "idmap/mapper.h"
#include "rdma/choice/choice.h"
#include "rdma/provider.h"
#include "rdma/trace/file.h"

namespace penstock::cli {

class ClientRuntime {
 public:
  // `trace`: the capture file of the RDMA connections; empty: none.
  explicit ClientRuntime(const std::string& trace = {}, const RdmaOptions& rdma = {},
                         client::KerberosOptions kerberos = {});
  ~ClientRuntime();

  Loop& loop() { return loop_; }
  Workers& workers() { return workers_; }

  // Returns options for a mount of `url`, with a provider of its own, which lives as long as the runtime.
  client::MountOptions MountOptionsFor(const client::Url& url);
  // For commands that use each file once: later mounts do not ask for delegations, whose return costs a call.
  void WantNoDelegations() { wants_delegations_ = false; }
  // Later mounts remember their locks there: see client::MountOptions.
  void set_lock_records(std::filesystem::path directory) { lock_records_ = std::move(directory); }
  // Later mounts trust their directories for so long: see client::MountOptions.
  void set_trust_in_directories(Duration trust) { trust_in_directories_ = trust; }
  // Mounts the export that `url` leads into. The caller unmounts it, with End(). Most commands use Mounts
  // (cli/mounts.h) instead, which mounts each export once.
  Task<client::Result<std::unique_ptr<client::Mount>>> OpenMount(const client::Url& url);
  // The same with these options, which are those of MountOptionsFor() but for what the caller has changed.
  Task<client::Result<std::unique_ptr<client::Mount>>> OpenMount(const client::Url& url, client::MountOptions options);
  // Unmounts. No other call of the mount is under way.
  Task<void> End(std::unique_ptr<client::Mount> mount);
  // Mounts the export that `url` leads into, runs `use` with the mount, and unmounts.
  using Use = std::function<Task<client::Result<void>>(client::Mount&)>;
  Task<client::Result<void>> WithMount(const client::Url& url, Use use);
  // Runs `use` with the mount, and unmounts.
  Task<client::Result<void>> UseMount(std::unique_ptr<client::Mount> mount, Use use);

  // From now on, mounts send names of owners and groups to servers of version 4 that do not accept numbers. Without a
  // domain it is that of this host (idmap::FindDomain()).
  Task<void> MapOwners(std::optional<std::string> domain);

  // Runs `command` to its end, and returns the exit code. Prints an error, of the set-up as well, as one line on
  // stderr.
  int Run(Task<client::Result<void>> command);
  // Prints an error of a command that goes on after it. Then Run() returns 1.
  void Report(const client::Error& error);

 private:
  Loop loop_;
  Workers workers_{16};  // a single user of a pool gets a quarter of the threads
  const rdma::Choice choice_;
  const client::KerberosOptions kerberos_;
  const std::shared_ptr<rdma::verbs::Registry> registry_ = std::make_shared<rdma::verbs::Registry>();
  SetupResult<std::unique_ptr<rdma::trace::File>> trace_;   // null without a trace
  std::vector<std::unique_ptr<rdma::Provider>> providers_;  // one for each mount
  std::optional<idmap::Lookups> lookups_;
  std::optional<idmap::Mapper> owners_;
  bool wants_delegations_ = true;
  std::filesystem::path lock_records_;
  Duration trust_in_directories_{};
  bool failed_ = false;  // Report() has printed an error
};

// Parses a URL of the command line. The options of the flags replace those of the URL, and these replace those of the
// environment, which replace those of the configuration file, which replace `defaults`. The error also names options of
// TLS that contradict each other or the URL.
SetupResult<client::Url> ParseUrl(const std::string& text, const AccessOptions& options,
                                  std::vector<client::UrlOption> defaults = {});

// Prints one line on stderr, with the program's name. A server can choose a part of the message, so it is made
// Printable(). Returns the exit code of a command that fails, 1.
int PrintError(const std::string& message);
// The same for a command line that makes no sense. Returns the exit code of wrong usage, 2.
int PrintUsageError(const std::string& message);
// The line that PrintError() prints, with its end.
std::string ErrorLine(const std::string& message);

}  // namespace penstock::cli
