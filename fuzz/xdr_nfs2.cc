// Decodes the input as an argument or result of version 2 of NFS, NFSACL or MOUNT, which has all procedures of version
// 1. The first octet chooses the type.
#include "protocol/mount1.h"
#include "protocol/nfs2.h"
#include "protocol/nfsacl.h"
#include "xdr_types.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;  // NOLINT: a program of its own
  if (size == 0) return 0;
  const xdr::Message message = fuzz::AsMessage(data + 1, size - 1);
  if (data[0] < 128) {
    fuzz::CheckProcedure<nfs2::NFS_VERSION_procedures>(data[0], message);
  } else if (data[0] >= 192) {
    fuzz::CheckProcedure<nfsacl::NFS_ACL_V2_procedures>(data[0] - 192, message);
  } else {
    fuzz::CheckProcedure<mount1::MOUNT_V2_procedures>(data[0] - 128, message);
  }
  return 0;
}
