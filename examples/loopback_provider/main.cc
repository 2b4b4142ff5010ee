// loopback_provider: a server and a client in one process, whose NFS over RDMA goes through a network of this process.
//
//   loopback_provider STATE_DIRECTORY DIRECTORY
//
// It serves DIRECTORY, writes a file there through a mount, reads it, and compares.
#include <exception>
#include <iostream>
#include <memory>
#include <penstock/penstock.hpp>
#include <penstock/server.hpp>
#include <stdexcept>
#include <string>

#include "loopback_provider.h"

namespace {

std::string Contents(size_t size) {
  std::string contents(size, '\0');
  for (size_t i = 0; i < size; ++i) contents[i] = static_cast<char>((i * 2654435761U) >> 24);
  return contents;
}

void Run(const char* state_directory, const char* directory) {
  const auto network = std::make_shared<loopback::LoopbackProvider>();
  penstock_provider_options properties = PENSTOCK_PROVIDER_OPTIONS_INIT;
  properties.flags = PENSTOCK_PROVIDER_REMOTE_INVALIDATION;
  properties.name = "loopback";
  const penstock::Provider provider = penstock::Provider::Make(network, properties).value();

  penstock_server_options options = PENSTOCK_SERVER_OPTIONS_INIT;
  options.state_directory = state_directory;
  options.provider = provider.get();
  options.rdma = "127.0.0.1:20049";  // an address of the provider, not of the host
  options.tcp = options.mount = "";
  options.grace_seconds = 1;
  penstock::Server server = penstock::Server::Make(options).value();
  server.ExportDirectory("/", directory, "*(rw,insecure,no_root_squash)").value();
  server.Start().value();

  {
    const penstock::Runtime runtime = penstock::Runtime::Make({.provider = provider.shared()}).value();
    penstock::Mount mount = penstock::Mount::Open(runtime, "nfs://127.0.0.1:20049/?proto=rdma&vers=4.2").Get().value();
    const std::string contents = Contents(3'000'001);
    mount.WriteFile("through-the-network", contents).Get().value();
    if (mount.ReadFile("through-the-network").Get().value() != contents) throw std::runtime_error("other contents");
    std::cout << contents.size() << " octets are the same; the network has moved " << network->moved() << " octets\n";
  }
  server.Stop().value();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: loopback_provider STATE_DIRECTORY DIRECTORY\n";
    return 1;
  }
  try {
    Run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << "loopback_provider: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
