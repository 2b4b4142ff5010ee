// The whole server with a keytab, and a client that uses Kerberos. tests/harness/kerberos.py makes the realm.
#include <gmock/gmock.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "protocol/mount.h"
#include "protocol/nfs3.h"
#include "rpc/gss/test_conjunction.h"
#include "rpc/gss/test_kerberos.h"
#include "rpc/tcp/channel.h"
#include "server/test_server.h"

namespace penstock::server {
namespace {

using rpc::GssService;
using rpc::Xid;
using rpc::gss::testing::Claimed;
using rpc::gss::testing::ConjunctionInitiator;
using rpc::gss::testing::Environment;
using rpc::gss::testing::Initiator;
using rpc::gss::testing::KerberosInitiator;
using rpc::gss::testing::OctetsOf;

template <class Results>
struct Answer {
  rpc::Message message;
  Results results;
};

class KerberosServerTest : public testing::Test {
 protected:
  KerberosServerTest() {
    for (const auto& directory : {tree(), channel_tree()}) {
      std::filesystem::create_directory(directory);
      std::filesystem::permissions(directory, std::filesystem::perms::all);
    }
    std::ofstream(tree() / "file") << std::string(300'000, 'x');
  }

  std::filesystem::path tree() const { return directory_.path() / "tree"; }
  std::filesystem::path channel_tree() const { return directory_.path() / "channel"; }
  TestOptions ServerOptions(const std::string& keytab) const {
    TestOptions options;
    auto exported = nfs::ParseExportSpec("/tree=" + tree().string() + ":rw,sec=krb5:krb5i:krb5p");
    EXPECT_TRUE(exported);
    options.exports.push_back(*std::move(exported));
    options.tcp_port = options.rdma_port = options.mount_port = 0;
    options.threads = 2;
    options.state_directory = directory_.path() / "state";
    options.keytab = keytab;
    return options;
  }

  // The last argument is the mechanism of the context.
  using Use = std::function<Task<void>(rpc::Channel&, Initiator&, KerberosInitiator&)>;
  // Runs `use` with a security context of the user alice.
  void AsAlice(Server& server, const Use& use) {
    KerberosInitiator mechanism(Environment("PENSTOCK_CACHE_ALICE"));
    Initiator alice(mechanism, loop_.buffers());
    bool ended = false;
    Spawn([](KerberosServerTest& self, Server& at, Initiator& who, KerberosInitiator& by, const Use& f,
             bool& out) -> Task<void> {
      auto channel = co_await rpc::tcp::Channel::Connect(self.loop_, at.addresses().tcp);
      EXPECT_TRUE(channel);
      const bool established = co_await Establish(**channel, who);
      EXPECT_TRUE(established);
      if (established) co_await f(**channel, who, by);
      channel->reset();
      out = true;
      self.loop_.Finish();
    }(*this, server, alice, mechanism, use, ended));
    loop_.Run();
    EXPECT_TRUE(ended);
  }

  static constexpr rpc::gss::testing::Target kNull{
      .program = nfs3::NFS_PROGRAM, .version = nfs3::NFS_V3, .procedure = 0};
  static Task<bool> Establish(rpc::Channel& channel, Initiator& client) {
    rpc::Message call = client.Create(Xid(1), kNull);
    const auto reply = co_await channel.Call(std::move(call), rpc::ReplyShape());
    if (reply) client.HandleCreated(*reply);
    co_return client.established();
  }
  // Sends a call, and returns the reason why the server denies it, or AUTH_OK.
  template <class Procedure>
  Task<rpc::AuthStatus> DenialOf(rpc::Channel& channel, Initiator& client,
                                 const typename Procedure::Arguments& arguments) {
    xdr::Encoder encoder(loop_.buffers());
    xdr::Encode(encoder, arguments);
    const uint32_t number = ++sequence_;
    const rpc::gss::testing::Target target{
        .program = Procedure::kProgram, .version = Procedure::kVersion, .procedure = Procedure::kNumber};
    rpc::Message call = client.Call(Xid(100 + number), target, GssService::kNone, number, encoder.Finish());
    const auto reply = co_await channel.Call(std::move(call), rpc::ReplyShape());
    EXPECT_TRUE(reply);
    if (!reply) co_return rpc::AuthStatus::AUTH_FAILED;
    xdr::Decoder decoder(*reply);
    rpc::ReplyHeader header;
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, header));
    if (!header.body.is_rreply()) co_return rpc::AuthStatus::AUTH_OK;
    co_return header.body.rreply().why();
  }
  Task<nfs3::nfs_fh3> Mount(rpc::Channel& channel, Initiator& client, GssService service, std::string_view name) {
    const mount3::dirpath path(name);
    const auto mounted = co_await Call<mount3::MOUNTPROC3_MNT>(channel, client, service, path);
    nfs3::nfs_fh3 root;
    EXPECT_TRUE(mounted && mounted->results.is_mountinfo());
    if (mounted && mounted->results.is_mountinfo()) root.data.Assign(mounted->results.mountinfo().fhandle.bytes());
    co_return root;
  }

  template <class Procedure>
  Task<std::optional<Answer<typename Procedure::Results>>> Call(rpc::Channel& channel, Initiator& client,
                                                                GssService service,
                                                                const typename Procedure::Arguments& arguments) {
    xdr::Encoder encoder(loop_.buffers());
    xdr::Encode(encoder, arguments);
    const uint32_t number = ++sequence_;
    const rpc::gss::testing::Target target{
        .program = Procedure::kProgram, .version = Procedure::kVersion, .procedure = Procedure::kNumber};
    rpc::Message call = client.Call(Xid(100 + number), target, service, number, encoder.Finish());
    const auto reply = co_await channel.Call(std::move(call), rpc::ReplyShape());
    if (!reply) co_return std::nullopt;
    auto opened = client.Open(*reply, service, number);
    if (!opened) co_return std::nullopt;
    Answer<typename Procedure::Results> answer{.message = *std::move(opened), .results = {}};
    xdr::Decoder decoder(answer.message);
    const bool decoded = xdr::Decode(decoder, answer.results) && decoder.Finish();
    if (!decoded) co_return std::nullopt;
    co_return answer;
  }

  const TemporaryDirectory directory_;
  Loop loop_;
  uint32_t sequence_ = 0;
};

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
  options.exports.front().options.security = {nfs::SecurityFlavor::kCcm};
  const auto made = MakeServer(options);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, testing::HasSubstr("--ccm-from"));
}

}  // namespace
}  // namespace penstock::server
