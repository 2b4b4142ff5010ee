// archive_server: serves a tar archive over NFS, read-only, over TCP and RDMA.
//
//   archive_server ARCHIVE STATE_DIRECTORY [TCP_PORT RDMA_PORT MOUNT_PORT]
//
// An example of a program that embeds Penstock. It shows what a host process supplies: a sink for log messages, a state
// directory, a pool of threads, and a file system (here archive_file_system.h). The server does the rest. The program
// listens on 127.0.0.1; a port that is 0, or left out, is one that the system chooses.
//
//   tar czf photos.tar.gz photos
//   archive_server photos.tar.gz /tmp/archive-state 2049 20049 20048
//   penstock ls 'nfs://127.0.0.1:20049/photos?proto=rdma'
#include <charconv>
#include <clocale>
#include <csignal>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "archive_file_system.h"
#include "archive_tree.h"
#include "base/log.h"
#include "server/server.h"

namespace {

using namespace penstock;  // NOLINT: an embedder has a namespace of its own

struct Arguments {
  std::string archive;
  std::string state_directory;
  uint16_t ports[3] = {0, 0, 0};  // TCP, RDMA, MOUNT
};

SetupResult<Arguments> Parse(int argc, char** argv) {
  constexpr const char* kUsage = "usage: archive_server ARCHIVE STATE_DIRECTORY [TCP_PORT RDMA_PORT MOUNT_PORT]";
  if (argc != 3 && argc != 6) return std::unexpected(SetupError{kUsage});
  Arguments arguments{.archive = argv[1], .state_directory = argv[2]};
  for (int i = 3; i < argc; ++i) {
    const std::string_view text = argv[i];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), arguments.ports[i - 3]);
    if (error != std::errc() || end != text.data() + text.size()) return std::unexpected(SetupError{kUsage});
  }
  return arguments;
}

SetupResult<std::unique_ptr<server::Server>> MakeServer(int argc, char** argv) {
  PENSTOCK_TRY(const Arguments arguments, Parse(argc, argv));
  PENSTOCK_TRY(examples::Archive archive, examples::Archive::Read(arguments.archive));
  // Clients of the last run find this server again: its identity and their state are in this directory.
  PENSTOCK_TRY(StateDirectory state_directory, StateDirectory::Open(arguments.state_directory));
  server::Parts parts{.state_directory = std::move(state_directory), .pool = std::make_shared<Workers>(8)};
  parts.exports.push_back({.path = "/",
                           .admissions = {{.clients = {}, .options = {.read_only = true}}},
                           .file_system = std::make_shared<examples::ArchiveFileSystem>(std::move(archive))});
  server::Options options;
  options.listen = server::Addresses::At(asio::ip::address_v4::loopback(), arguments.ports[0], arguments.ports[1],
                                         arguments.ports[2]);
  return server::Server::Make(options, std::move(parts));
}

// Waits until SIGINT or SIGTERM arrives. The threads of the server inherit the mask of the thread that starts them, so
// the signals must be blocked before.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  void Wait() const {
    int signal = 0;
    ::sigwait(&set_, &signal);
  }

 private:
  sigset_t set_;
};

}  // namespace

int main(int argc, char** argv) {
  std::setlocale(LC_CTYPE, "C.UTF-8");  // libarchive converts the names in an archive to the locale's encoding
  std::signal(SIGPIPE, SIG_IGN);        // a client that closes its connection must not end the process
  const StopSignals signals;
  log::SetSink(
      [](const log::Record& record) { std::cerr << log::ToString(record.level) << ": " << record.message << '\n'; });

  auto server = MakeServer(argc, argv);
  if (!server) {
    std::cerr << "archive_server: " << server.error().message << '\n';
    return 1;
  }
  (*server)->Start();
  const server::Addresses& at = (*server)->addresses();
  std::cout << "NFS over TCP: " << at.tcp.front() << "\nNFS over RDMA: " << at.rdma.front()
            << "\nMOUNT over TCP: " << at.mount.front() << "\nready" << std::endl;
  signals.Wait();
  (*server)->Stop();
  return 0;
}
