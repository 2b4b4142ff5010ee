#include "copying/local_extras.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/data.h"
#include "base/result.h"
#include "client/acl_values.h"
#include "copying/acl_forms.h"
#include "copying/local_file.h"

namespace penstock::copying {
namespace {

// Linux has no larger values, and no longer lists of names (XATTR_SIZE_MAX, XATTR_LIST_MAX).
constexpr size_t kMostValue = 64 << 10;

// These block.

Result<std::vector<std::byte>> GetValue(const std::string& path, const std::string& name) {
  std::vector<std::byte> value(kMostValue);
  const ssize_t size = ::getxattr(path.c_str(), name.c_str(), value.data(), value.size());
  if (size < 0) return std::unexpected(LocalError(errno));
  value.resize(static_cast<size_t>(size));
  value.shrink_to_fit();
  return value;
}

int SetValue(const std::string& path, std::string_view name, ConstBytes value) {
  return ::setxattr(path.c_str(), std::string(name).c_str(), value.data(), value.size(), 0) == 0 ? 0 : errno;
}

Result<std::vector<client::PosixAce>> GetPosix(const std::string& path, std::string_view name) {
  const auto value = GetValue(path, std::string(name));
  if (!value && value.error().number == ENODATA) return std::vector<client::PosixAce>();
  if (!value) return std::unexpected(value.error());
  auto entries = client::DecodePosixAcl(*value);
  if (!entries) return std::unexpected(LocalError(EINVAL));
  return *std::move(entries);
}

int SetPosix(const std::string& path, std::string_view name, const std::vector<client::PosixAce>& entries) {
  if (!entries.empty()) return SetValue(path, name, client::EncodePosixAcl(entries));
  const bool removed = ::removexattr(path.c_str(), std::string(name).c_str()) == 0;
  return removed || errno == ENODATA || errno == EOPNOTSUPP ? 0 : errno;
}

class LocalExtras final : public Extras {
 public:
  LocalExtras(LocalTree& tree, std::shared_ptr<const HeldDirectory> directory, FileDescriptor fd,
              const struct stat& status)
      : tree_(tree),
        directory_(std::move(directory)),
        fd_(std::move(fd)),
        // A descriptor with O_PATH gives extended attributes only by this name.
        path_(fmt::format("/proc/self/fd/{}", fd_.get())),
        is_directory_(S_ISDIR(status.st_mode)) {
    mode_ = status.st_mode & 07777;
  }

  bool tells_all() const override { return true; }

  Task<Result<Acl>> GetAcl() override {
    return tree_.Away([this]() -> Result<Acl> {
      struct stat status{};
      if (::fstat(fd_.get(), &status) != 0) return std::unexpected(LocalError(errno));
      client::PosixAcl acl;
      auto access = GetPosix(path_, client::kAccessAcl);
      // A file system of another server, which the kernel or penstock has mounted.
      if (!access && access.error().number == EOPNOTSUPP) return GetNfs4();
      if (!access) return std::unexpected(std::move(access).error());
      acl.access = *std::move(access);
      if (is_directory_) {
        PENSTOCK_TRY(acl.defaults, GetPosix(path_, client::kDefaultAcl));
      }
      return AclsOf(acl, status.st_mode & 0777);
    });
  }

  Task<Result<void>> SetAcl(Acl acl) override {
    return tree_.Change(directory_, [this, acl = std::move(acl)] {
      if (const auto* const aces = std::get_if<std::vector<client::Ace>>(&acl)) {
        return SetValue(path_, client::kNfs4Acl, client::EncodeNfs4Acl(*aces));
      }
      const client::PosixAcl lists = PosixAclOf(std::get<fs::Acls>(acl));
      const int error = SetPosix(path_, client::kAccessAcl, lists.access);
      return error != 0 || !is_directory_ ? error : SetPosix(path_, client::kDefaultAcl, lists.defaults);
    });
  }

  Task<Result<void>> SetMode(uint32_t mode) override {
    return tree_.Change(directory_,
                        [this, mode] { return ::chmod(path_.c_str(), static_cast<mode_t>(mode)) == 0 ? 0 : errno; });
  }

  Task<std::optional<uint32_t>> NumberOf(idmap::Kind kind, std::string text) override {
    return tree_.Away([this, kind, text = std::move(text)] { return copying::NumberOf(tree_, kind, text); });
  }

  Task<Result<std::vector<std::string>>> ListXattrs() override {
    return tree_.Away([this]() -> Result<std::vector<std::string>> {
      std::string list(kMostValue, '\0');
      const ssize_t size = ::listxattr(path_.c_str(), list.data(), list.size());
      if (size < 0) return std::unexpected(LocalError(errno));
      std::vector<std::string> names;
      for (std::string_view rest(list.data(), static_cast<size_t>(size)); !rest.empty();) {
        const std::string_view name = rest.substr(0, rest.find('\0'));
        if (name.starts_with(client::kUserPrefix)) names.emplace_back(name.substr(client::kUserPrefix.size()));
        rest.remove_prefix(std::min(rest.size(), name.size() + 1));
      }
      return names;
    });
  }

  Task<Result<std::vector<std::byte>>> GetXattr(std::string name) override {
    return tree_.Away([this, name = Full(name)] { return GetValue(path_, name); });
  }

  Task<Result<void>> SetXattr(std::string name, ConstBytes value) override {
    return tree_.Change(directory_, [this, name = Full(name), value] { return SetValue(path_, name, value); });
  }

  Task<Result<void>> RemoveXattr(std::string name) override {
    return tree_.Change(
        directory_, [this, name = Full(name)] { return ::removexattr(path_.c_str(), name.c_str()) == 0 ? 0 : errno; });
  }

 private:
  static std::string Full(std::string_view name) { return std::string(client::kUserPrefix).append(name); }

  Result<Acl> GetNfs4() const {
    const auto value = GetValue(path_, std::string(client::kNfs4Acl));
    if (!value) return std::unexpected(value.error());
    auto aces = client::DecodeNfs4Acl(*value);
    if (!aces) return std::unexpected(LocalError(EINVAL));
    return *std::move(aces);
  }

  LocalTree& tree_;
  const std::shared_ptr<const HeldDirectory> directory_;  // it is made stable at the end
  const FileDescriptor fd_;
  const std::string path_;
  const bool is_directory_;
};

}  // namespace

Result<std::unique_ptr<Extras>> OpenLocalExtras(LocalTree& tree, std::shared_ptr<const HeldDirectory> directory,
                                                const std::string& name) {
  const std::string path = name.empty() ? "." : name;
  FileDescriptor fd(::openat(directory->fd.get(), path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0) return std::unexpected(LocalError(errno));
  if (S_ISLNK(status.st_mode)) return std::unexpected(LocalError(ELOOP));
  return std::make_unique<LocalExtras>(tree, std::move(directory), std::move(fd), status);
}

}  // namespace penstock::copying
