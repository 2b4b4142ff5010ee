#include "nfs/v3/request.h"

#include <atomic>
#include <chrono>

#include "nfs/patience.h"
#include "nfs/v3/convert.h"

namespace penstock::nfs::v3 {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813

namespace {

// How long a call waits for a delegation before the client is told to try again. Most delegations come back within
// milliseconds, and Linux's client tries again after five seconds.
constexpr Duration kForDelegation = std::chrono::milliseconds(300);
constexpr std::atomic<bool> kNeverEnds{false};

// `file`: the arguments of CheckUse() that name it.
template <class... File>
Task<nfsstat3> CheckPatiently(Target& target, FileClaims::Use use, File... file) {
  Patience patience(target.context().loop, kForDelegation, kNeverEnds);
  for (bool again = true; again;) {
    const fs::Result<void> checked = co_await target.CheckUse(file..., use);
    if (checked || checked.error() != fs::Error::kDelay) co_return StatusOf(checked);
    again = co_await patience.Wait();
  }
  co_return NFS3ERR_JUKEBOX;
}

}  // namespace

nfsstat3 Target::status() const { return *this ? NFS3_OK : ToStatus(error()); }

nfs_fh3 Target::HandleOf(const fs::Handle& object) const { return ToFileHandle(exported().id(), object); }

Result<fs::Handle, nfsstat3> Target::Other(const nfs_fh3& handle) const {
  const auto other = OtherObject(FileHandle::Parse(handle.data.bytes()));
  if (!other) return std::unexpected(ToStatus(other.error()));
  return *other;
}

post_op_attr Target::PostAttributes(const fs::Handle& object, const std::optional<fs::Attributes>& attributes) const {
  if (!attributes || IsOutdated(object, *attributes)) return std::nullopt;
  return ToAttributes(*attributes);
}

wcc_data Target::ConsistencyData(const fs::WeakCacheData& data) const {
  const post_op_attr after = PostAttributes(data.after);
  if (data.after && !after) return {};
  return ToWeakCacheData(data);
}

Task<nfsstat3> Target::CheckClaims(fs::Handle object, FileClaims::Use use) {
  return CheckPatiently(*this, use, object);
}

Task<nfsstat3> Target::CheckClaims(fs::Handle directory, std::string_view name, FileClaims::Use use) {
  return CheckPatiently(*this, use, directory, name);
}

Task<fs::WeakCacheData> Target::Unchanged(const fs::Handle& object) const {
  const auto attributes = co_await file_system().GetAttributes(context(), object);
  if (!attributes) co_return fs::WeakCacheData{};
  co_return fs::WeakCacheData{fs::BeforeOf(*attributes), *attributes};
}

}  // namespace penstock::nfs::v3
