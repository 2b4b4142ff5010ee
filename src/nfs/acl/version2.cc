// NFSACL version 2: file handles, attributes and errors are those of NFS version 2. GETATTR is that version's own.
#include "nfs/acl/checks.h"
#include "nfs/acl/procedures.h"

namespace penstock::nfs::acl {

using namespace nfs2;    // NOLINT: the protocol's own names, RFC 1094
using namespace nfsacl;  // NOLINT: the protocol's own names

v2::Reply<GETACL2resok> GetAcl2(v2::Request request, const GETACL2args& arguments) {
  v2::Target target(request, arguments.fh);
  if (!target) co_return std::unexpected(target.error());
  const auto observed = co_await target.file_system().GetAcls(target.context(), target.object());
  GETACL2resok ok;
  PENSTOCK_CO_TRY(ok.acl, ListsOf(target, observed, arguments.mask));
  PENSTOCK_CO_TRY(ok.attr, co_await target.Attributes(target.object(), observed.attributes));
  co_return ok;
}

v2::Reply<fattr> SetAcl2(v2::Request request, const SETACL2args& arguments) {
  v2::Target target(request, arguments.fh);
  if (!target) co_return std::unexpected(target.error());
  PENSTOCK_CO_TRY(const fs::NewAcls acls, ListsToSet(target, arguments.acl));
  if (target.may_be_claimed()) PENSTOCK_CO_CHECK(co_await target.CheckUse(FileClaims::Use::kChange));
  PENSTOCK_CO_CHECK(co_await target.CheckSize());

  const auto changed = co_await target.file_system().SetAcls(target.context(), target.object(), acls);
  if (!changed.result) co_return std::unexpected(ErrorOfSet(changed.result.error()));
  co_return co_await target.AttributesAfter(changed.object.after);
}

v2::Reply<ACCESS2resok> Access2(v2::Request request, const ACCESS2args& arguments) {
  v2::Target target(request, arguments.fh);
  if (!target) co_return std::unexpected(target.error());
  const auto observed = co_await target.Access(arguments.access);
  ACCESS2resok ok;
  PENSTOCK_CO_TRY(ok.access, observed.result);
  PENSTOCK_CO_TRY(ok.attr, co_await target.Attributes(target.object(), observed.attributes));
  co_return ok;
}

}  // namespace penstock::nfs::acl
