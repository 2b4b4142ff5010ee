#include "nfs/v2/request.h"

#include "nfs/v2/convert.h"

namespace penstock::nfs::v2 {

using namespace nfs2;  // NOLINT: the protocol's own names, RFC 1094

fs::Result<fhandle> Target::HandleOf(const fs::Handle& object) const {
  const std::optional<PaddedHandle> padded = exported().PaddedHandleOf(object);
  if (!padded) return std::unexpected(fs::Error::kServerFault);
  return *padded;
}

Task<fs::Result<fattr>> Target::Attributes(fs::Handle object, std::optional<fs::Attributes> known) {
  if (known && IsOutdated(object, *known)) {
    PENSTOCK_CO_CHECK(co_await CheckUse(object, FileClaims::Use::kReadAttributes));
    known.reset();
  }
  if (!known) {
    PENSTOCK_CO_TRY(known, co_await file_system().GetAttributes(context(), object));
  }
  co_return ToAttributes(*known);
}

Task<fs::Result<fattr>> Target::AttributesAfter(std::optional<fs::Attributes> changed) const {
  if (!changed) {
    PENSTOCK_CO_TRY(changed, co_await file_system().GetAttributes(context(), object()));
  }
  co_return ToAttributes(*changed);
}

Task<fs::Result<void>> Target::CheckSize() {
  const auto attributes = co_await file_system().GetAttributes(context(), object());
  if (!attributes) co_return std::unexpected(attributes.error());
  if (attributes->type == fs::FileType::kRegular && attributes->size > kMaxSize) {
    co_return std::unexpected(fs::Error::kFileTooBig);
  }
  co_return fs::Result<void>();
}

}  // namespace penstock::nfs::v2
