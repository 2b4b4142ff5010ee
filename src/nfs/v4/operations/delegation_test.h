// The fixture for tests of delegations: a file that both clients may open, and a server that can call both.
#pragma once

#include <string_view>
#include <utility>

#include "nfs/v4/operations/stateful_test.h"

namespace penstock::nfs::v4 {

inline constexpr uint32_t kWantRead = OPEN4_SHARE_ACCESS_WANT_READ_DELEG;
inline constexpr uint32_t kWantWrite = OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG;

class DelegationTest : public StatefulTest {
 protected:
  DelegationTest() {
    file = MakeFile("file", "data", 0666);
    LetCall(Client());
    LetCall(Other());
  }

  open_delegation4 Given(SessionClient& client, uint32_t access, std::string_view owner = "owner") {
    const auto opened = TryOpen(client, "file", access, 0, {}, owner);
    EXPECT_EQ(opened.status(), NFS4_OK);
    return opened.resok4().delegation;
  }
  stateid4 ReadDelegation() {
    const auto given = Given(Client(), kRead | kWantRead);
    EXPECT_EQ(given.delegation_type(), OPEN_DELEGATE_READ);
    return given.read().stateid;
  }
  stateid4 WriteDelegation() {
    const auto given = Given(Client(), kBoth | kWantWrite);
    EXPECT_EQ(given.delegation_type(), OPEN_DELEGATE_WRITE);
    return given.write().stateid;
  }
  nfsstat4 Return(const stateid4& id) { return Run(PutFh(file), Op(OP_DELEGRETURN, DELEGRETURN4args{id})).status; }
  auto Wanting(uint32_t want, deleg_claim4 claim = deleg_claim4(CLAIM_FH)) {
    return Op(OP_WANT_DELEGATION, WANT_DELEGATION4args{want, std::move(claim)});
  }

  nfs_fh4 file;
};

}  // namespace penstock::nfs::v4
