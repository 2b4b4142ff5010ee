// Tests the encoding of RPC-over-RDMA headers (RFC 8166 §4).
#include "protocol/rpcrdma.h"

#include <gtest/gtest.h>

#include "encoding_test.h"
#include "xdr/xdr.h"

namespace penstock::rpcrdma1 {
namespace {

class RpcRdmaHeader : public EncodingTest {
 protected:
  rdma_msg header_{.rdma_xid = 0xabcd, .rdma_vers = RPCRDMA_VERSION, .rdma_credit = 32};
};

TEST_F(RpcRdmaHeader, HasTwentyEightOctetsWithoutChunks) {
  ExpectEncoding(header_, "0000abcd 00000001 00000020 00000000 00000000 00000000 00000000");
}

TEST_F(RpcRdmaHeader, EncodesEachKindOfChunk) {
  auto& chunks = header_.rdma_body.rdma_msg();
  chunks.rdma_reads = {{.entry = {.position = 0x60, .target = {.handle = 1, .length = 2, .offset = 3}}}};
  chunks.rdma_writes.resize(2);
  chunks.rdma_writes[0].entry.target = {{.handle = 4, .length = 5, .offset = 6}};
  chunks.rdma_reply.emplace().target = {{.handle = 7, .length = 8, .offset = 9}, {.handle = 10}};
  ExpectEncoding(header_,
                 "0000abcd 00000001 00000020 00000000 "
                 "00000001 00000060 00000001 00000002 00000000 00000003 00000000 "  // Read list
                 "00000001 00000001 00000004 00000005 00000000 00000006 "  // Write list: a chunk of one segment
                 "00000001 00000000 00000000 "                             // and an empty one
                 "00000001 00000002 00000007 00000008 00000000 00000009 "  // Reply chunk
                 "0000000a 00000000 00000000 00000000");
}

TEST_F(RpcRdmaHeader, EncodesErrors) {
  header_.rdma_body = rdma_body(RDMA_ERROR, rpc_rdma_error(ERR_VERS, rpc_rdma_errvers{1, 1}));
  ExpectEncoding(header_, "0000abcd 00000001 00000020 00000004 00000001 00000001 00000001");
  header_.rdma_body = rdma_body(RDMA_ERROR, rpc_rdma_error(ERR_CHUNK));
  ExpectEncoding(header_, "0000abcd 00000001 00000020 00000004 00000002");
}

}  // namespace
}  // namespace penstock::rpcrdma1
