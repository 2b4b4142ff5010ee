// The procedures of NFSACL, one function each. Arguments and results are the types of protocol/nfsacl.x; views in the
// arguments are valid during the call.
#pragma once

#include "base/task.h"
#include "nfs/v3/request.h"
#include "protocol/nfsacl.h"

namespace penstock::nfs::acl {

// version3.cc
Task<nfsacl::GETACL3res> GetAcl3(v3::Request request, const nfsacl::GETACL3args& arguments);
Task<nfsacl::SETACL3res> SetAcl3(v3::Request request, const nfsacl::SETACL3args& arguments);

}  // namespace penstock::nfs::acl
