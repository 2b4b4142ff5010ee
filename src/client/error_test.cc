#include "client/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
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

int ErrnoFor(auto status) { return ErrorOf(static_cast<Status>(status), "name").number; }

// Linux on most processors numbers these errors as nfsstat3 does.
TEST(ErrorOf, HasTheErrnoWhoseNameIsThatOfTheStatus) {
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_PERM), EPERM);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_NOENT), ENOENT);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_IO), EIO);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_NXIO), ENXIO);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_ACCES), EACCES);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_EXIST), EEXIST);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_XDEV), EXDEV);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_NODEV), ENODEV);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_NOTDIR), ENOTDIR);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_ISDIR), EISDIR);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_INVAL), EINVAL);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_FBIG), EFBIG);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_NOSPC), ENOSPC);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_ROFS), EROFS);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_MLINK), EMLINK);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_NAMETOOLONG), ENAMETOOLONG);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_NOTEMPTY), ENOTEMPTY);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_DQUOT), EDQUOT);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_STALE), ESTALE);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_REMOTE), EREMOTE);
}

TEST(ErrorOf, HasAnErrnoForErrorsOfNfsAlone) {
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_BADHANDLE), ESTALE);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_NOTSUPP), EOPNOTSUPP);
  EXPECT_EQ(ErrnoFor(nfs3::NFS3ERR_JUKEBOX), EAGAIN);
  EXPECT_EQ(ErrnoFor(nfs4::NFS4ERR_FHEXPIRED), ESTALE);
  EXPECT_EQ(ErrnoFor(nfs4::NFS4ERR_MOVED), EREMOTE);
  EXPECT_EQ(ErrnoFor(nfs4::NFS4ERR_GRACE), EAGAIN);
  EXPECT_EQ(ErrnoFor(nfs4::NFS4ERR_DENIED), EAGAIN);
  EXPECT_EQ(ErrnoFor(nfs4::NFS4ERR_LOCKED), EAGAIN);
  EXPECT_EQ(ErrnoFor(nfs4::NFS4ERR_SHARE_DENIED), EBUSY);
  EXPECT_EQ(ErrnoFor(nfs4::NFS4ERR_EXPIRED), ENOLCK);
  EXPECT_EQ(ErrnoFor(nfs4::NFS4ERR_DEADLOCK), EDEADLK);
  EXPECT_EQ(ErrnoFor(nfs4::NFS4ERR_SYMLINK), ELOOP);
  EXPECT_EQ(ErrnoFor(nfs4::NFS4ERR_NOXATTR), ENODATA);
  EXPECT_EQ(ErrnoFor(nfs4::NFS4ERR_BADCHAR), EILSEQ);
  EXPECT_EQ(ErrnoFor(nfs4::NFS4ERR_BADNAME), EINVAL);
  EXPECT_EQ(ErrnoFor(nfs4::NFS4ERR_BADOWNER), EINVAL);
  EXPECT_EQ(ErrnoFor(nfs4::NFS4ERR_WRONGSEC), EACCES);
  EXPECT_EQ(ErrnoFor(nfs4::NFS4ERR_MINOR_VERS_MISMATCH), EPROTONOSUPPORT);
  EXPECT_EQ(ErrnoFor(nfs4::NFS4ERR_BAD_STATEID), EIO);
  EXPECT_EQ(ErrnoFor(4711), EIO);
}

TEST(ErrorOf, HasAnErrnoOtherThanZeroForEachStatusButSuccess) {
  for (int32_t number = 1; number < 12'000; ++number) EXPECT_GT(ErrnoFor(number), 0) << number;
}

TEST(ErrorOf, AnRpcErrorHasNoStatus) {
  const Error error =
      ErrorOf(rpc::Error{.kind = rpc::Error::Kind::kTransport, .transport = rpc::CallError::kTimedOut}, "server");
  EXPECT_EQ(error.message, "server: the server did not answer in time");
  EXPECT_FALSE(error.status);
}

TEST(ErrorOf, AnRpcErrorHasTheErrnoOfItsKind) {
  using Kind = rpc::Error::Kind;
  const auto number_of = [](Kind kind) { return ErrorOf(rpc::Error{.kind = kind}, "server").number; };
  EXPECT_EQ(number_of(Kind::kProgramUnavailable), EPROTONOSUPPORT);
  EXPECT_EQ(number_of(Kind::kProgramMismatch), EPROTONOSUPPORT);
  EXPECT_EQ(number_of(Kind::kRpcMismatch), EPROTONOSUPPORT);
  EXPECT_EQ(number_of(Kind::kProcedureUnavailable), EOPNOTSUPP);
  EXPECT_EQ(number_of(Kind::kGarbageArguments), EPROTO);
  EXPECT_EQ(number_of(Kind::kMalformedReply), EPROTO);
  EXPECT_EQ(number_of(Kind::kSystemError), EIO);
  EXPECT_EQ(number_of(Kind::kAuthentication), EACCES);
}

TEST(ErrorOf, ATransportErrorHasTheErrnoOfItsReason) {
  const auto number_of = [](rpc::CallError why) {
    return ErrorOf(rpc::Error{.kind = rpc::Error::Kind::kTransport, .transport = why}, "server").number;
  };
  EXPECT_EQ(number_of(rpc::CallError::kDisconnected), ECONNRESET);
  EXPECT_EQ(number_of(rpc::CallError::kTimedOut), ETIMEDOUT);
  EXPECT_EQ(number_of(rpc::CallError::kCancelled), ECANCELED);
  EXPECT_EQ(number_of(rpc::CallError::kTooLarge), EMSGSIZE);
  EXPECT_EQ(number_of(rpc::CallError::kRefused), ECONNREFUSED);
  EXPECT_EQ(number_of(rpc::CallError::kMalformed), EPROTO);
  EXPECT_EQ(number_of(rpc::CallError::kUnreadable), EIO);
  EXPECT_EQ(number_of(rpc::CallError::kNoContext), EACCES);
  EXPECT_EQ(number_of(rpc::CallError::kNotAuthentic), EPROTO);
}

TEST(WithTrouble, AddsTheReasonToAnErrorWithoutStatus) {
  const SetupError trouble{"nobody there", ECONNREFUSED};
  EXPECT_EQ(WithTrouble({"server: lost", std::nullopt}, trouble).message, "server: lost: nobody there");
  EXPECT_EQ(WithTrouble({"server: lost", std::nullopt}, {}).message, "server: lost");
  EXPECT_EQ(WithTrouble({"server: nobody there", std::nullopt}, trouble).message, "server: nobody there");
  EXPECT_EQ(WithTrouble({"name: denied", Status::kAccess}, trouble).message, "name: denied");
}

TEST(WithTrouble, ReplacesTheErrnoOfALostConnection) {
  const SetupError trouble{"nobody there", ETIMEDOUT};
  EXPECT_EQ(WithTrouble({"lost", std::nullopt, ECONNRESET}, trouble).number, ETIMEDOUT);
  EXPECT_EQ(WithTrouble({"lost: nobody there", std::nullopt, ECONNRESET}, trouble).number, ETIMEDOUT);
  EXPECT_EQ(WithTrouble({"lost", std::nullopt, ECONNRESET}, {}).number, ECONNRESET);
  EXPECT_EQ(WithTrouble({"malformed", std::nullopt, EPROTO}, trouble).number, EPROTO);
  EXPECT_EQ(WithTrouble({"denied", Status::kAccess, EACCES}, trouble).number, EACCES);
}

}  // namespace
}  // namespace penstock::client
