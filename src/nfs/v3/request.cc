#include "nfs/v3/request.h"

#include <utility>

#include "nfs/v3/convert.h"
#include "rpc/client_key.h"

namespace penstock::nfs::v3 {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813

Target::Target(const Request& request, const nfs_fh3& handle, Flavors flavors)
    : status_(NFS3ERR_BADHANDLE),
      claims_(request.claims),
      mark_(request.claims ? request.claims->Mark() : 0),
      loop_(request.call.peer.loop) {
  const auto parsed = FileHandle::Parse(handle.data.bytes());
  if (!parsed) return;
  // RFC 1813 §2.6 (nfs_fh3): a handle is stale if access to its file was revoked, also if for this client only.
  status_ = NFS3ERR_STALE;
  export_ = request.exports.Find(parsed->export_id);
  if (!export_) return;
  if (!export_->Admits(request.call.peer)) {
    request.exports.Refuse(request.call.peer.address, *export_);
    return;
  }

  const bool any = flavors == Flavors::kAnyAtRoot && parsed->object == export_->file_system().Root();
  if (!any && !export_->options().security.Admits(request.call.credential)) {
    request.call.denial = rpc::AuthStatus::AUTH_TOOWEAK;
    status_ = NFS3ERR_ACCES;
    return;
  }
  if (const auto known = export_->file_system().Identify(parsed->object); !known) {
    status_ = ToStatus(known.error());
    return;
  }
  caller_.emplace(export_->options(), request.call.credential, request.call.peer);
  object_ = parsed->object;
  status_ = NFS3_OK;
}

nfs_fh3 Target::HandleOf(const fs::Handle& object) const { return ToFileHandle(export_->id(), object); }

Result<fs::Handle, nfsstat3> Target::Other(const nfs_fh3& handle) const {
  const auto parsed = FileHandle::Parse(handle.data.bytes());
  if (!parsed) return std::unexpected(NFS3ERR_BADHANDLE);
  if (parsed->export_id != export_->id()) return std::unexpected(NFS3ERR_XDEV);
  if (const auto known = file_system().Identify(parsed->object); !known)
    return std::unexpected(ToStatus(known.error()));
  return parsed->object;
}

post_op_attr Target::PostAttributes(const fs::Handle& object, const std::optional<fs::Attributes>& attributes) const {
  if (!attributes) return std::nullopt;
  const bool may_be_held = claims_ && attributes->type == fs::FileType::kRegular;
  if (may_be_held && claims_->IsOutdated(export_->Name(object), mark_)) return std::nullopt;
  return ToAttributes(*attributes);
}

wcc_data Target::ConsistencyData(const fs::WeakCacheData& data) const {
  const post_op_attr after = PostAttributes(data.after);
  if (data.after && !after) return {};
  return ToWeakCacheData(data);
}

Task<nfsstat3> Target::CheckClaims(fs::Handle object, FileClaims::Use use) {
  const NamedFile file = export_->Name(object);
  FileClaims::Checked checked = co_await claims_->Check(loop_, file, use);
  if (checked.hold) held_.push_back(std::move(checked.hold));
  switch (checked.verdict) {
    case FileClaims::Verdict::kFree:
      co_return NFS3_OK;
    case FileClaims::Verdict::kLater:
      co_return NFS3ERR_JUKEBOX;
    case FileClaims::Verdict::kDenied:
      co_return NFS3ERR_ACCES;
  }
  std::unreachable();
}

Task<nfsstat3> Target::CheckClaims(fs::Handle directory, std::string_view name, FileClaims::Use use) {
  const auto found = co_await file_system().Lookup(context(), directory, name);
  if (!found.result) co_return NFS3_OK;  // the procedure itself reports an invalid name
  co_return co_await CheckClaims(found.result->handle, use);
}

Task<fs::WeakCacheData> Target::Unchanged(const fs::Handle& object) const {
  const auto attributes = co_await file_system().GetAttributes(context(), object);
  if (!attributes) co_return fs::WeakCacheData{};
  co_return fs::WeakCacheData{fs::BeforeOf(*attributes), *attributes};
}

}  // namespace penstock::nfs::v3
