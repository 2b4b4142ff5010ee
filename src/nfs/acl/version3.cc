// GETACL and SETACL of NFSACL version 3: file handles, attributes and errors are those of NFS version 3.
#include "nfs/acl/checks.h"
#include "nfs/acl/procedures.h"
#include "nfs/v3/convert.h"

namespace penstock::nfs::acl {

using namespace nfs3;    // NOLINT: the protocol's own names, RFC 1813
using namespace nfsacl;  // NOLINT: the protocol's own names

namespace {

SETACL3res Failure(nfsstat3 status, const post_op_attr& attributes) {
  return SETACL3res(status, SETACL3resfail{.attr = attributes});
}

}  // namespace

Task<GETACL3res> GetAcl3(v3::Request request, const GETACL3args& arguments) {
  v3::Target target(request, arguments.fh);
  if (!target) co_return GETACL3res(target.status());

  // Every caller may read the lists. They are the file system's even under a delegation, whose client knows newer data
  // at most.
  const auto observed = co_await target.file_system().GetAcls(target.context(), target.object());
  const post_op_attr attributes = target.PostAttributes(observed.attributes);
  auto lists = ListsOf(target, observed, arguments.mask);
  if (!lists) co_return GETACL3res(v3::ToStatus(lists.error()), GETACL3resfail{.attr = attributes});
  co_return GETACL3res(NFS3_OK, GETACL3resok{.attr = attributes, .acl = *std::move(lists)});
}

Task<SETACL3res> SetAcl3(v3::Request request, const SETACL3args& arguments) {
  v3::Target target(request, arguments.fh);
  if (!target) co_return SETACL3res(target.status());

  const auto acls = ListsToSet(target, arguments.acl);
  nfsstat3 refusal = acls ? NFS3_OK : v3::ToStatus(acls.error());
  if (acls && target.may_be_claimed()) refusal = co_await target.CheckClaims(FileClaims::Use::kChange);
  if (refusal != NFS3_OK) {
    const auto unchanged = co_await target.Unchanged();
    co_return Failure(refusal, target.PostAttributes(unchanged.after));
  }

  const auto changed = co_await target.file_system().SetAcls(target.context(), target.object(), *acls);
  const post_op_attr attributes = target.PostAttributes(changed.object.after);
  if (!changed.result) co_return Failure(v3::ToStatus(ErrorOfSet(changed.result.error())), attributes);
  co_return SETACL3res(NFS3_OK, SETACL3resok{.attr = attributes});
}

}  // namespace penstock::nfs::acl
