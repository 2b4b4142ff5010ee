#include "library/server/memory_test_support.h"

#include <cstdlib>
#include <utility>

#include "memory_server/memory_file_system.h"

namespace penstock::library {
namespace {

// The file system of the example with the hook of a test.
class HookedFiles : public memory_server::MemoryFileSystem {
 public:
  explicit HookedFiles(MemoryFiles settings)
      : MemoryFileSystem(settings.capacity, settings.root_mode), settings_(std::move(settings)) {}
  ~HookedFiles() override {
    if (settings_.ended) settings_.ended();
  }

  penstock::Result<Handle> Lookup(const Caller& caller, const Handle& directory, const char* name) override {
    if (const int error = Hook("lookup")) return Error{error};
    return MemoryFileSystem::Lookup(caller, directory, name);
  }
  penstock::Result<size_t> Read(const Caller& caller, const Handle& file, std::span<std::byte> buffer,
                                uint64_t offset) override {
    if (const int error = Hook("read")) return Error{error};
    return MemoryFileSystem::Read(caller, file, buffer, offset);
  }
  penstock::Result<size_t> Write(const Caller& caller, const Handle& file, std::span<const std::byte> data,
                                 uint64_t offset, penstock_stability& stability) override {
    if (const int error = Hook("write")) return Error{error};
    return MemoryFileSystem::Write(caller, file, data, offset, stability);
  }
  penstock::Result<Handle> Create(const Caller& caller, const Handle& directory, const char* name,
                                  const penstock_new_attributes& attributes) override {
    if (const int error = Hook("create")) return Error{error};
    return MemoryFileSystem::Create(caller, directory, name, attributes);
  }

 private:
  int Hook(std::string_view operation) const { return settings_.hook ? settings_.hook(operation) : 0; }

  const MemoryFiles settings_;
};

}  // namespace

OwnedFileSystem MakeMemoryFiles(MemoryFiles settings) {
  penstock_file_system_options options = PENSTOCK_FILE_SYSTEM_OPTIONS_INIT;
  options.flags = settings.flags;
  const auto self = new std::shared_ptr<HookedFiles>(std::make_shared<HookedFiles>(std::move(settings)));
  const penstock_file_system_ops ops = internal::Functions<HookedFiles>::Table();
  penstock_file_system* made = nullptr;
  if (penstock_file_system_new(&ops, self, &options, &made) != 0) std::abort();
  return OwnedFileSystem(made);
}

}  // namespace penstock::library
