// LOOKUP, READLINK.
#include "nfs/v2/procedures.h"

namespace penstock::nfs::v2 {

using namespace nfs2;  // NOLINT: the protocol's own names, RFC 1094

// RFC 1094 §2.2.5
Reply<diropok> Lookup(Request request, const diropargs& arguments) {
  Target target(request, arguments.dir);
  if (!target) co_return std::unexpected(target.error());
  const auto observed = co_await target.file_system().Lookup(target.context(), target.object(), arguments.name);
  if (!observed.result) co_return std::unexpected(observed.result.error());
  const fs::Node& found = *observed.result;
  diropok ok;
  PENSTOCK_CO_TRY(ok.file, target.HandleOf(found.handle));
  PENSTOCK_CO_TRY(ok.attributes, co_await target.Attributes(found.handle, found.attributes));
  co_return ok;
}

// RFC 1094 §2.2.6. A path that is longer than version 2 permits is an error, and not shortened.
Reply<xdr::Payload<NFS_MAXPATHLEN>> ReadLink(Request request, const fhandle& symlink) {
  Target target(request, symlink);
  if (!target) co_return std::unexpected(target.error());
  const auto observed = co_await target.file_system().ReadLink(target.context(), target.object());
  if (!observed.result) co_return std::unexpected(observed.result.error());
  const ConstBytes path = AsBytes(*observed.result);
  if (path.size() > NFS_MAXPATHLEN) co_return std::unexpected(fs::Error::kNameTooLong);
  // The path is DDP-eligible (RFC 8267 §4), so it needs its own memory.
  BufferRef buffer = request.buffers().Allocate(path.size());
  CopyBytes(buffer->bytes(), path);
  const ConstBytes copy = buffer->bytes().first(path.size());
  co_return xdr::Payload<NFS_MAXPATHLEN>(Slice(std::move(buffer), copy));
}

}  // namespace penstock::nfs::v2
