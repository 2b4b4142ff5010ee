// The C functions of include/penstock/server.h.
#include "penstock/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/address_text.h"
#include "library/error_text.h"
#include "library/provider/host_provider.h"
#include "library/server/embedded.h"
#include "library/server/embedded_server.h"
#include "library/server/objects.h"
#include "library/server/options.h"
#include "library/structures.h"

namespace penstock::library {
namespace {

constexpr uint32_t kNameMost = 255;
constexpr unsigned kAllFlags = PENSTOCK_FS_NONBLOCKING | PENSTOCK_FS_CHECKS_PERMISSIONS | PENSTOCK_FS_CASE_INSENSITIVE;

// Runs `function`, which uses a server, and returns what a C function returns.
template <class Function>
int WithServer(penstock_server* server, Function function) noexcept {
  return Guarded([&] {
    if (!server) return Fail(EINVAL, "there is no server");
    if (!server->server.is_of_this_process()) return Fail(EPERM, "the server belongs to the parent process");
    if (IsInEmbeddedFunction()) return Fail(EDEADLK, "a function of a file system may not steer a server");
    if (IsInProviderFunction()) return Fail(EDEADLK, "a function of a provider may not steer a server");
    return function(server->server);
  });
}

int ResultOf(const SetupResult<void>& result) {
  return result ? 0 : Fail(result.error().number > 0 ? result.error().number : EINVAL, result.error().message);
}

int WrongStructure(int number, std::string_view name) {
  const std::string_view why = number == E2BIG ? "sets something that this version of the library does not know"
                                               : "does not begin with its size";
  return Fail(number, fmt::format("{} {}", name, why));
}

bool HasRequired(const penstock_file_system_ops& ops) {
  return ops.root && ops.get_attributes && ops.lookup && ops.read && ops.read_directory;
}

// Completes the options. Returns why they are wrong, or null.
const char* Complete(penstock_file_system_options& options) {
  if ((options.flags & ~kAllFlags) != 0) return "a file system has unknown flags";
  if (options.max_file_size == 0) options.max_file_size = INT64_MAX;
  if (options.name_max == 0) options.name_max = kNameMost;
  if (options.link_max == 0) options.link_max = UINT32_MAX;
  if (options.granularity_ns == 0) options.granularity_ns = 1;
  if (options.max_file_size > INT64_MAX) return "max_file_size must be at most 2^63-1";
  if (options.name_max > kNameMost) return "name_max must be at most 255";
  return nullptr;
}

}  // namespace
}  // namespace penstock::library

using namespace penstock::library;  // NOLINT(google-build-using-namespace): the functions below belong to it

// ---- servers

int penstock_server_new(const penstock_server_options* options, penstock_server** server) {
  return Guarded([&] {
    if (!options || !server) return Fail(EINVAL, "options, or a place for the server, are missing");
    *server = nullptr;
    const penstock_server_options defaults = PENSTOCK_SERVER_OPTIONS_INIT;
    const auto adopted = Adopt(options, defaults);
    if (!adopted) return WrongStructure(adopted.error(), "penstock_server_options");
    auto settings = SettingsOf(*adopted);
    if (!settings) return Fail(settings.error().number, settings.error().message);
    *server = new penstock_server{EmbeddedServer(*std::move(settings))};
    return 0;
  });
}

void penstock_server_free(penstock_server* server) {
  // A child process has not got the threads that would have to end.
  if (!server || !server->server.is_of_this_process()) return;
  Guarded([&] {
    delete server;
    return 0;
  });
}

int penstock_server_export(penstock_server* server, const char* path, const char* clients,
                           penstock_file_system* file_system) {
  return WithServer(server, [&](EmbeddedServer& its) {
    if (!path || !clients || !file_system) return Fail(EINVAL, "a path, clients or a file system is missing");
    return ResultOf(its.Export(path, clients, file_system->files));
  });
}

int penstock_server_export_directory(penstock_server* server, const char* path, const char* directory,
                                     const char* clients) {
  return WithServer(server, [&](EmbeddedServer& its) {
    if (!path || !directory || !clients) return Fail(EINVAL, "a path, a directory or clients are missing");
    return ResultOf(its.ExportDirectory(path, directory, clients));
  });
}

int penstock_server_unexport(penstock_server* server, const char* path) {
  return WithServer(server, [&](EmbeddedServer& its) {
    if (!path) return Fail(EINVAL, "a path is missing");
    return ResultOf(its.Unexport(path));
  });
}

int penstock_server_start(penstock_server* server) {
  return WithServer(server, [](EmbeddedServer& its) { return ResultOf(its.Start()); });
}

int penstock_server_address(penstock_server* server, penstock_service service, unsigned index, char* buffer,
                            size_t size) {
  return WithServer(server, [&](EmbeddedServer& its) {
    if (service < PENSTOCK_SERVICE_TCP || service > PENSTOCK_SERVICE_METRICS) {
      return Fail(EINVAL, "there is no such service");
    }
    const auto addresses = its.AddressesOf(service);
    if (!addresses) return Fail(ENOTCONN, "the server does not run");
    if (index >= addresses->size()) return Fail(ENOENT, "the server has fewer addresses");
    const std::string text = penstock::ToText((*addresses)[index]);
    if (!buffer || size <= text.size()) return Fail(ERANGE, "the buffer has no room for the address");
    std::memcpy(buffer, text.c_str(), text.size() + 1);
    return static_cast<int>(text.size());
  });
}

int penstock_server_stop(penstock_server* server) {
  return WithServer(server, [](EmbeddedServer& its) {
    its.Stop();
    return 0;
  });
}

// ---- file systems

int penstock_file_system_new(const penstock_file_system_ops* ops, void* self,
                             const penstock_file_system_options* options, penstock_file_system** file_system) {
  return Guarded([&] {
    if (!ops || !file_system) return Fail(EINVAL, "functions, or a place for the file system, are missing");
    *file_system = nullptr;
    const penstock_file_system_ops no_functions = PENSTOCK_FILE_SYSTEM_OPS_INIT;
    const auto adopted = Adopt(ops, no_functions);
    if (!adopted) return WrongStructure(adopted.error(), "penstock_file_system_ops");
    const penstock_file_system_options defaults = PENSTOCK_FILE_SYSTEM_OPTIONS_INIT;
    auto properties = Adopt(options, defaults);
    if (!properties) return WrongStructure(properties.error(), "penstock_file_system_options");
    if (!HasRequired(*adopted)) {
      return Fail(EINVAL, "root, get_attributes, lookup, read and read_directory are required");
    }
    if (adopted->pin && !adopted->unpin) return Fail(EINVAL, "pin needs unpin");
    if (const char* const wrong = Complete(*properties)) return Fail(EINVAL, wrong);
    penstock_file_system_ops undestroyed = *adopted;
    undestroyed.destroy = nullptr;  // until nothing can fail any more
    auto made = std::make_unique<penstock_file_system>();
    made->files = std::make_shared<Embedded>(undestroyed, self, *properties);
    made->files->Own(adopted->destroy);
    *file_system = made.release();
    return 0;
  });
}

void penstock_file_system_free(penstock_file_system* file_system) {
  Guarded([&] {
    delete file_system;
    return 0;
  });
}
