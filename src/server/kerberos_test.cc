// The whole server with a keytab, and a client that uses Kerberos.
#include "server/kerberos_test.h"

#include <gmock/gmock.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::server {
namespace {

TEST_F(KerberosServerTest, RejectsAMissingKeytab) {
  const auto made = MakeServer(ServerOptions("/nonexistent/keytab"));
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, testing::HasSubstr("/nonexistent/keytab"));
}

TEST_F(KerberosServerTest, UsesTheHostsKeytabByDefault) {
  const auto made = MakeServer(ServerOptions(""));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE((*made)->offers_gss());
}

TEST_F(KerberosServerTest, ReadsAndCreatesFilesUnderEveryService) {
  auto server = MakeServer(ServerOptions(Environment("KRB5_KTNAME")));
  ASSERT_TRUE(server) << server.error().message;
  (*server)->Start();
  AsAlice(**server, [&](rpc::Channel& channel, Initiator& alice, KerberosInitiator&) -> Task<void> {
    for (const GssService service : {GssService::kNone, GssService::kIntegrity, GssService::kPrivacy}) {
      const nfs3::nfs_fh3 directory = co_await Mount(channel, alice, service, "/tree");

      const nfs3::LOOKUP3args wanted{.what = {.dir = directory, .name = "file"}};
      const auto found = co_await Call<nfs3::NFSPROC3_LOOKUP>(channel, alice, service, wanted);
      EXPECT_TRUE(found && found->results.is_resok());
      if (!found || !found->results.is_resok()) co_return;
      const nfs3::READ3args range{.file = found->results.resok().object, .offset = 0, .count = 300'000};
      const auto read = co_await Call<nfs3::NFSPROC3_READ>(channel, alice, service, range);
      EXPECT_TRUE(read && read->results.is_resok());
      if (read) {
        EXPECT_EQ(read->results.resok().data.text(), std::string(300'000, 'x'));
      }

      const std::string name = "made" + std::to_string(static_cast<int>(service));
      const nfs3::CREATE3args make{.where = {.dir = directory, .name = name}, .how = nfs3::createhow3(nfs3::GUARDED)};
      const auto made = co_await Call<nfs3::NFSPROC3_CREATE>(channel, alice, service, make);
      EXPECT_TRUE(made && made->results.is_resok());
      if (::geteuid() == 0) {
        struct stat status{};
        EXPECT_EQ(::stat((tree() / name).c_str(), &status), 0);
        EXPECT_EQ(status.st_uid, ::getpwnam("daemon")->pw_uid) << "the realm maps alice to this user";
      }
    }
  });
  (*server)->Stop();
}

TEST_F(KerberosServerTest, ServesCcmOnlyInExportsThatTakeIt) {
  TestOptions options = ServerOptions(Environment("KRB5_KTNAME"));
  auto exported = nfs::ParseExportSpec("/channel=" + channel_tree().string() + ":rw,sec=krb5p:ccm");
  ASSERT_TRUE(exported);
  options.exports.push_back(*std::move(exported));
  options.ccm_from.push_back(*nfs::Network::Parse("127.0.0.0/8"));
  auto server = MakeServer(options);
  ASSERT_TRUE(server) << server.error().message;
  (*server)->Start();
  AsAlice(**server, [&](rpc::Channel& channel, Initiator& alice, KerberosInitiator& kerberos) -> Task<void> {
    const nfs3::nfs_fh3 strict = co_await Mount(channel, alice, GssService::kNone, "/tree");
    const nfs3::nfs_fh3 open = co_await Mount(channel, alice, GssService::kNone, "/channel");
    const auto loopback = OctetsOf(asio::ip::address_v4::loopback());
    const Claimed claimed{.cookie = alice.handle(), .number = ++sequence_, .client = loopback, .server = loopback};
    ConjunctionInitiator ccm(kerberos, claimed);
    Initiator conjoined(ccm, loop_.buffers());
    const bool established = co_await Establish(channel, conjoined);
    EXPECT_TRUE(established);
    if (!established) co_return;
    EXPECT_TRUE(ccm.IsConfirmed(conjoined.handle()));

    const nfs3::CREATE3args make{.where = {.dir = open, .name = "made"}, .how = nfs3::createhow3(nfs3::GUARDED)};
    const auto made = co_await Call<nfs3::NFSPROC3_CREATE>(channel, conjoined, GssService::kNone, make);
    EXPECT_TRUE(made && made->results.is_resok());
    if (::geteuid() == 0) {
      struct stat status{};
      EXPECT_EQ(::stat((channel_tree() / "made").c_str(), &status), 0);
      EXPECT_EQ(status.st_uid, ::getpwnam("daemon")->pw_uid) << "the realm maps alice to this user";
    }
    const nfs3::LOOKUP3args wanted{.what = {.dir = strict, .name = "file"}};
    const auto refused = co_await DenialOf<nfs3::NFSPROC3_LOOKUP>(channel, conjoined, wanted);
    EXPECT_EQ(refused, rpc::AuthStatus::AUTH_TOOWEAK);

    const uint32_t number = ++sequence_;
    rpc::Message end = alice.Destroy(Xid(100 + number), kNull, GssService::kNone, number);
    const auto ended = co_await channel.Call(std::move(end), rpc::ReplyShape());
    EXPECT_TRUE(ended);
    const nfs3::GETATTR3args asked{.object = open};
    const auto over = co_await DenialOf<nfs3::NFSPROC3_GETATTR>(channel, conjoined, asked);
    EXPECT_EQ(over, rpc::AuthStatus::RPCSEC_GSS_CREDPROBLEM);
  });
  (*server)->Stop();
}

TEST_F(KerberosServerTest, RefusesAnExportWithCcmWithoutProtectedNetworks) {
  TestOptions options = ServerOptions(Environment("KRB5_KTNAME"));
  TermsOf(options.exports.front()).security = {nfs::SecurityFlavor::kCcm};
  const auto made = MakeServer(options);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, testing::HasSubstr("--ccm-from"));
}

}  // namespace
}  // namespace penstock::server
