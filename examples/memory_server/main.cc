// memory_server: serves files in memory over NFS, over TCP and RDMA. Clients may change them; they are lost at the end.
//
//   memory_server STATE_DIRECTORY
//
//   memory_server /tmp/memory-state
//   penstock cp notes.txt 'nfs://127.0.0.1:PORT/notes.txt'
#include <csignal>
#include <exception>
#include <iostream>
#include <memory>
#include <penstock/server.hpp>
#include <string_view>

#include "memory_file_system.h"

namespace {

void Run(const char* state_directory) {
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGINT);
  sigaddset(&stops, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &stops, nullptr);

  penstock_file_system_options properties = PENSTOCK_FILE_SYSTEM_OPTIONS_INIT;
  properties.flags = PENSTOCK_FS_NONBLOCKING;
  const penstock::FileSystem files =
      penstock::FileSystem::Make(std::make_shared<memory_server::MemoryFileSystem>(uint64_t{256} << 20, 0777),
                                 properties)
          .value();
  penstock_server_options options = PENSTOCK_SERVER_OPTIONS_INIT;
  options.state_directory = state_directory;
  options.tcp = options.rdma = options.mount = "127.0.0.1:0";
  options.grace_seconds = 1;  // no client has anything to reclaim: the files were lost
  options.delegations = 1;    // nobody else changes the files
  penstock::Server server =
      penstock::Server::Make(options, [](penstock_log_level, std::string_view module, std::string_view message) {
        std::cerr << module << ": " << message << '\n';
      }).value();
  server.Export("/", "*(rw,insecure)", files).value();
  server.Start().value();
  std::cout << "NFS over TCP: " << server.Address(PENSTOCK_SERVICE_TCP).value()
            << "\nNFS over RDMA: " << server.Address(PENSTOCK_SERVICE_RDMA).value()
            << "\nMOUNT over TCP: " << server.Address(PENSTOCK_SERVICE_MOUNT).value() << "\nready" << std::endl;
  int signal = 0;
  ::sigwait(&stops, &signal);
  server.Stop().value();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: memory_server STATE_DIRECTORY\n";
    return 1;
  }
  try {
    Run(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "memory_server: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
