#include "client/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "client/set_up.h"
#include "protocol/nfs3.h"
#include "protocol/nfs4_types.h"

namespace penstock::client {
namespace {

std::string DescriptionOf(auto status) { return Describe(static_cast<Status>(status)); }

// RFC 1813 §2.6
TEST(Describe, KnowsEveryStatusOfVersion3) {
  std::set<std::string> texts;
  for (uint32_t number = 0; number < 11'000; ++number) {
    if (XdrName(static_cast<nfs3::nfsstat3>(number)).empty()) continue;
    const std::string text = DescriptionOf(number);
    EXPECT_EQ(text.find("NFS"), text.npos) << text;
    EXPECT_EQ(text.find("unknown"), text.npos) << text;
    texts.insert(text);
  }
  EXPECT_EQ(texts.size(), 28u) << "NXIO and NODEV have the same text";
}

TEST(Describe, ExplainsTheErrorsOfVersion4ThatConcernAUser) {
  EXPECT_EQ(DescriptionOf(nfs4::NFS4ERR_DENIED), "locked by another client");
  EXPECT_EQ(DescriptionOf(nfs4::NFS4ERR_LOCKED), "locked by another client");
  EXPECT_EQ(DescriptionOf(nfs4::NFS4ERR_EXPIRED), "the lease expired and the server released the open files and locks");
  EXPECT_EQ(DescriptionOf(nfs4::NFS4ERR_DELAY), "not available now, try again later");
  EXPECT_EQ(DescriptionOf(nfs4::NFS4ERR_MOVED), "is on another server");
  EXPECT_EQ(DescriptionOf(nfs4::NFS4ERR_SYMLINK), "is a symbolic link");
  EXPECT_EQ(DescriptionOf(nfs4::NFS4ERR_BADOWNER), "the server does not know this owner or group");
}

TEST(Describe, ExplainsEachErrorOfTheSessionsOf2004) {
  std::set<std::string> texts;
  const auto last = static_cast<int32_t>(nfs4::NFS4ERR_SESS01_UNKNOWN_FATE);
  for (auto number = static_cast<int32_t>(nfs4::NFS4ERR_SESS01_BADSESSION); number <= last; ++number) {
    EXPECT_THAT(DescriptionOf(number), testing::Not(testing::HasSubstr("NFS4ERR"))) << number;
    texts.insert(DescriptionOf(number));
  }
  EXPECT_EQ(texts.size(), 10u);
  EXPECT_EQ(DescriptionOf(nfs4::NFS4ERR_CLID_INUSE), "another user of the server has a client with the same name");
}

TEST(Describe, NamesOtherErrorsOfVersion4) {
  EXPECT_EQ(DescriptionOf(nfs4::NFS4ERR_BAD_STATEID), "the server says NFS4ERR_BAD_STATEID");
  EXPECT_EQ(DescriptionOf(nfs4::NFS4ERR_OLD_STATEID), "the server says NFS4ERR_OLD_STATEID");
}

TEST(Describe, GivesTheNumberOfAnUnknownError) { EXPECT_EQ(DescriptionOf(4711), "unknown error 4711"); }

TEST(ErrorOf, BeginsWithTheNameAndKeepsTheStatus) {
  const Error error = ErrorOf(Status::kNotFound, "a/b");
  EXPECT_EQ(error.message, "a/b: no such file or directory");
  EXPECT_EQ(error.status, Status::kNotFound);
}

TEST(ErrorOf, AnRpcErrorHasNoStatus) {
  const Error error =
      ErrorOf(rpc::Error{.kind = rpc::Error::Kind::kTransport, .transport = rpc::CallError::kTimedOut}, "server");
  EXPECT_EQ(error.message, "server: the server did not answer in time");
  EXPECT_FALSE(error.status);
}

TEST(WithTrouble, AddsTheReasonToAnErrorWithoutStatus) {
  EXPECT_EQ(WithTrouble({"server: lost", std::nullopt}, "nobody there").message, "server: lost: nobody there");
  EXPECT_EQ(WithTrouble({"server: lost", std::nullopt}, "").message, "server: lost");
  EXPECT_EQ(WithTrouble({"server: nobody there", std::nullopt}, "nobody there").message, "server: nobody there");
  EXPECT_EQ(WithTrouble({"name: denied", Status::kAccess}, "nobody there").message, "name: denied");
}

}  // namespace
}  // namespace penstock::client
