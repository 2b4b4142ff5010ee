#include "nfs/absent_file_system.h"

#include <array>

namespace penstock::nfs {
namespace {

constexpr std::array<std::byte, 8> kRoot{};
// No device has this number, nor has another file system without a device.
constexpr uint64_t kDevice = UINT64_MAX - 1;

template <class T>
fs::Observed<T> Stale() {
  return {std::unexpected(fs::Error::kStale), {}};
}

}  // namespace

fs::Handle AbsentFileSystem::Root() const { return *fs::Handle::FromBytes(kRoot); }

fs::Result<fs::Identity> AbsentFileSystem::Identify(const fs::Handle& object) const {
  return fs::Identity{kDevice, object};
}

Task<fs::Result<fs::Attributes>> AbsentFileSystem::GetAttributes(const fs::RequestContext&, const fs::Handle&) {
  co_return std::unexpected(fs::Error::kStale);
}

Task<fs::Observed<fs::Node>> AbsentFileSystem::Lookup(const fs::RequestContext&, const fs::Handle&, std::string_view) {
  co_return Stale<fs::Node>();
}

Task<fs::Observed<std::string>> AbsentFileSystem::ReadLink(const fs::RequestContext&, const fs::Handle&) {
  co_return Stale<std::string>();
}

Task<fs::Observed<fs::ReadReply>> AbsentFileSystem::Read(const fs::RequestContext&, const fs::Handle&, uint64_t,
                                                         uint32_t) {
  co_return Stale<fs::ReadReply>();
}

Task<fs::Observed<fs::ReadDirectoryReply>> AbsentFileSystem::ReadDirectory(const fs::RequestContext&, const fs::Handle&,
                                                                           const fs::ReadDirectoryArguments&,
                                                                           fs::EntrySink&) {
  co_return Stale<fs::ReadDirectoryReply>();
}

}  // namespace penstock::nfs
