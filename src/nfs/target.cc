#include "nfs/target.h"

#include <utility>

namespace penstock::nfs {

Target::Target(const TargetCall& of, const std::optional<FileHandle>& handle, Flavors flavors)
    : table_(of.exports.Get()),
      flavor_(nfs_protocol::FlavorOf(of.call.credential)),
      error_(fs::Error::kBadHandle),
      claims_(of.claims),
      mark_(of.claims ? of.claims->Mark() : 0),
      outcome_(of.call.outcome),
      loop_(of.call.peer.loop) {
  if (!handle) return;
  // RFC 1813 §2.6 (nfs_fh3), RFC 1094 §2.3.1 (NFSERR_STALE): a handle is stale if access to its file was revoked, also
  // if for this client only.
  error_ = fs::Error::kStale;
  export_ = table_->Find(handle->export_id);
  if (!export_) return;
  of.call.notes.export_id = handle->export_id.value();
  options_ = export_->OptionsFor(of.call.peer);
  const SecurityFlavors flavors_taken = options_ ? Export::FlavorsFor(of.call.peer, *options_) : SecurityFlavors();
  if (flavors_taken.empty()) {
    of.exports.refusals().Refuse(of.call.peer.address, *export_);
    of.call.outcome.told = true;
    return;
  }

  if (!Export::AdmitsProtection(of.call.peer, *options_)) {
    of.exports.refusals().RefuseProtection(of.call.peer, *export_);
    of.call.outcome.told = true;
    of.call.denial = rpc::AuthStatus::AUTH_TOOWEAK;
    error_ = fs::Error::kAccess;
    return;
  }
  const bool any = flavors == Flavors::kAnyAtRoot && handle->object == export_->file_system().Root();
  if (!any && !flavors_taken.Has(flavor_)) {
    of.exports.refusals().RefuseFlavor(of.call, *export_, flavors_taken);
    of.call.outcome.told = true;
    of.call.denial = rpc::AuthStatus::AUTH_TOOWEAK;
    error_ = fs::Error::kAccess;
    return;
  }
  if (const auto known = export_->file_system().Identify(handle->object); !known) {
    error_ = known.error();
    return;
  }
  caller_.emplace(*options_, of.call.credential, of.call.peer);
  of.call.outcome.root_is_squashed = IsSquashedRoot(of.call.credential, caller_->context());
  of.call.outcome.read_only = read_only();
  object_ = handle->object;
  error_.reset();
}

fs::Result<fs::Handle> Target::OtherObject(const std::optional<FileHandle>& handle) const {
  if (!handle) return std::unexpected(fs::Error::kBadHandle);
  if (handle->export_id != export_->id()) return std::unexpected(fs::Error::kXDev);
  if (const auto known = file_system().Identify(handle->object); !known) return std::unexpected(known.error());
  return handle->object;
}

bool Target::IsOutdated(const fs::Handle& object, const fs::Attributes& attributes) const {
  const bool may_be_held = claims_ && attributes.type == fs::FileType::kRegular;
  return may_be_held && claims_->IsOutdated(export_->Name(object), mark_);
}

Task<fs::Observed<fs::AccessMask>> Target::Access(uint32_t wanted) const {
  constexpr fs::AccessMask kChanges = fs::kAccessModify | fs::kAccessExtend | fs::kAccessDelete;
  constexpr fs::AccessMask kKnown = fs::kAccessRead | fs::kAccessLookup | fs::kAccessExecute | kChanges;
  return file_system().Access(context(), object_, wanted & kKnown & ~(read_only() ? kChanges : 0));
}

Task<fs::Result<void>> Target::CheckUse(fs::Handle object, FileClaims::Use use) {
  const NamedFile file = export_->Name(object);
  FileClaims::Checked checked = co_await claims_->Check(loop_, file, use);
  if (checked.hold) held_.push_back(std::move(checked.hold));
  switch (checked.verdict) {
    case FileClaims::Verdict::kFree:
      co_return fs::Result<void>();
    case FileClaims::Verdict::kLater:
      co_return std::unexpected(fs::Error::kDelay);
    case FileClaims::Verdict::kDenied:
      outcome_.told = true;  // another client is the reason
      co_return std::unexpected(fs::Error::kAccess);
  }
  std::unreachable();
}

Task<fs::Result<void>> Target::CheckUse(fs::Handle directory, std::string_view name, FileClaims::Use use) {
  const auto found = co_await file_system().Lookup(context(), directory, name);
  if (!found.result) co_return fs::Result<void>();  // the procedure itself reports an invalid name
  co_return co_await CheckUse(found.result->handle, use);
}

}  // namespace penstock::nfs
