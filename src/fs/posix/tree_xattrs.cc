// Extended attributes of a served tree. The kernel checks permission: the rights to the data apply to attributes with
// the prefix "user.".
#include <linux/limits.h>
#include <sys/xattr.h>

#include <algorithm>

#include "fs/errno.h"
#include "fs/names.h"
#include "fs/posix/tree.h"

namespace penstock::fs::posix {
namespace {

constexpr std::string_view kPrefix = "user.";

std::string FullName(std::string_view name) { return std::string(kPrefix).append(name); }

int FlagsOf(XattrMode mode) {
  switch (mode) {
    case XattrMode::kCreate:
      return XATTR_CREATE;
    case XattrMode::kReplace:
      return XATTR_REPLACE;
    case XattrMode::kEither:
      break;
  }
  return 0;
}

}  // namespace

Observed<std::vector<std::byte>> Tree::GetXattr(const Credentials& caller, const Handle& handle,
                                                std::string_view name) {
  using Value = std::vector<std::byte>;
  const auto get = [&](Object& object, const Stat& stat) -> Result<Value> {
    PENSTOCK_CHECK(CheckXattrName(name));
    PENSTOCK_CHECK(CheckMayReadXattrs(caller, object, stat.attributes));
    Value value(XATTR_SIZE_MAX);
    const AsCaller as_caller(server_, caller);
    const ssize_t size = ::getxattr(ProcPath(object.fd()).c_str(), FullName(name).c_str(), value.data(), value.size());
    if (size < 0) return LastError();
    value.resize(static_cast<size_t>(size));
    value.shrink_to_fit();
    return value;
  };
  return *Observe<Value>(handle, Patience::kMayBlock, get);
}

Changed<void> Tree::SetXattr(const Credentials& caller, const Handle& handle, std::string_view name, ConstBytes value,
                             XattrMode mode, Touches& touches) {
  return Change<void>(handle, touches, [&](Object& object, const Stat& stat) -> Result<void> {
    PENSTOCK_CHECK(CheckXattrName(name));
    PENSTOCK_CHECK(CheckMayChangeXattrs(caller, object, stat.attributes));
    const AsCaller as_caller(server_, caller);
    const ProcPath path(object.fd());
    if (::setxattr(path.c_str(), FullName(name).c_str(), value.data(), value.size(), FlagsOf(mode)) != 0) {
      return LastError();
    }
    return {};
  });
}

Changed<void> Tree::RemoveXattr(const Credentials& caller, const Handle& handle, std::string_view name,
                                Touches& touches) {
  return Change<void>(handle, touches, [&](Object& object, const Stat& stat) -> Result<void> {
    PENSTOCK_CHECK(CheckXattrName(name));
    PENSTOCK_CHECK(CheckMayChangeXattrs(caller, object, stat.attributes));
    const AsCaller as_caller(server_, caller);
    if (::removexattr(ProcPath(object.fd()).c_str(), FullName(name).c_str()) != 0) return LastError();
    return {};
  });
}

// The kernel lists names for every caller. The server lists them only for callers that may read the values.
Observed<std::vector<std::string>> Tree::ListXattrs(const Credentials& caller, const Handle& handle) {
  using Names = std::vector<std::string>;
  const auto list = [&](Object& object, const Stat& stat) -> Result<Names> {
    if (!RightsTo(object, stat.attributes, caller).read) return std::unexpected(Error::kAccess);
    std::vector<char> buffer(XATTR_LIST_MAX);
    const ssize_t size = ::listxattr(ProcPath(object.fd()).c_str(), buffer.data(), buffer.size());
    if (size < 0) return LastError();
    Names names;
    std::string_view rest(buffer.data(), static_cast<size_t>(size));
    while (!rest.empty()) {
      const std::string_view name = rest.substr(0, rest.find('\0'));
      if (name.starts_with(kPrefix)) names.emplace_back(name.substr(kPrefix.size()));
      rest.remove_prefix(name.size() + 1);
    }
    std::ranges::sort(names);
    return names;
  };
  return *Observe<Names>(handle, Patience::kMayBlock, list);
}

}  // namespace penstock::fs::posix
