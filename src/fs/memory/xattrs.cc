// Extended attributes of memory::FileSystem.
#include "fs/memory/change.h"
#include "fs/names.h"

namespace penstock::fs::memory {
namespace {

constexpr size_t kXattrMax = 64 << 10;  // the limit of Linux
constexpr size_t kXattrsMax = 1000;

}  // namespace

Task<Observed<std::vector<std::byte>>> FileSystem::GetXattr(const RequestContext& context, const Handle& object,
                                                            std::string_view name) {
  using Value = std::vector<std::byte>;
  co_return Observe<Value>(object, [&](Inode& inode) -> Result<Value> {
    PENSTOCK_CHECK(CheckXattrName(name));
    if (!inode.RightsOf(context.credentials).read) return std::unexpected(Error::kAccess);
    const auto found = inode.xattrs.find(name);
    if (found == inode.xattrs.end()) return std::unexpected(Error::kNoXattr);
    return found->second;
  });
}

Task<Changed<void>> FileSystem::SetXattr(const RequestContext& context, const Handle& object, std::string_view name,
                                         ConstBytes value, XattrMode mode) {
  co_return Change<void>(object, [&](Inode& inode) -> Result<void> {
    PENSTOCK_CHECK(CheckXattrName(name));
    if (!inode.has_xattrs()) return std::unexpected(Error::kPerm);
    if (!inode.RightsOf(context.credentials).write) return std::unexpected(Error::kAccess);
    if (value.size() > kXattrMax) return std::unexpected(Error::kXattrTooBig);
    const auto found = inode.xattrs.find(name);
    const bool exists = found != inode.xattrs.end();
    if (mode == XattrMode::kCreate && exists) return std::unexpected(Error::kExist);
    if (mode == XattrMode::kReplace && !exists) return std::unexpected(Error::kNoXattr);
    if (!exists && inode.xattrs.size() == kXattrsMax) return std::unexpected(Error::kNoSpace);
    inode.xattrs[std::string(name)].assign(value.begin(), value.end());
    Touch(inode, false);
    return {};
  });
}

Task<Changed<void>> FileSystem::RemoveXattr(const RequestContext& context, const Handle& object,
                                            std::string_view name) {
  co_return Change<void>(object, [&](Inode& inode) -> Result<void> {
    PENSTOCK_CHECK(CheckXattrName(name));
    if (!inode.has_xattrs()) return std::unexpected(Error::kPerm);
    if (!inode.RightsOf(context.credentials).write) return std::unexpected(Error::kAccess);
    const auto found = inode.xattrs.find(name);
    if (found == inode.xattrs.end()) return std::unexpected(Error::kNoXattr);
    inode.xattrs.erase(found);
    Touch(inode, false);
    return {};
  });
}

Task<Observed<std::vector<std::string>>> FileSystem::ListXattrs(const RequestContext& context, const Handle& object) {
  using Names = std::vector<std::string>;
  co_return Observe<Names>(object, [&](Inode& inode) -> Result<Names> {
    if (!inode.RightsOf(context.credentials).read) return std::unexpected(Error::kAccess);
    Names names;
    for (const auto& [name, value] : inode.xattrs) names.push_back(name);
    return names;
  });
}

}  // namespace penstock::fs::memory
