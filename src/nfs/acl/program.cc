#include "nfs/acl/program.h"

#include "nfs/acl/procedures.h"
#include "nfs/v2/run.h"
#include "rpc/handle.h"

namespace penstock::nfs::acl {

using namespace nfsacl;  // NOLINT: the protocol's own names

uint32_t Program::number() const { return NFS_ACL_PROGRAM; }

rpc::VersionRange Program::versions() const { return {.low = nfs2_ ? NFS_ACL_V2 : NFS_ACL_V3, .high = NFS_ACL_V3}; }

// A late second execution of SETACL would undo a change that the client made since. It has the same number in both
// versions.
rpc::Classification Program::Classify(rpc::CallContext& context, xdr::Decoder& /*arguments*/) const {
  static_assert(ACLPROC2_SETACL::kNumber == ACLPROC3_SETACL::kNumber);
  if (context.procedure == ACLPROC3_SETACL::kNumber) return {.keep = rpc::Keep::kChange};
  return {};
}

Task<rpc::AcceptStatus> Program::Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
  if (context.version == NFS_ACL_V2) return CallVersion2(context, arguments, results);
  const v3::Request request{exports_, settings_, context, claims_};
  switch (context.procedure) {
    case ACLPROC3_NULL::kNumber:
      return rpc::Handle<ACLPROC3_NULL>(context, arguments, results,
                                        [](rpc::CallContext&, const xdr::Void&) { return xdr::Void(); });
    case ACLPROC3_GETACL::kNumber:
      return rpc::Handle<ACLPROC3_GETACL>(
          context, arguments, results,
          [request](rpc::CallContext&, const GETACL3args& decoded) { return GetAcl3(request, decoded); });
    case ACLPROC3_SETACL::kNumber:
      return rpc::Handle<ACLPROC3_SETACL>(
          context, arguments, results,
          [request](rpc::CallContext&, const SETACL3args& decoded) { return SetAcl3(request, decoded); });
    default:
      return rpc::Refuse(rpc::AcceptStatus::PROC_UNAVAIL);
  }
}

Task<rpc::AcceptStatus> Program::CallVersion2(rpc::CallContext& context, xdr::Decoder& arguments,
                                              xdr::Encoder& results) {
  const v2::Execution execution = nfs2_->ExecutionOf(context);
  switch (context.procedure) {
    case ACLPROC2_NULL::kNumber:
      return rpc::Handle<ACLPROC2_NULL>(context, arguments, results,
                                        [](rpc::CallContext&, const xdr::Void&) { return xdr::Void(); });
    case ACLPROC2_GETACL::kNumber:
      return v2::Run<ACLPROC2_GETACL>(execution, arguments, results, GetAcl2);
    case ACLPROC2_SETACL::kNumber:
      return v2::Run<ACLPROC2_SETACL>(execution, arguments, results, SetAcl2);
    case ACLPROC2_GETATTR::kNumber:
      return v2::Run<ACLPROC2_GETATTR>(execution, arguments, results, v2::GetAttributes);
    case ACLPROC2_ACCESS::kNumber:
      return v2::Run<ACLPROC2_ACCESS>(execution, arguments, results, Access2);
    default:
      return rpc::Refuse(rpc::AcceptStatus::PROC_UNAVAIL);
  }
}

}  // namespace penstock::nfs::acl
