// The common input of the procedures: the call, and the object of its first handle.
#pragma once

#include <optional>

#include "base/buffer.h"
#include "base/task.h"
#include "fs/file_system.h"
#include "nfs/exports.h"
#include "nfs/file_claims.h"
#include "nfs/target.h"
#include "nfs/v2/cookie_table.h"
#include "protocol/nfs2.h"
#include "rpc/dispatch.h"

namespace penstock::nfs::v2 {

// One call without its arguments. It refers to objects that outlive it.
struct Request {
  const Exports& exports;
  CookieTable& cookies;
  rpc::CallContext& call;
  FileClaims* claims;  // null if no version with state is served

  BufferPool& buffers() const { return *call.peer.buffers; }
};

// The object of a handle, with the replies of version 2.
class Target : public nfs::Target {
 public:
  Target(const Request& request, const nfs2::fhandle& handle, Flavors flavors = Flavors::kOfExport)
      : nfs::Target({request.exports, request.call, request.claims}, FromPadded(handle), flavors) {}

  // The following functions require a valid target (operator bool).

  // Fails with kServerFault if the file system's handles do not fit into 32 octets.
  fs::Result<nfs2::fhandle> HandleOf(const fs::Handle& object) const;

  // Returns the object of another handle in the same call. Fails with kXDev if it belongs to another export.
  fs::Result<fs::Handle> Other(const nfs2::fhandle& handle) const { return OtherObject(FromPadded(handle)); }

  // Returns the attributes for the reply of a call that found an object of this export. Version 2 cannot leave them out
  // of a reply. So this recalls a write delegation that may hide newer attributes (kDelay), and asks the file system if
  // `known` has no value. Fails with kFileTooBig if the file is larger than version 2 can say.
  Task<fs::Result<nfs2::fattr>> Attributes(fs::Handle object, std::optional<fs::Attributes> known);

  // Returns the attributes for the reply of a call that changed this object: those after the change. It recalls
  // nothing, since the call must not be executed again.
  Task<fs::Result<nfs2::fattr>> AttributesAfter(std::optional<fs::Attributes> changed) const;

  // Fails with kFileTooBig if the object is a file that is larger than version 2 can say. A procedure that changes a
  // file and returns its attributes checks this first, so that no change is done and then reported as an error.
  Task<fs::Result<void>> CheckSize();
};

}  // namespace penstock::nfs::v2
