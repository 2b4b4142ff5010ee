#include <dlfcn.h>
#include <fmt/core.h>

#include <array>
#include <mutex>
#include <system_error>

#include "fs/ceph/module.h"

namespace penstock::fs::ceph {
namespace {

constexpr std::string_view kFile = "penstock-ceph.so";

std::unexpected<SetupError> Fail(std::string message) { return std::unexpected(SetupError{std::move(message)}); }

// The module stays loaded: its threads may run until the process ends.
SetupResult<Module*> Load(const std::filesystem::path& file) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* const why = ::dlerror();
    return Fail(fmt::format("the server's module for CephFS cannot be loaded: {}", why ? why : file.native()));
  }
  const auto function = reinterpret_cast<ModuleFunction>(::dlsym(library, kModuleSymbol));
  if (!function) {
    ::dlclose(library);
    return Fail(fmt::format("{} is not a module of this server: it has no symbol {}", file.native(), kModuleSymbol));
  }
  Module* const module = function(kModuleBuild);
  if (!module) {
    ::dlclose(library);
    return Fail(
        fmt::format("{} belongs to another build of the server: build or install both of one version", file.native()));
  }
  return module;
}

}  // namespace

SetupResult<Module*> LoadModuleFrom(std::span<const std::filesystem::path> folders) {
  for (const std::filesystem::path& folder : folders) {
    std::error_code error;
    const std::filesystem::path file = folder / kFile;
    // Also if it cannot be examined: dlopen tells why.
    if (std::filesystem::status(file, error).type() != std::filesystem::file_type::not_found) return Load(file);
  }
  return Fail(
      "this server has no module for CephFS (penstock-ceph.so): install penstock-ceph, or build it (docs/cephfs.md)");
}

SetupResult<Module*> LoadModule() {
  static std::mutex mutex;
  static Module* loaded = nullptr;
  const std::lock_guard lock(mutex);
  if (loaded) return loaded;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  std::array<std::filesystem::path, 2> folders{program.parent_path(), PENSTOCK_MODULES};
  // Without /proc there is no folder of the program; a relative one would be the working directory.
  if (error) folders.front() = folders.back();
  PENSTOCK_TRY(loaded, LoadModuleFrom(folders));
  return loaded;
}

}  // namespace penstock::fs::ceph
