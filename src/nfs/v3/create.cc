// CREATE, MKDIR, SYMLINK, MKNOD.
#include "nfs/v3/convert.h"
#include "nfs/v3/procedures.h"

namespace penstock::nfs::v3 {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813

namespace {

// The results of the four procedures have the same form under different names.
template <class Results, class Ok, class Failed>
Results Answer(const Target& target, const fs::Changed<fs::Node>& changed) {
  const wcc_data directory = ToWeakCacheData(changed.object);
  if (!changed.result) return Results(ToStatus(changed.result.error()), Failed{.dir_wcc = directory});
  return Results(NFS3_OK,
                 Ok{.obj = target.HandleOf(changed.result->handle),
                    .obj_attributes = target.PostAttributes(changed.result->handle, changed.result->attributes),
                    .dir_wcc = directory});
}

// Returns a refusal in the form of a file system's result.
Task<fs::Changed<fs::Node>> Refuse(const Target& target, fs::Error error) {
  const auto unchanged = co_await target.Unchanged();
  co_return fs::Changed<fs::Node>{std::unexpected(error), unchanged};
}

Task<fs::Changed<fs::Node>> CreateFile(const Target& target, const CREATE3args& arguments) {
  if (target.read_only()) co_return co_await Refuse(target, fs::Error::kReadOnly);

  fs::CreateHow how;
  if (arguments.how.mode() == EXCLUSIVE) {
    how.mode = fs::CreateMode::kExclusive;
    how.verifier = FromVerifier<fs::CreateVerifier>(arguments.how.verf());
  } else {
    const auto values = FromNewAttributes(arguments.how.obj_attributes());
    if (!values) co_return co_await Refuse(target, fs::Error::kInvalid);
    how.mode = arguments.how.mode() == GUARDED ? fs::CreateMode::kGuarded : fs::CreateMode::kUnchecked;
    how.attributes = *values;
  }
  co_return co_await target.file_system().Create(target.context(), target.object(), arguments.where.name, how);
}

Task<fs::Changed<fs::Node>> CreateDirectory(const Target& target, const MKDIR3args& arguments) {
  if (target.read_only()) co_return co_await Refuse(target, fs::Error::kReadOnly);
  const auto values = FromNewAttributes(arguments.attributes);
  if (!values) co_return co_await Refuse(target, fs::Error::kInvalid);
  co_return co_await target.file_system().MakeDirectory(target.context(), target.object(), arguments.where.name,
                                                        *values);
}

Task<fs::Changed<fs::Node>> CreateSymlink(const Target& target, const SYMLINK3args& arguments) {
  if (target.read_only()) co_return co_await Refuse(target, fs::Error::kReadOnly);
  const auto values = FromNewAttributes(arguments.symlink.symlink_attributes);
  if (!values) co_return co_await Refuse(target, fs::Error::kInvalid);
  co_return co_await target.file_system().MakeSymlink(target.context(), target.object(), arguments.where.name,
                                                      arguments.symlink.symlink_data.text(), *values);
}

Task<fs::Changed<fs::Node>> CreateNode(const Target& target, const MKNOD3args& arguments) {
  if (target.read_only()) co_return co_await Refuse(target, fs::Error::kReadOnly);

  const mknoddata3& what = arguments.what;
  fs::NodeType type;
  switch (what.type()) {
    case NF3CHR:
      type.type = fs::FileType::kCharacter;
      break;
    case NF3BLK:
      type.type = fs::FileType::kBlock;
      break;
    case NF3SOCK:
      type.type = fs::FileType::kSocket;
      break;
    case NF3FIFO:
      type.type = fs::FileType::kFifo;
      break;
    default:
      co_return co_await Refuse(target, fs::Error::kBadType);  // these types have their own procedures
  }
  if (what.is_device()) type.device = {what.device().spec.specdata1, what.device().spec.specdata2};
  const auto values = FromNewAttributes(what.is_device() ? what.device().dev_attributes : what.pipe_attributes());
  if (!values) co_return co_await Refuse(target, fs::Error::kInvalid);
  co_return co_await target.file_system().MakeNode(target.context(), target.object(), arguments.where.name, type,
                                                   *values);
}

// UNCHECKED with a size of zero writes to an existing file.
bool MayTruncate(const createhow3& how) { return how.mode() == UNCHECKED && how.obj_attributes().size == 0; }

}  // namespace

// RFC 1813 §3.3.8
Task<CREATE3res> Create(Request request, const CREATE3args& arguments) {
  Target target(request, arguments.where.dir);
  if (!target) co_return CREATE3res(target.status());
  if (MayTruncate(arguments.how) && !target.read_only() && target.may_be_claimed()) {
    const auto use = FileClaims::Use::kWrite;
    const nfsstat3 status = co_await target.CheckClaims(target.object(), arguments.where.name, use);
    if (status != NFS3_OK) {
      const auto unchanged = co_await target.Unchanged();
      co_return CREATE3res(status, CREATE3resfail{.dir_wcc = ToWeakCacheData(unchanged)});
    }
  }
  const auto changed = co_await CreateFile(target, arguments);
  co_return Answer<CREATE3res, CREATE3resok, CREATE3resfail>(target, changed);
}

// RFC 1813 §3.3.9
Task<MKDIR3res> MakeDirectory(Request request, const MKDIR3args& arguments) {
  Target target(request, arguments.where.dir);
  if (!target) co_return MKDIR3res(target.status());
  const auto changed = co_await CreateDirectory(target, arguments);
  co_return Answer<MKDIR3res, MKDIR3resok, MKDIR3resfail>(target, changed);
}

// RFC 1813 §3.3.10
Task<SYMLINK3res> MakeSymlink(Request request, const SYMLINK3args& arguments) {
  Target target(request, arguments.where.dir);
  if (!target) co_return SYMLINK3res(target.status());
  const auto changed = co_await CreateSymlink(target, arguments);
  co_return Answer<SYMLINK3res, SYMLINK3resok, SYMLINK3resfail>(target, changed);
}

// RFC 1813 §3.3.11
Task<MKNOD3res> MakeNode(Request request, const MKNOD3args& arguments) {
  Target target(request, arguments.where.dir);
  if (!target) co_return MKNOD3res(target.status());
  const auto changed = co_await CreateNode(target, arguments);
  co_return Answer<MKNOD3res, MKNOD3resok, MKNOD3resfail>(target, changed);
}

}  // namespace penstock::nfs::v3
