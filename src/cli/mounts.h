// The mounts of one command. URLs that lead into one export of a server share a mount, so that a command with a
// thousand URLs connects once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/signal.h"
#include "cli/client_runtime.h"
#include "cli/common_options.h"
#include "client/mount.h"
#include "client/url.h"

namespace penstock::cli {

// Returns the URL for messages: nfs://host/path. The path is decoded. The port is absent if it is that of the protocol.
std::string NameOf(const client::Url& url);

// Where a URL leads to.
struct Mounted {
  client::Mount* mount = nullptr;  // belongs to Mounts
  std::string path;                // below the root of the mount, for Mount::Resolve()
  std::string server_path;         // the path of the URL: on the server, absolute
  std::string name;                // see NameOf()

  // Resolves the path. The error names the URL.
  Task<client::Result<client::Node>> Resolve(bool follow = true) const;
  Task<client::Result<client::Mount::Place>> ResolvePlace() const;
  // Makes an error of the mount begin with the URL in place of a path or a name, and end with the mount's trouble.
  client::Error Named(client::Error error) const;
};

class Mounts {
 public:
  // `runtime` outlives the mounts.
  explicit Mounts(ClientRuntime& runtime) : runtime_(runtime) {}
  Mounts(const Mounts&) = delete;
  Mounts& operator=(const Mounts&) = delete;

  // Returns the mount of the export that `url` leads into. Mounts it, unless it is mounted with the same options. Any
  // number of calls may run at the same time. All URLs come from one command line, so that they share its options of
  // TLS. The error names the URL.
  Task<client::Result<Mounted>> At(client::Url url);
  // Unmounts all. It is called at the end, when no other call is under way.
  Task<void> Close();

 private:
  ClientRuntime& runtime_;
  std::vector<std::unique_ptr<client::Mount>> mounts_;
  bool opening_ = false;
  Signal opened_;  // opening_ has become false
};

// Parses the URLs, runs `use` with a pool of mounts, and closes the pool. Returns the exit code: 0, 1 if `use` fails or
// reports an error to the runtime, and 2 if a text is not a URL; then `use` does not run.
using UseMounts =
    std::function<Task<client::Result<void>>(ClientRuntime&, Mounts&, const std::vector<client::Url>& urls)>;
int RunWithMounts(const std::vector<std::string>& urls, const ClientOptions& options, const UseMounts& use);

// Runs `use` for each URL in turn. After an error it reports the error, which Mounted::Named() completes, and goes on
// with the next URL.
using UseMount = std::function<Task<client::Result<void>>(ClientRuntime&, const Mounted&)>;
Task<client::Result<void>> ForEachMounted(ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& urls,
                                          UseMount use);
// Both together. Returns the exit code as RunWithMounts() does.
int RunOnMounts(const std::vector<std::string>& urls, const ClientOptions& options, const UseMount& use);

}  // namespace penstock::cli
