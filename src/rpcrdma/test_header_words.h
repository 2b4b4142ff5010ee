// The words of the headers that tests of a complete requester or responder make by hand.
#pragma once

#include <cstdint>

namespace penstock::rpcrdma {

// The procedures: RFC 8166 §4.2.4.
inline constexpr uint32_t kMsg = 0, kNomsg = 1, kMsgp = 2, kDone = 3, kError = 4;
// The XID of a call.
inline constexpr uint32_t kXid = 0x1234;

}  // namespace penstock::rpcrdma
