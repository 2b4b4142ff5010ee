// LOOKUP, READLINK.
#include "nfs/v3/convert.h"
#include "nfs/v3/procedures.h"

namespace penstock::nfs::v3 {

using namespace nfs3;  // NOLINT: the protocol's own names, RFC 1813

// RFC 1813 §3.3.3
Task<LOOKUP3res> Lookup(Request request, const LOOKUP3args& arguments) {
  Target target(request, arguments.what.dir);
  if (!target) co_return LOOKUP3res(target.status());

  const auto observed = co_await target.file_system().Lookup(target.context(), target.object(), arguments.what.name);
  const post_op_attr directory = ToPostAttributes(observed.attributes);
  if (!observed.result) {
    co_return LOOKUP3res(ToStatus(observed.result.error()), LOOKUP3resfail{.dir_attributes = directory});
  }
  const fs::Node& found = *observed.result;
  co_return LOOKUP3res(NFS3_OK, LOOKUP3resok{.object = target.HandleOf(found.handle),
                                             .obj_attributes = target.PostAttributes(found.handle, found.attributes),
                                             .dir_attributes = directory});
}

// RFC 1813 §3.3.5
Task<READLINK3res> ReadLink(Request request, const READLINK3args& arguments) {
  Target target(request, arguments.symlink);
  if (!target) co_return READLINK3res(target.status());

  const auto observed = co_await target.file_system().ReadLink(target.context(), target.object());
  const post_op_attr attributes = ToPostAttributes(observed.attributes);
  if (!observed.result) {
    co_return READLINK3res(ToStatus(observed.result.error()), READLINK3resfail{.symlink_attributes = attributes});
  }
  // The path is DDP-eligible (RFC 8267 §4), so it needs its own memory.
  const ConstBytes path = AsBytes(*observed.result);
  BufferRef buffer = request.buffers().Allocate(path.size());
  CopyBytes(buffer->bytes(), path);
  const ConstBytes copy = buffer->bytes().first(path.size());
  co_return READLINK3res(NFS3_OK,
                         READLINK3resok{.symlink_attributes = attributes, .data = Slice(std::move(buffer), copy)});
}

}  // namespace penstock::nfs::v3
