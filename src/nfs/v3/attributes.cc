// GETATTR, SETATTR, ACCESS.
#include "nfs/v3/convert.h"
#include "nfs/v3/procedures.h"

namespace penstock::nfs::v3 {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813

// RFC 1813 §3.3.1
Task<GETATTR3res> GetAttributes(Request request, const GETATTR3args& arguments) {
  Target target(request, arguments.object, Target::Flavors::kAnyAtRoot);  // see FSINFO
  if (!target) co_return GETATTR3res(target.status());
  if (target.may_be_claimed()) {
    const nfsstat3 status = co_await target.CheckClaims(FileClaims::Use::kReadAttributes);
    if (status != NFS3_OK) co_return GETATTR3res(status);
  }

  const auto attributes = co_await target.file_system().GetAttributes(target.context(), target.object());
  if (!attributes) co_return GETATTR3res(ToStatus(attributes.error()));
  co_return GETATTR3res(NFS3_OK, GETATTR3resok{.obj_attributes = ToAttributes(*attributes)});
}

// RFC 1813 §3.3.2
Task<SETATTR3res> SetAttributes(Request request, const SETATTR3args& arguments) {
  Target target(request, arguments.object);
  if (!target) co_return SETATTR3res(target.status());

  const auto values = FromNewAttributes(arguments.new_attributes);
  nfsstat3 refusal = NFS3_OK;
  if (target.read_only()) {
    refusal = NFS3ERR_ROFS;
  } else if (!values || values->size > target.file_system().GetProperties().max_file_size) {
    refusal = NFS3ERR_INVAL;  // a size that is too large, or an invalid time
  } else if (target.may_be_claimed()) {
    const auto use = values->size ? FileClaims::Use::kWrite : FileClaims::Use::kChange;
    refusal = co_await target.CheckClaims(use);
  }
  if (refusal != NFS3_OK) {
    const auto unchanged = co_await target.Unchanged();
    co_return SETATTR3res(refusal, SETATTR3resfail{.obj_wcc = target.ConsistencyData(unchanged)});
  }

  std::optional<fs::Timestamp> guard;
  if (arguments.guard) guard = FromTime(*arguments.guard);
  const auto changed = co_await target.file_system().SetAttributes(target.context(), target.object(), *values, guard);
  const wcc_data wcc = target.ConsistencyData(changed.object);
  if (!changed.result) co_return SETATTR3res(ToStatus(changed.result.error()), SETATTR3resfail{.obj_wcc = wcc});
  co_return SETATTR3res(NFS3_OK, SETATTR3resok{.obj_wcc = wcc});
}

// RFC 1813 §3.3.4: bits that were not requested, or are unknown, are zero in the reply.
Task<ACCESS3res> Access(Request request, const ACCESS3args& arguments) {
  Target target(request, arguments.object);
  if (!target) co_return ACCESS3res(target.status());

  const auto observed = co_await target.Access(arguments.access);
  const post_op_attr attributes = target.PostAttributes(observed.attributes);
  if (!observed.result) {
    co_return ACCESS3res(ToStatus(observed.result.error()), ACCESS3resfail{.obj_attributes = attributes});
  }
  if (arguments.access != 0 && *observed.result == 0) {
    // The client then denies its programs what they want, without a call.
    request.call.outcome.status = static_cast<uint32_t>(NFS3ERR_ACCES);
    request.call.outcome.procedure = NFSPROC3_ACCESS::kName;
  }
  co_return ACCESS3res(NFS3_OK, ACCESS3resok{.obj_attributes = attributes, .access = *observed.result});
}

static_assert(fs::kAccessRead == ACCESS3_READ && fs::kAccessLookup == ACCESS3_LOOKUP &&
              fs::kAccessModify == ACCESS3_MODIFY && fs::kAccessExtend == ACCESS3_EXTEND &&
              fs::kAccessDelete == ACCESS3_DELETE && fs::kAccessExecute == ACCESS3_EXECUTE);

}  // namespace penstock::nfs::v3
