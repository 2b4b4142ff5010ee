// REMOVE, RMDIR, RENAME, LINK.
#include "nfs/v3/convert.h"
#include "nfs/v3/procedures.h"

namespace penstock::nfs::v3 {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813

// RFC 1813 §3.3.12. For a directory it answers NFS3ERR_ISDIR, like other servers.
Task<REMOVE3res> Remove(Request request, const REMOVE3args& arguments) {
  Target target(request, arguments.object.dir);
  if (!target) co_return REMOVE3res(target.status());
  nfsstat3 refusal = NFS3_OK;
  if (target.read_only()) {
    refusal = NFS3ERR_ROFS;
  } else if (target.may_be_claimed()) {
    refusal = co_await target.CheckClaims(target.object(), arguments.object.name, FileClaims::Use::kChange);
  }
  if (refusal != NFS3_OK) {
    const auto unchanged = co_await target.Unchanged();
    co_return REMOVE3res(refusal, REMOVE3resfail{.dir_wcc = ToWeakCacheData(unchanged)});
  }

  const auto changed = co_await target.file_system().Remove(target.context(), target.object(), arguments.object.name);
  const wcc_data wcc = ToWeakCacheData(changed.object);
  if (!changed.result) co_return REMOVE3res(ToStatus(changed.result.error()), REMOVE3resfail{.dir_wcc = wcc});
  co_return REMOVE3res(NFS3_OK, REMOVE3resok{.dir_wcc = wcc});
}

// RFC 1813 §3.3.13
Task<RMDIR3res> RemoveDirectory(Request request, const RMDIR3args& arguments) {
  Target target(request, arguments.object.dir);
  if (!target) co_return RMDIR3res(target.status());
  if (target.read_only()) {
    const auto unchanged = co_await target.Unchanged();
    co_return RMDIR3res(NFS3ERR_ROFS, RMDIR3resfail{.dir_wcc = ToWeakCacheData(unchanged)});
  }

  const auto changed =
      co_await target.file_system().RemoveDirectory(target.context(), target.object(), arguments.object.name);
  const wcc_data wcc = ToWeakCacheData(changed.object);
  if (!changed.result) co_return RMDIR3res(ToStatus(changed.result.error()), RMDIR3resfail{.dir_wcc = wcc});
  co_return RMDIR3res(NFS3_OK, RMDIR3resok{.dir_wcc = wcc});
}

namespace {

// Both files change: the one that gets a new name, and the one that it replaces.
Task<nfsstat3> RefuseRename(Target& target, const RENAME3args& arguments, Result<fs::Handle, nfsstat3> to) {
  if (!to) co_return to.error();
  if (target.read_only()) co_return NFS3ERR_ROFS;
  if (!target.may_be_claimed()) co_return NFS3_OK;
  const auto use = FileClaims::Use::kChange;
  const nfsstat3 source = co_await target.CheckClaims(target.object(), arguments.from.name, use);
  if (source != NFS3_OK) co_return source;
  co_return co_await target.CheckClaims(*to, arguments.to.name, use);
}

}  // namespace

// RFC 1813 §3.3.14
Task<RENAME3res> Rename(Request request, const RENAME3args& arguments) {
  Target target(request, arguments.from.dir);
  if (!target) co_return RENAME3res(target.status());
  const auto to = target.Other(arguments.to.dir);
  const nfsstat3 refusal = co_await RefuseRename(target, arguments, to);
  if (refusal != NFS3_OK) {
    const auto from_data = co_await target.Unchanged();
    fs::WeakCacheData to_data;
    if (to) to_data = co_await target.Unchanged(*to);
    co_return RENAME3res(
        refusal, RENAME3resfail{.fromdir_wcc = ToWeakCacheData(from_data), .todir_wcc = ToWeakCacheData(to_data)});
  }

  const auto renamed = co_await target.file_system().Rename(target.context(), target.object(), arguments.from.name, *to,
                                                            arguments.to.name);
  const wcc_data from_wcc = ToWeakCacheData(renamed.from);
  const wcc_data to_wcc = ToWeakCacheData(renamed.to);
  if (!renamed.result) {
    co_return RENAME3res(ToStatus(renamed.result.error()),
                         RENAME3resfail{.fromdir_wcc = from_wcc, .todir_wcc = to_wcc});
  }
  co_return RENAME3res(NFS3_OK, RENAME3resok{.fromdir_wcc = from_wcc, .todir_wcc = to_wcc});
}

// RFC 1813 §3.3.15
Task<LINK3res> Link(Request request, const LINK3args& arguments) {
  Target target(request, arguments.file);
  if (!target) co_return LINK3res(target.status());
  const auto directory = target.Other(arguments.link.dir);
  nfsstat3 refusal = NFS3_OK;
  if (!directory || target.read_only()) {
    refusal = directory ? NFS3ERR_ROFS : directory.error();
  } else if (target.may_be_claimed()) {
    refusal = co_await target.CheckClaims(FileClaims::Use::kChange);
  }
  if (refusal != NFS3_OK) {
    const auto file = co_await target.Unchanged();
    fs::WeakCacheData directory_data;
    if (directory) directory_data = co_await target.Unchanged(*directory);
    co_return LINK3res(refusal, LINK3resfail{.file_attributes = target.PostAttributes(file.after),
                                             .linkdir_wcc = ToWeakCacheData(directory_data)});
  }

  const auto linked =
      co_await target.file_system().Link(target.context(), target.object(), *directory, arguments.link.name);
  const post_op_attr file = target.PostAttributes(linked.file);
  const wcc_data wcc = ToWeakCacheData(linked.directory);
  if (!linked.result) {
    co_return LINK3res(ToStatus(linked.result.error()), LINK3resfail{.file_attributes = file, .linkdir_wcc = wcc});
  }
  co_return LINK3res(NFS3_OK, LINK3resok{.file_attributes = file, .linkdir_wcc = wcc});
}

}  // namespace penstock::nfs::v3
