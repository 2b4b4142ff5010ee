#include "nfs/v3/program.h"

#include "nfs/v3/procedures.h"
#include "rpc/handle.h"

namespace penstock::nfs::v3 {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813

namespace {

template <class Procedure>
using ProcedureFunction = Task<typename Procedure::Results> (*)(Request, const typename Procedure::Arguments&);

template <class Procedure>
Task<rpc::AcceptStatus> Run(const Request& request, xdr::Decoder& arguments, xdr::Encoder& results,
                            ProcedureFunction<Procedure> procedure) {
  return rpc::Handle<Procedure>(request.call, arguments, results,
                                [request, procedure](rpc::CallContext&, const typename Procedure::Arguments& decoded) {
                                  return procedure(request, decoded);
                                });
}

// For a procedure that encodes its results itself, and notes an error itself.
template <class Procedure, class Arguments = typename Procedure::Arguments>
Task<rpc::AcceptStatus> RunWriting(Request request, xdr::Decoder& arguments, xdr::Encoder& results,
                                   Task<> (*procedure)(Request, const Arguments&, xdr::Encoder&)) {
  Arguments decoded;
  if (!xdr::Decode(arguments, decoded) || !arguments.Finish()) co_return rpc::AcceptStatus::GARBAGE_ARGS;
  co_await procedure(request, decoded, results);
  if (request.call.outcome.status != 0) request.call.outcome.procedure = Procedure::kName;
  co_return rpc::AcceptStatus::SUCCESS;
}

}  // namespace

uint32_t Program::number() const { return NFS_PROGRAM; }

rpc::VersionRange Program::versions() const { return {.low = NFS_V3, .high = NFS_V3}; }

// RFC 1813 §4.5. A second execution of a procedure that makes or removes a name fails, although the first one
// succeeded. The guard of a repeated SETATTR may not hold any more, and its size would cut off data that was written
// since. A repeated WRITE puts the same octets to the same place. But it must not be executed after the client has the
// reply of the first one: by then the client may have written something else there.
rpc::Classification Program::Classify(rpc::CallContext& context, xdr::Decoder& /*arguments*/) const {
  switch (context.procedure) {
    case NFSPROC3_SETATTR::kNumber:
    case NFSPROC3_CREATE::kNumber:
    case NFSPROC3_MKDIR::kNumber:
    case NFSPROC3_SYMLINK::kNumber:
    case NFSPROC3_MKNOD::kNumber:
    case NFSPROC3_REMOVE::kNumber:
    case NFSPROC3_RMDIR::kNumber:
    case NFSPROC3_RENAME::kNumber:
    case NFSPROC3_LINK::kNumber:
      return {.keep = rpc::Keep::kChange};
    case NFSPROC3_WRITE::kNumber:
      return {.keep = rpc::Keep::kWrite, .takes_arriving = true};
    default:
      return {};
  }
}

Task<rpc::AcceptStatus> Program::Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
  const Request request{exports_, settings_, context, claims_};
  switch (context.procedure) {
    case NFSPROC3_NULL::kNumber:
      return rpc::Handle<NFSPROC3_NULL>(context, arguments, results,
                                        [](rpc::CallContext&, const xdr::Void&) { return xdr::Void(); });
    case NFSPROC3_GETATTR::kNumber:
      return Run<NFSPROC3_GETATTR>(request, arguments, results, GetAttributes);
    case NFSPROC3_SETATTR::kNumber:
      return Run<NFSPROC3_SETATTR>(request, arguments, results, SetAttributes);
    case NFSPROC3_LOOKUP::kNumber:
      return Run<NFSPROC3_LOOKUP>(request, arguments, results, Lookup);
    case NFSPROC3_ACCESS::kNumber:
      return Run<NFSPROC3_ACCESS>(request, arguments, results, Access);
    case NFSPROC3_READLINK::kNumber:
      return Run<NFSPROC3_READLINK>(request, arguments, results, ReadLink);
    case NFSPROC3_READ::kNumber:
      return Run<NFSPROC3_READ>(request, arguments, results, Read);
    case NFSPROC3_WRITE::kNumber:
      return Run<NFSPROC3_WRITE>(request, arguments, results, Write);
    case NFSPROC3_CREATE::kNumber:
      return Run<NFSPROC3_CREATE>(request, arguments, results, Create);
    case NFSPROC3_MKDIR::kNumber:
      return Run<NFSPROC3_MKDIR>(request, arguments, results, MakeDirectory);
    case NFSPROC3_SYMLINK::kNumber:
      return Run<NFSPROC3_SYMLINK>(request, arguments, results, MakeSymlink);
    case NFSPROC3_MKNOD::kNumber:
      return Run<NFSPROC3_MKNOD>(request, arguments, results, MakeNode);
    case NFSPROC3_REMOVE::kNumber:
      return Run<NFSPROC3_REMOVE>(request, arguments, results, Remove);
    case NFSPROC3_RMDIR::kNumber:
      return Run<NFSPROC3_RMDIR>(request, arguments, results, RemoveDirectory);
    case NFSPROC3_RENAME::kNumber:
      return Run<NFSPROC3_RENAME>(request, arguments, results, Rename);
    case NFSPROC3_LINK::kNumber:
      return Run<NFSPROC3_LINK>(request, arguments, results, Link);
    case NFSPROC3_READDIR::kNumber:
      return RunWriting<NFSPROC3_READDIR>(request, arguments, results, ReadDirectory);
    case NFSPROC3_READDIRPLUS::kNumber:
      return RunWriting<NFSPROC3_READDIRPLUS>(request, arguments, results, ReadDirectoryPlus);
    case NFSPROC3_FSSTAT::kNumber:
      return Run<NFSPROC3_FSSTAT>(request, arguments, results, FileSystemStatus);
    case NFSPROC3_FSINFO::kNumber:
      return Run<NFSPROC3_FSINFO>(request, arguments, results, FileSystemInformation);
    case NFSPROC3_PATHCONF::kNumber:
      return Run<NFSPROC3_PATHCONF>(request, arguments, results, PathConfiguration);
    case NFSPROC3_COMMIT::kNumber:
      return Run<NFSPROC3_COMMIT>(request, arguments, results, Commit);
    default:
      return rpc::Refuse(rpc::AcceptStatus::PROC_UNAVAIL);
  }
}

}  // namespace penstock::nfs::v3
