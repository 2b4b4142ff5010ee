// The procedures of NFSACL, one function each. Arguments and results are the types of protocol/nfsacl.x; views in the
// arguments are valid during the call.
#pragma once

#include "base/task.h"
#include "nfs/v2/procedures.h"
#include "nfs/v3/request.h"
#include "protocol/nfsacl.h"

namespace penstock::nfs::acl {

// version2.cc. As in nfs/v2/procedures.h, a function returns the part of the reply that follows NFS_OK, or the error.
v2::Reply<nfsacl::GETACL2resok> GetAcl2(v2::Request request, const nfsacl::GETACL2args& arguments);
v2::Reply<nfs2::fattr> SetAcl2(v2::Request request, const nfsacl::SETACL2args& arguments);
v2::Reply<nfsacl::ACCESS2resok> Access2(v2::Request request, const nfsacl::ACCESS2args& arguments);

// version3.cc
Task<nfsacl::GETACL3res> GetAcl3(v3::Request request, const nfsacl::GETACL3args& arguments);
Task<nfsacl::SETACL3res> SetAcl3(v3::Request request, const nfsacl::SETACL3args& arguments);

}  // namespace penstock::nfs::acl
