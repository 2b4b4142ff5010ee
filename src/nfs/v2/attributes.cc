// GETATTR, SETATTR, STATFS.
#include "nfs/v2/convert.h"
#include "nfs/v2/procedures.h"

namespace penstock::nfs::v2 {

using namespace nfs2;  // NOLINT: the protocol's own names, RFC 1094

// RFC 1094 §2.2.2. RFC 2623 §2.3.2: clients call this and STATFS for the root during the mount, before any user has a
// ticket.
Reply<fattr> GetAttributes(Request request, const fhandle& file) {
  Target target(request, file, Target::Flavors::kAnyAtRoot);
  if (!target) co_return std::unexpected(target.error());
  if (target.may_be_claimed()) PENSTOCK_CO_CHECK(co_await target.CheckUse(FileClaims::Use::kReadAttributes));
  co_return co_await target.Attributes(target.object(), std::nullopt);
}

// RFC 1094 §2.2.3
Reply<fattr> SetAttributes(Request request, const sattrargs& arguments) {
  Target target(request, arguments.file);
  if (!target) co_return std::unexpected(target.error());
  if (target.read_only()) co_return std::unexpected(fs::Error::kReadOnly);
  PENSTOCK_CO_TRY(const fs::NewAttributes values, FromNewAttributes(arguments.attributes));
  if (values.size > target.file_system().GetProperties().max_file_size) {
    co_return std::unexpected(fs::Error::kFileTooBig);
  }
  if (target.may_be_claimed()) {
    const auto use = values.size ? FileClaims::Use::kWrite : FileClaims::Use::kChange;
    PENSTOCK_CO_CHECK(co_await target.CheckUse(use));
  }
  if (!values.size) PENSTOCK_CO_CHECK(co_await target.CheckSize());

  const auto changed =
      co_await target.file_system().SetAttributes(target.context(), target.object(), values, std::nullopt);
  if (!changed.result) co_return std::unexpected(changed.result.error());
  co_return co_await target.AttributesAfter(changed.object.after);
}

// RFC 1094 §2.2.18
Reply<statfsok> FileSystemStatus(Request request, const fhandle& object) {
  Target target(request, object, Target::Flavors::kAnyAtRoot);
  if (!target) co_return std::unexpected(target.error());
  const auto observed = co_await target.file_system().GetSpace(target.context(), target.object());
  if (!observed.result) co_return std::unexpected(observed.result.error());
  co_return ToSpace(*observed.result);
}

}  // namespace penstock::nfs::v2
