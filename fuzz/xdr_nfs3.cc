// Decodes the input as an argument or result of version 3 of NFS, MOUNT or NFSACL. The first octet chooses the type.
#include "protocol/mount.h"
#include "protocol/nfs3.h"
#include "protocol/nfsacl.h"
#include "xdr_types.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;  // NOLINT: a program of its own
  if (size == 0) return 0;
  const xdr::Message message = fuzz::AsMessage(data + 1, size - 1);
  if (data[0] < 128) {
    fuzz::CheckProcedure<nfs3::NFS_V3_procedures>(data[0], message);
  } else if (data[0] >= 192) {
    fuzz::CheckProcedure<nfsacl::NFS_ACL_V3_procedures>(data[0] - 192, message);
  } else {
    fuzz::CheckProcedure<mount3::MOUNT_V3_procedures>(data[0] - 128, message);
  }
  return 0;
}
