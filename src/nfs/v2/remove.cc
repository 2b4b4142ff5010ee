// REMOVE, RMDIR, RENAME, LINK.
#include "nfs/v2/procedures.h"

namespace penstock::nfs::v2 {

using namespace nfs2;  // NOLINT: the protocol's own names, RFC 1094

// RFC 1094 §2.2.11
Reply<void> Remove(Request request, const diropargs& arguments) {
  Target target(request, arguments.dir);
  if (!target) co_return std::unexpected(target.error());
  if (target.read_only()) co_return std::unexpected(fs::Error::kReadOnly);
  if (target.may_be_claimed()) {
    PENSTOCK_CO_CHECK(co_await target.CheckUse(target.object(), arguments.name, FileClaims::Use::kChange));
  }
  const auto changed = co_await target.file_system().Remove(target.context(), target.object(), arguments.name);
  co_return changed.result;
}

// RFC 1094 §2.2.16
Reply<void> RemoveDirectory(Request request, const diropargs& arguments) {
  Target target(request, arguments.dir);
  if (!target) co_return std::unexpected(target.error());
  if (target.read_only()) co_return std::unexpected(fs::Error::kReadOnly);
  const auto changed = co_await target.file_system().RemoveDirectory(target.context(), target.object(), arguments.name);
  co_return changed.result;
}

// RFC 1094 §2.2.12. Both files change: the one that gets a new name, and the one that it replaces.
Reply<void> Rename(Request request, const renameargs& arguments) {
  Target target(request, arguments.from.dir);
  if (!target) co_return std::unexpected(target.error());
  PENSTOCK_CO_TRY(const fs::Handle to, target.Other(arguments.to.dir));
  if (target.read_only()) co_return std::unexpected(fs::Error::kReadOnly);
  if (target.may_be_claimed()) {
    const auto use = FileClaims::Use::kChange;
    PENSTOCK_CO_CHECK(co_await target.CheckUse(target.object(), arguments.from.name, use));
    PENSTOCK_CO_CHECK(co_await target.CheckUse(to, arguments.to.name, use));
  }
  const auto renamed = co_await target.file_system().Rename(target.context(), target.object(), arguments.from.name, to,
                                                            arguments.to.name);
  co_return renamed.result;
}

// RFC 1094 §2.2.13
Reply<void> Link(Request request, const linkargs& arguments) {
  Target target(request, arguments.from);
  if (!target) co_return std::unexpected(target.error());
  PENSTOCK_CO_TRY(const fs::Handle directory, target.Other(arguments.to.dir));
  if (target.read_only()) co_return std::unexpected(fs::Error::kReadOnly);
  if (target.may_be_claimed()) PENSTOCK_CO_CHECK(co_await target.CheckUse(FileClaims::Use::kChange));
  const auto linked =
      co_await target.file_system().Link(target.context(), target.object(), directory, arguments.to.name);
  co_return linked.result;
}

}  // namespace penstock::nfs::v2
