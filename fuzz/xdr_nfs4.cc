// Decodes the input as a COMPOUND of NFS version 4: a call or a reply, in either direction. The first octet chooses the
// type.
#include "protocol/nfs4_compound.h"
#include "xdr_types.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;  // NOLINT: a program of its own
  if (size == 0) return 0;
  const xdr::Message message = fuzz::AsMessage(data + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      fuzz::CheckType<nfs4::COMPOUND4args>(message);
      break;
    case 1:
      fuzz::CheckType<nfs4::COMPOUND4res>(message);
      break;
    case 2:
      fuzz::CheckType<nfs4::CB_COMPOUND4args>(message);
      break;
    default:
      fuzz::CheckType<nfs4::CB_COMPOUND4res>(message);
      break;
  }
  return 0;
}
