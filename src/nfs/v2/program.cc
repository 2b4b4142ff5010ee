#include "nfs/v2/program.h"

#include "nfs/v2/run.h"
#include "rpc/handle.h"

namespace penstock::nfs::v2 {

using namespace nfs2;  // NOLINT: the protocol's own names, RFC 1094

namespace {

// For procedures that do nothing.
template <class Procedure>
Task<rpc::AcceptStatus> RunNothing(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
  return rpc::Handle<Procedure>(context, arguments, results,
                                [](rpc::CallContext&, const xdr::Void&) { return xdr::Void(); });
}

}  // namespace

uint32_t Program::number() const { return NFS_PROGRAM; }

rpc::VersionRange Program::versions() const { return {.low = NFS_VERSION, .high = NFS_VERSION}; }

// As in version 3 (nfs/v3/program.cc). RFC 1094 §3.6 recommends such a cache.
rpc::Classification Program::Classify(rpc::CallContext& context, xdr::Decoder& /*arguments*/) const {
  switch (context.procedure) {
    case NFSPROC_SETATTR::kNumber:
    case NFSPROC_CREATE::kNumber:
    case NFSPROC_REMOVE::kNumber:
    case NFSPROC_RENAME::kNumber:
    case NFSPROC_LINK::kNumber:
    case NFSPROC_SYMLINK::kNumber:
    case NFSPROC_MKDIR::kNumber:
    case NFSPROC_RMDIR::kNumber:
      return {.keep = rpc::Keep::kChange};
    case NFSPROC_WRITE::kNumber:
      return {.keep = rpc::Keep::kWrite};
    default:
      return {};
  }
}

Execution Program::ExecutionOf(rpc::CallContext& context) {
  return {.request = {exports_, cookies_, context, claims_},
          .patience = {context.peer.loop, settings_.patience, stops_}};
}

Task<rpc::AcceptStatus> Program::Call(rpc::CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) {
  const Execution execution = ExecutionOf(context);
  switch (context.procedure) {
    case NFSPROC_NULL::kNumber:
      return RunNothing<NFSPROC_NULL>(context, arguments, results);
    case NFSPROC_GETATTR::kNumber:
      return Run<NFSPROC_GETATTR>(execution, arguments, results, GetAttributes);
    case NFSPROC_SETATTR::kNumber:
      return Run<NFSPROC_SETATTR>(execution, arguments, results, SetAttributes);
    case NFSPROC_ROOT::kNumber:
      return RunNothing<NFSPROC_ROOT>(context, arguments, results);
    case NFSPROC_LOOKUP::kNumber:
      return Run<NFSPROC_LOOKUP>(execution, arguments, results, Lookup);
    case NFSPROC_READLINK::kNumber:
      return Run<NFSPROC_READLINK>(execution, arguments, results, ReadLink);
    case NFSPROC_READ::kNumber:
      return Run<NFSPROC_READ>(execution, arguments, results, Read);
    case NFSPROC_WRITECACHE::kNumber:
      return RunNothing<NFSPROC_WRITECACHE>(context, arguments, results);
    case NFSPROC_WRITE::kNumber:
      return Run<NFSPROC_WRITE>(execution, arguments, results, Write);
    case NFSPROC_CREATE::kNumber:
      return Run<NFSPROC_CREATE>(execution, arguments, results, Create);
    case NFSPROC_REMOVE::kNumber:
      return Run<NFSPROC_REMOVE>(execution, arguments, results, Remove);
    case NFSPROC_RENAME::kNumber:
      return Run<NFSPROC_RENAME>(execution, arguments, results, Rename);
    case NFSPROC_LINK::kNumber:
      return Run<NFSPROC_LINK>(execution, arguments, results, Link);
    case NFSPROC_SYMLINK::kNumber:
      return Run<NFSPROC_SYMLINK>(execution, arguments, results, MakeSymlink);
    case NFSPROC_MKDIR::kNumber:
      return Run<NFSPROC_MKDIR>(execution, arguments, results, MakeDirectory);
    case NFSPROC_RMDIR::kNumber:
      return Run<NFSPROC_RMDIR>(execution, arguments, results, RemoveDirectory);
    case NFSPROC_READDIR::kNumber:
      return Run<NFSPROC_READDIR>(execution, arguments, results, ReadDirectory);
    case NFSPROC_STATFS::kNumber:
      return Run<NFSPROC_STATFS>(execution, arguments, results, FileSystemStatus);
    default:
      return rpc::Refuse(rpc::AcceptStatus::PROC_UNAVAIL);
  }
}

}  // namespace penstock::nfs::v2
