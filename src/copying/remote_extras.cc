#include "copying/remote_extras.h"

#include <string>
#include <utility>

#include "copying/acl_forms.h"
#include "idmap/owner_text.h"

namespace penstock::copying {
namespace {

class RemoteExtras final : public Extras {
 public:
  RemoteExtras(RemoteTree& tree, const client::Node& node)
      : tree_(tree), mount_(tree.mount()), handle_(node.handle), name_(node.name) {
    mode_ = node.attributes.mode;
  }

  // An older version than 4.2, or a server without NFSACL, hides what a file has.
  bool tells_all() const override { return false; }

  Task<Result<Acl>> GetAcl() override {
    if (!is_version_3()) {
      auto aces = co_await mount_.GetAcl(handle_, name_);
      if (!aces) co_return Reason(aces.error());
      co_return *std::move(aces);
    }
    const auto acl = co_await mount_.GetPosixAcl(handle_, name_);
    if (!acl) co_return Reason(acl.error());
    co_return AclsOf(*acl, mode_);
  }

  Task<Result<void>> SetAcl(Acl acl) override {
    Result<void> set;
    if (const auto* const aces = std::get_if<std::vector<client::Ace>>(&acl)) {
      set = co_await mount_.SetAcl(handle_, name_, *aces);
    } else {
      const client::PosixAcl lists = PosixAclOf(std::get<fs::Acls>(acl));
      set = co_await mount_.SetPosixAcl(handle_, name_, lists);
    }
    co_return Plain(std::move(set));
  }

  Task<Result<void>> SetMode(uint32_t mode) override {
    const NewAttributes attributes{.mode = mode};
    co_return Plain(co_await mount_.SetAttributes(handle_, name_, attributes));
  }

  // Servers may know more names, but this host does not know their numbers.
  Task<std::optional<uint32_t>> NumberOf(idmap::Kind, std::string text) override { co_return idmap::NumberIn(text); }

  Task<Result<std::vector<std::string>>> ListXattrs() override {
    auto names = co_await mount_.ListXattrs(handle_, name_);
    if (!names) co_return Reason(names.error());
    co_return *std::move(names);
  }

  Task<Result<std::vector<std::byte>>> GetXattr(std::string name) override {
    auto value = co_await mount_.GetXattr(handle_, name_, name);
    if (!value) co_return Reason(value.error());
    co_return *std::move(value);
  }

  Task<Result<void>> SetXattr(std::string name, ConstBytes value) override {
    co_return Plain(co_await mount_.SetXattr(handle_, name_, name, value, client::XattrMode::kEither));
  }

  Task<Result<void>> RemoveXattr(std::string name) override {
    co_return Plain(co_await mount_.RemoveXattr(handle_, name_, name));
  }

 private:
  bool is_version_3() const { return mount_.version() == "3"; }
  std::unexpected<Error> Reason(Error error) const { return tree_.Reason(std::move(error), name_); }
  Result<void> Plain(Result<void> result) const {
    if (!result) return Reason(std::move(result).error());
    return result;
  }

  RemoteTree& tree_;
  client::Mount& mount_;
  const client::Handle handle_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<Extras> RemoteExtrasOf(RemoteTree& tree, const client::Node& node) {
  return std::make_unique<RemoteExtras>(tree, node);
}

}  // namespace penstock::copying
