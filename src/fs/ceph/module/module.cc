#include "fs/ceph/module.h"

#include <string_view>

#include "fs/ceph/module/client.h"
#include "fs/ceph/module/pool.h"

namespace penstock::fs::ceph {
namespace {

class LibcephfsModule final : public Module {
 public:
  SetupResult<std::unique_ptr<Client>> Mount(const Location& location, const std::string& name,
                                             std::chrono::seconds patience) override {
    return MountClient(location, patience, name);
  }
  SetupResult<std::unique_ptr<objects::Store>> OpenPool(const ClusterLocation& location,
                                                        std::chrono::seconds patience) override {
    return ceph::OpenPool(location, patience);
  }
};

}  // namespace
}  // namespace penstock::fs::ceph

extern "C" __attribute__((visibility("default"))) penstock::fs::ceph::Module* penstock_ceph_module(const char* build) {
  using namespace penstock::fs::ceph;
  static LibcephfsModule module;
  return std::string_view(build) == kModuleBuild ? &module : nullptr;
}
