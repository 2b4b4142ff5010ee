// A server in a host process: the object behind penstock_server.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/state_directory.h"
#include "base/workers.h"
#include "fs/posix/served_directories.h"
#include "library/server/adapted_file_system.h"
#include "library/server/embedded.h"
#include "library/server/options.h"
#include "nfs/export_options.h"
#include "server/server.h"

namespace penstock::library {

// Any thread; calls wait for each other. The messages of all threads go to the host's function, if there is one.
class EmbeddedServer {
 public:
  explicit EmbeddedServer(ServerSettings settings);
  // Stops.
  ~EmbeddedServer();
  EmbeddedServer(const EmbeddedServer&) = delete;
  EmbeddedServer& operator=(const EmbeddedServer&) = delete;

  // Fails in a child process, which has not got the threads. Then nothing else must be called, not even the destructor.
  bool is_of_this_process() const;

  SetupResult<void> Export(std::string_view path, std::string_view clients, std::shared_ptr<const Embedded> files);
  SetupResult<void> ExportDirectory(std::string_view path, std::string directory, std::string_view clients);
  SetupResult<void> Unexport(std::string_view path);
  SetupResult<void> Start();
  void Stop();
  // Nothing if the server does not run.
  std::optional<std::vector<SocketAddress>> AddressesOf(penstock_service service) const;

 private:
  // An export that the host has asked for.
  struct Exported {
    nfs::ExportSpec spec;
    std::shared_ptr<const Embedded> files;  // null for a directory, and for a referral
  };
  // What exists while the server runs. Members are destroyed from the last to the first.
  struct Running {
    std::filesystem::path state_directory;
    SipKey key{};  // from which those of the exports are made
    std::shared_ptr<Workers> pool;
    std::optional<fs::posix::ServedDirectories> directories;
    // By the paths of their exports.
    std::map<std::string, std::shared_ptr<AdaptedFileSystem>> adapted;
    std::unique_ptr<server::Server> server;
  };

  SetupResult<void> Add(Exported added);
  // Makes the file systems of the exports that have none yet.
  SetupResult<std::vector<server::Export>> Open(Running& running, const std::vector<Exported>& exports) const;
  SetupResult<std::unique_ptr<Running>> Make() const;
  SetupResult<void> Use(std::vector<Exported> exports);

  const ServerSettings settings_;
  const pid_t process_;
  mutable std::mutex mutex_;  // guards the following members
  std::vector<Exported> exports_;
  std::unique_ptr<Running> running_;  // null if the server does not run
};

}  // namespace penstock::library
