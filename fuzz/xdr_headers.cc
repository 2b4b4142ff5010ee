// Decodes the input as an RPC message, an AUTH_SYS credential or an RPC-over-RDMA header. The first octet chooses the
// type.
#include "protocol/rpc.h"
#include "protocol/rpcrdma.h"
#include "xdr_types.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;  // NOLINT: a program of its own
  if (size == 0) return 0;
  const xdr::Message message = fuzz::AsMessage(data + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      fuzz::CheckType<rpcmsg::rpc_msg>(message);
      break;
    case 1:
      fuzz::CheckType<rpcmsg::authsys_parms>(message);
      break;
    default:
      fuzz::CheckType<rpcrdma1::rdma_msg>(message);
      break;
  }
  return 0;
}
