// A module for the tests of the loader.
#include <cstring>

#include "fs/ceph/module.h"

namespace penstock::fs::ceph {
namespace {

class TestModule final : public Module {
 public:
  SetupResult<std::unique_ptr<Client>> Mount(const Location& location, const std::string&,
                                             std::chrono::seconds) override {
    return std::unexpected(SetupError{"the test module mounts nothing at " + location.path});
  }
  SetupResult<std::unique_ptr<objects::Store>> OpenPool(const ClusterLocation&, std::chrono::seconds) override {
    return std::unexpected(SetupError{"it has no objects"});
  }
};

}  // namespace
}  // namespace penstock::fs::ceph

extern "C" __attribute__((visibility("default"))) penstock::fs::ceph::Module* TEST_MODULE_SYMBOL(const char* build) {
  static penstock::fs::ceph::TestModule module;
  return std::strcmp(build, TEST_MODULE_BUILD) == 0 ? &module : nullptr;
}
