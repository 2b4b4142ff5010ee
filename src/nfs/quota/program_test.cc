#include "nfs/quota/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nfs/test_server.h"

namespace penstock::nfs::quota {
namespace {

using namespace rquota;  // NOLINT: the protocol's own names
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int32_t kUserKind = static_cast<int32_t>(USRQUOTA);
constexpr int32_t kGroupKind = static_cast<int32_t>(GRPQUOTA);

class QuotaTest : public testing::Test {
 protected:
  QuotaTest() {
    server.dispatcher.Add(secured);
    server.SetUser(1000);
  }

  void Export(std::string_view path, ExportOptions options = {}, const std::vector<ClientSpec>& clients = {}) {
    server.Export(path, std::move(options), clients);
    server.faults->OfferQuotas([this](fs::QuotaKind kind, uint32_t id) -> fs::TestFiles::QuotaReply {
      asked.push_back((kind == fs::QuotaKind::kUser ? "user " : "group ") + std::to_string(id));
      return reply;
    });
  }

  quota_rslt UserQuota(std::string_view path, uint32_t id) {
    return server.Call<EXT_RQUOTAPROC_GETQUOTA>({path, kUserKind, static_cast<int32_t>(id)});
  }
  quota_rslt GroupQuota(std::string_view path, uint32_t id) {
    return server.Call<EXT_RQUOTAPROC_GETQUOTA>({path, kGroupKind, static_cast<int32_t>(id)});
  }

  TestServer server;
  Program program{server.exports, [] { return int64_t{5000}; }};
  CalledBy secured{program, server.secured};
  fs::TestFiles::QuotaReply reply = fs::Quota{
      .bytes = {.used = 2048, .hard = 10240, .soft = 5120, .grace_ends = 5060}, .files = {.used = 7}, .enforced = true};
  std::vector<std::string> asked;
};

// ---- the answers ----

TEST_F(QuotaTest, TellsTheQuotaOfAUserInBothVersions) {
  Export("/data");
  const rquotablk expected{.rq_bsize = 1024,
                           .rq_active = true,
                           .rq_bhardlimit = 10,
                           .rq_bsoftlimit = 5,
                           .rq_curblocks = 2,
                           .rq_fhardlimit = 0,
                           .rq_fsoftlimit = 0,
                           .rq_curfiles = 7,
                           .rq_btimeleft = 60,
                           .rq_ftimeleft = 0};
  const auto second = UserQuota("/data", 1000);
  ASSERT_EQ(second.status(), Q_OK);
  EXPECT_EQ(second.rquota(), expected);
  const auto first = server.Call<RQUOTAPROC_GETQUOTA>({"/data", 1000});
  ASSERT_EQ(first.status(), Q_OK);
  EXPECT_EQ(first.rquota(), expected);
  EXPECT_THAT(asked, ElementsAre("user 1000", "user 1000"));
}

TEST_F(QuotaTest, TellsTheQuotaOfAGroup) {
  Export("/data");
  EXPECT_EQ(GroupQuota("/data", 1000).status(), Q_OK);
  EXPECT_THAT(asked, ElementsAre("group 1000"));
}

TEST_F(QuotaTest, AcceptsPathsBelowAnExportAndWithoutTheFirstSlash) {
  Export("/data");
  EXPECT_EQ(UserQuota("/data/home/user", 1000).status(), Q_OK);
  EXPECT_EQ(UserQuota("data", 1000).status(), Q_OK);
  EXPECT_EQ(UserQuota("//data/", 1000).status(), Q_OK);
}

TEST_F(QuotaTest, AFileSystemWithoutQuotasHasNone) {
  Export("/data");
  reply = std::nullopt;
  EXPECT_EQ(UserQuota("/data", 1000).status(), Q_NOQUOTA);
}

TEST_F(QuotaTest, KindsOfLaterVersionsHaveNoQuota) {
  Export("/data");
  EXPECT_EQ(server.Call<EXT_RQUOTAPROC_GETQUOTA>({"/data", 2, 1000}).status(), Q_NOQUOTA);
  EXPECT_EQ(server.Call<EXT_RQUOTAPROC_GETQUOTA>({"/data", -1, 1000}).status(), Q_NOQUOTA);
  EXPECT_THAT(asked, IsEmpty());
}

TEST_F(QuotaTest, AnActiveQuotaIsEnforced) {
  Export("/data");
  EXPECT_EQ(server.Call<EXT_RQUOTAPROC_GETACTIVEQUOTA>({"/data", kUserKind, 1000}).status(), Q_OK);
  EXPECT_EQ(server.Call<RQUOTAPROC_GETACTIVEQUOTA>({"/data", 1000}).status(), Q_OK);
  reply = fs::Quota{.enforced = false};
  EXPECT_EQ(server.Call<EXT_RQUOTAPROC_GETACTIVEQUOTA>({"/data", kUserKind, 1000}).status(), Q_NOQUOTA);
  const auto inactive = UserQuota("/data", 1000);
  ASSERT_EQ(inactive.status(), Q_OK);
  EXPECT_FALSE(inactive.rquota().rq_active);
}

TEST_F(QuotaTest, AFailureIsNoQuota) {
  Export("/data");
  reply = std::unexpected(fs::Error::kPerm);
  EXPECT_EQ(UserQuota("/data", 1000).status(), Q_EPERM);
  reply = std::unexpected(fs::Error::kIo);
  const Answer answer = server.Ask(server.EncodeCall<EXT_RQUOTAPROC_GETQUOTA>({"/data", kUserKind, 1000}));
  EXPECT_EQ(answer.accept_status(), rpc::AcceptStatus::SYSTEM_ERR);
}

TEST_F(QuotaTest, LimitsCannotBeSet) {
  Export("/data");
  server.SetUser(0);
  EXPECT_EQ(server.Call<EXT_RQUOTAPROC_SETQUOTA>({.sqa_pathp = "/data"}).status(), Q_EPERM);
  EXPECT_EQ(server.Call<EXT_RQUOTAPROC_SETACTIVEQUOTA>({.sqa_pathp = "/data"}).status(), Q_EPERM);
  EXPECT_EQ(server.Call<RQUOTAPROC_SETQUOTA>({.sqa_pathp = "/data"}).status(), Q_EPERM);
  EXPECT_EQ(server.Call<RQUOTAPROC_SETACTIVEQUOTA>({.sqa_pathp = "/data"}).status(), Q_EPERM);
}

// ---- who may ask ----

TEST_F(QuotaTest, AUserMayAskForTheOwnIdAndGroupsOnly) {
  Export("/data");
  server.SetIdentity({.machine = "client", .uid = 1000, .gid = 100, .groups = {20, 30}});
  EXPECT_EQ(UserQuota("/data", 1000).status(), Q_OK);
  EXPECT_EQ(GroupQuota("/data", 100).status(), Q_OK);
  EXPECT_EQ(GroupQuota("/data", 30).status(), Q_OK);
  EXPECT_EQ(UserQuota("/data", 1001).status(), Q_EPERM);
  EXPECT_EQ(UserQuota("/data", 0).status(), Q_EPERM);
  EXPECT_EQ(GroupQuota("/data", 1000).status(), Q_EPERM);
  EXPECT_EQ(GroupQuota("/data", 0).status(), Q_EPERM);
  EXPECT_THAT(asked, ElementsAre("user 1000", "group 100", "group 30"));
}

TEST_F(QuotaTest, RootOfAClientMayAskForEveryId) {
  Export("/data");  // which maps root to the anonymous user
  server.SetUser(0);
  EXPECT_EQ(UserQuota("/data", 1001).status(), Q_OK);
  EXPECT_EQ(GroupQuota("/data", 20).status(), Q_OK);
  EXPECT_EQ(UserQuota("/data", 0).status(), Q_OK);
  EXPECT_THAT(asked, ElementsAre("user 1001", "group 20", "user 65534")) << "root's files belong to that user";
}

TEST_F(QuotaTest, ASquashedUserGetsTheQuotaThatLimitsIt) {
  Export("/data", {.squash = Squash::kAll, .anonuid = 77, .anongid = 88});
  EXPECT_EQ(UserQuota("/data", 1000).status(), Q_OK);
  EXPECT_EQ(GroupQuota("/data", 1000).status(), Q_OK);
  EXPECT_EQ(UserQuota("/data", 77).status(), Q_EPERM);
  server.SetUser(0);
  EXPECT_EQ(UserQuota("/data", 1001).status(), Q_OK);
  EXPECT_EQ(GroupQuota("/data", 1001).status(), Q_OK);
  EXPECT_THAT(asked, ElementsAre("user 77", "group 88", "user 77", "group 88"));
}

TEST_F(QuotaTest, AnotherHostLearnsNothing) {
  Export("/data", {}, {ClientSpec(*Network::Parse("198.51.100.0/24"))});
  EXPECT_EQ(UserQuota("/data", 1000).status(), Q_EPERM);
  EXPECT_EQ(UserQuota("/missing", 1000).status(), Q_EPERM) << "not even which paths exist";
  server.peer.address = {asio::ip::make_address("198.51.100.1"), server.peer.address.port()};
  EXPECT_EQ(UserQuota("/data", 1000).status(), Q_OK);
  EXPECT_EQ(UserQuota("/missing", 1000).status(), Q_NOQUOTA);
}

TEST_F(QuotaTest, AnyPortMayAsk) {
  Export("/data", {.privileged_ports = true});
  server.peer.address = {server.peer.address.address(), 40000};
  EXPECT_EQ(UserQuota("/data", 1000).status(), Q_OK) << "quota(1) runs as the user";
}

TEST_F(QuotaTest, AFlavorThatTheExportDoesNotAcceptMayNotAsk) {
  Export("/data", {.security = {SecurityFlavor::kKrb5}});
  EXPECT_EQ(UserQuota("/data", 1000).status(), Q_EPERM);
  EXPECT_THAT(asked, IsEmpty());
}

TEST_F(QuotaTest, AConnectionWithoutTheExportsProtectionMayNotAsk) {
  Export("/data", {.protections = *Protections::Parse("tls")});
  EXPECT_EQ(UserQuota("/data", 1000).status(), Q_EPERM);
  EXPECT_THAT(asked, IsEmpty());
  server.peer.protection = rpc::Protection::kTls;
  EXPECT_EQ(UserQuota("/data", 1000).status(), Q_OK);
}

TEST_F(QuotaTest, ACallerWithoutIdentityIsRefused) {
  Export("/data");
  server.SetNoIdentity();
  const Answer answer = server.Ask(server.EncodeCall<EXT_RQUOTAPROC_GETQUOTA>({"/data", kUserKind, 1000}));
  EXPECT_EQ(answer.auth_status(), rpc::AuthStatus::AUTH_TOOWEAK);
  server.Call<EXT_RQUOTAPROC_NULL>({});
}

TEST_F(QuotaTest, RejectsMalformedCalls) {
  Export("/data");
  const std::string path(RQ_PATHLEN + 1, 'x');
  xdr::Void nothing;
  EXPECT_EQ(server.Ask(server.Encode(rpc::Xid(1), RQUOTAPROG, 2, 1, nothing)).accept_status(),
            rpc::AcceptStatus::GARBAGE_ARGS);
  EXPECT_EQ(server.Ask(server.Encode(rpc::Xid(2), RQUOTAPROG, 1, 1, std::pair(path, 0).second)).accept_status(),
            rpc::AcceptStatus::GARBAGE_ARGS);
  EXPECT_EQ(server.Ask(server.Encode(rpc::Xid(3), RQUOTAPROG, 2, 5, nothing)).accept_status(),
            rpc::AcceptStatus::PROC_UNAVAIL);
}

TEST_F(QuotaTest, NoItemIsDdpEligible) {
  const auto check = []<class Procedure>(std::type_identity<Procedure>) {
    EXPECT_EQ(xdr::kExtent<typename Procedure::Arguments>.payloads, 0u) << Procedure::kName;
    EXPECT_EQ(xdr::kExtent<typename Procedure::Results>.payloads, 0u) << Procedure::kName;
  };
  RQUOTAVERS_procedures::ForEach(check);
  EXT_RQUOTAVERS_procedures::ForEach(check);
}

}  // namespace
}  // namespace penstock::nfs::quota
