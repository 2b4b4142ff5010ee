// archive_server: serves a tar archive over NFS, read-only, over TCP and RDMA.
//
//   archive_server ARCHIVE STATE_DIRECTORY [TCP_PORT RDMA_PORT MOUNT_PORT]
//
// An example of a program that serves files of its own with libpenstock. It shows what a host process supplies: a place
// for log messages, a state directory, and a file system (here archive_file_system.h). The server does the rest. The
// program listens on 127.0.0.1; a port that is 0, or left out, is one that the system chooses.
//
//   tar czf photos.tar.gz photos
//   archive_server photos.tar.gz /tmp/archive-state 2049 20049 20048
//   penstock ls 'nfs://127.0.0.1:20049/photos?proto=rdma'
#include <array>
#include <charconv>
#include <clocale>
#include <csignal>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <penstock/server.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "archive_file_system.h"
#include "archive_tree.h"

namespace {

struct Arguments {
  std::string archive;
  std::string state_directory;
  std::array<uint16_t, 3> ports{};  // TCP, RDMA, MOUNT
};

Arguments Parse(int argc, char** argv) {
  constexpr const char* kUsage = "usage: archive_server ARCHIVE STATE_DIRECTORY [TCP_PORT RDMA_PORT MOUNT_PORT]";
  if (argc != 3 && argc != 6) throw std::runtime_error(kUsage);
  Arguments arguments{.archive = argv[1], .state_directory = argv[2]};
  for (int i = 3; i < argc; ++i) {
    const std::string_view text = argv[i];
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), arguments.ports[static_cast<size_t>(i) - 3]);
    if (error != std::errc() || end != text.data() + text.size()) throw std::runtime_error(kUsage);
  }
  return arguments;
}

penstock::FileSystem Open(const std::string& path) {
  auto files = std::make_shared<archive_server::ArchiveFileSystem>(archive_server::Archive::Read(path));
  penstock_file_system_options options = PENSTOCK_FILE_SYSTEM_OPTIONS_INIT;
  options.flags = PENSTOCK_FS_NONBLOCKING;  // the archive is in memory
  return penstock::FileSystem::Make(std::move(files), options).value();
}

void Log(penstock_log_level level, std::string_view /*module*/, std::string_view message) {
  constexpr std::array<std::string_view, 4> kLevels{"debug", "info", "warning", "error"};
  std::cerr << kLevels[static_cast<size_t>(level)] << ": " << message << '\n';
}

penstock::Server MakeServer(const Arguments& arguments, const penstock::FileSystem& files) {
  const auto at = [](uint16_t port) { return "127.0.0.1:" + std::to_string(port); };
  const std::string tcp = at(arguments.ports[0]), rdma = at(arguments.ports[1]), mount = at(arguments.ports[2]);
  penstock_server_options options = PENSTOCK_SERVER_OPTIONS_INIT;
  // Clients of the last run find this server again: its identity and their state are in this directory.
  options.state_directory = arguments.state_directory.c_str();
  options.tcp = tcp.c_str();
  options.rdma = rdma.c_str();
  options.mount = mount.c_str();
  penstock::Server server = penstock::Server::Make(options, &Log).value();
  server.Export("/", "*(ro,insecure)", files).value();
  return server;
}

// Waits until SIGINT or SIGTERM arrives, which no thread takes meanwhile. The server's threads take no signals anyway.
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

void Run(const Arguments& arguments) {
  const StopSignals signals;
  penstock::Server server = MakeServer(arguments, Open(arguments.archive));
  server.Start().value();
  std::cout << "NFS over TCP: " << server.Address(PENSTOCK_SERVICE_TCP).value()
            << "\nNFS over RDMA: " << server.Address(PENSTOCK_SERVICE_RDMA).value()
            << "\nMOUNT over TCP: " << server.Address(PENSTOCK_SERVICE_MOUNT).value() << "\nready" << std::endl;
  signals.Wait();
  server.Stop().value();
}

}  // namespace

int main(int argc, char** argv) {
  std::setlocale(LC_CTYPE, "C.UTF-8");  // libarchive converts the names in an archive to the locale's encoding
  try {
    Run(Parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "archive_server: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
