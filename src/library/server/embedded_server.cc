#include "library/server/embedded_server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/siphash.h"
#include "base/thread.h"
#include "fs/export_key.h"
#include "fs/posix/handle_key.h"
#include "server/listeners.h"

namespace penstock::library {
namespace {

// An fsid for an export that the host gives none.
uint64_t NumberOf(std::string_view path) { return SipHash({0, 0}, AsBytes(path)); }

}  // namespace

EmbeddedServer::EmbeddedServer(ServerSettings settings) : settings_(std::move(settings)), process_(::getpid()) {}

EmbeddedServer::~EmbeddedServer() {
  Stop();
  // Threads of libraries may still have the logger.
  if (settings_.logger) settings_.logger->End();
}

bool EmbeddedServer::is_of_this_process() const { return ::getpid() == process_; }

// ---- exports

SetupResult<void> EmbeddedServer::Export(std::string_view path, std::string_view clients,
                                         std::shared_ptr<const Embedded> files) {
  const log::ThreadLoggerScope scope(settings_.logger);
  PENSTOCK_TRY(nfs::ExportSpec spec, ParseClients(path, clients));
  return Add({.spec = std::move(spec), .files = std::move(files)});
}

SetupResult<void> EmbeddedServer::ExportDirectory(std::string_view path, std::string directory,
                                                  std::string_view clients) {
  const log::ThreadLoggerScope scope(settings_.logger);
  PENSTOCK_TRY(nfs::ExportSpec spec, ParseClients(path, clients));
  spec.directory = std::move(directory);
  return Add({.spec = std::move(spec), .files = nullptr});
}

SetupResult<void> EmbeddedServer::Add(Exported added) {
  const std::lock_guard lock(mutex_);
  const auto is_same = [&](const Exported& each) { return each.spec.path == added.spec.path; };
  if (std::ranges::any_of(exports_, is_same)) {
    return std::unexpected(SetupError{fmt::format("{} is exported already", added.spec.path), EEXIST});
  }
  const auto is_root = [](const Exported& each) { return each.spec.is_root; };
  if (added.spec.is_root && std::ranges::any_of(exports_, is_root)) {
    return std::unexpected(SetupError{"two exports have fsid=0", EINVAL});
  }
  std::vector<Exported> exports = exports_;
  exports.push_back(std::move(added));
  return Use(std::move(exports));
}

SetupResult<void> EmbeddedServer::Unexport(std::string_view path) {
  const log::ThreadLoggerScope scope(settings_.logger);
  PENSTOCK_TRY(const std::string normal, nfs::NormalizeExportPath(path));
  const std::lock_guard lock(mutex_);
  std::vector<Exported> exports = exports_;
  if (std::erase_if(exports, [&](const Exported& each) { return each.spec.path == normal; }) == 0) {
    return std::unexpected(SetupError{fmt::format("{} is not exported", normal), ENOENT});
  }
  return Use(std::move(exports));
}

SetupResult<void> EmbeddedServer::Use(std::vector<Exported> exports) {
  if (running_) {
    PENSTOCK_TRY(std::vector<server::Export> opened, Open(*running_, exports));
    PENSTOCK_CHECK(running_->server->Reload(settings_.options, std::move(opened)));
    // The server holds what its calls still use.
    std::erase_if(running_->adapted, [&](const auto& each) {
      return std::ranges::none_of(exports, [&](const Exported& e) { return e.spec.path == each.first; });
    });
  }
  exports_ = std::move(exports);
  return {};
}

SetupResult<std::vector<server::Export>> EmbeddedServer::Open(Running& running,
                                                              const std::vector<Exported>& exports) const {
  std::vector<fs::posix::DirectoryToServe> directories;
  for (const Exported& each : exports) {
    if (!each.files && !each.spec.is_referral()) directories.push_back({each.spec.path, each.spec.directory});
  }
  SetupResult<std::vector<std::shared_ptr<fs::posix::FileSystem>>> served;
  // On a thread of its own, whose credentials change: see ServedDirectories::Open().
  if (!directories.empty()) {
    StartThread("penstock-open", [&] { served = running.directories->Open(directories); }).join();
  }
  if (!served) return std::unexpected(std::move(served).error());
  size_t next = 0;
  std::vector<server::Export> opened;
  for (const Exported& each : exports) {
    std::shared_ptr<fs::FileSystem> files;
    if (each.files) {
      auto& adapted = running.adapted[each.spec.path];
      if (!adapted) {
        const uint64_t id = each.files->options().id;
        const AdaptedFileSystem::Settings settings{.key = fs::KeyOfExport(running.key, each.spec.path, AsBytes("host")),
                                                   .fsid = id != 0 ? id : NumberOf(each.spec.path)};
        PENSTOCK_TRY(adapted, AdaptedFileSystem::Make(each.files, *running.pool, settings));
      }
      files = adapted;
    } else if (!each.spec.is_referral()) {
      files = (*served)[next++];
    }
    opened.push_back({.path = each.spec.path,
                      .admissions = each.spec.admissions,
                      .file_system = std::move(files),
                      .is_root = each.spec.is_root});
  }
  return opened;
}

// ---- running

SetupResult<std::unique_ptr<EmbeddedServer::Running>> EmbeddedServer::Make() const {
  auto running = std::make_unique<Running>();
  PENSTOCK_TRY(StateDirectory state_directory, StateDirectory::Open(settings_.state_directory));
  running->state_directory = state_directory.path();
  PENSTOCK_TRY(running->key, fs::posix::LoadHandleKey(running->state_directory));
  // In a process of root, the threads that serve directories must not exceed the quotas of callers.
  running->pool = std::make_shared<Workers>(settings_.blocking_threads, Workers::AtEnd::kWait,
                                            Workers::ThreadSettings{.begin = &fs::posix::DropResourceOverride});
  const server::Options& options = settings_.options;
  const size_t others = options.connections.connections + server::ListeningDescriptors(options);
  running->directories.emplace(
      *running->pool,
      fs::posix::ServedDirectoriesOptions{.state_directory = running->state_directory, .other_descriptors = others});
  server::Parts parts{.state_directory = std::move(state_directory), .pool = running->pool};
  PENSTOCK_TRY(parts.exports, Open(*running, exports_));
  parts.open_files = running->directories->open_files();
  PENSTOCK_TRY(running->server, server::Server::Make(options, std::move(parts)));
  return running;
}

SetupResult<void> EmbeddedServer::Start() {
  const log::ThreadLoggerScope scope(settings_.logger);
  const WithoutSignals without_signals;  // for threads that libraries start
  const std::lock_guard lock(mutex_);
  if (running_) return std::unexpected(SetupError{"the server runs already", EALREADY});
  PENSTOCK_TRY(running_, Make());
  running_->server->Start();
  return {};
}

void EmbeddedServer::Stop() {
  const log::ThreadLoggerScope scope(settings_.logger);
  const std::lock_guard lock(mutex_);
  if (!running_) return;
  running_->server->Stop();
  running_.reset();
}

std::optional<std::vector<SocketAddress>> EmbeddedServer::AddressesOf(penstock_service service) const {
  const std::lock_guard lock(mutex_);
  if (!running_) return std::nullopt;
  const server::Addresses& at = running_->server->addresses();
  switch (service) {
    case PENSTOCK_SERVICE_TCP:
      return at.tcp;
    case PENSTOCK_SERVICE_RDMA:
      return at.rdma;
    case PENSTOCK_SERVICE_MOUNT:
      return at.mount;
    case PENSTOCK_SERVICE_METRICS:
      break;
  }
  std::vector<SocketAddress> metrics;
  if (const auto address = running_->server->metrics_address()) metrics.push_back(*address);
  return metrics;
}

}  // namespace penstock::library
