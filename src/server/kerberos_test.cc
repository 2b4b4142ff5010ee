// The whole server with a keytab, and a client that uses Kerberos. tests/harness/kerberos.py makes the realm.
#include <gmock/gmock.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "protocol/mount.h"
#include "protocol/nfs3.h"
#include "rpc/gss/test_kerberos.h"
#include "rpc/tcp/channel.h"
#include "server/test_server.h"

namespace penstock::server {
namespace {

using rpc::GssService;
using rpc::Xid;
using rpc::gss::testing::Environment;
using rpc::gss::testing::Initiator;
using rpc::gss::testing::KerberosInitiator;

template <class Results>
struct Answer {
  rpc::Message message;
  Results results;
};

class KerberosServerTest : public testing::Test {
 protected:
  KerberosServerTest() {
    std::filesystem::create_directory(tree());
    std::filesystem::permissions(tree(), std::filesystem::perms::all);
    std::ofstream(tree() / "file") << std::string(300'000, 'x');
  }

  std::filesystem::path tree() const { return directory_.path() / "tree"; }
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

  using Use = std::function<Task<void>(rpc::Channel&, Initiator&)>;
  // Runs `use` with a security context of the user alice.
  void AsAlice(Server& server, const Use& use) {
    KerberosInitiator mechanism(Environment("PENSTOCK_CACHE_ALICE"));
    Initiator alice(mechanism, loop_.buffers());
    bool ended = false;
    Spawn([](KerberosServerTest& self, Server& at, Initiator& who, const Use& f, bool& out) -> Task<void> {
      auto channel = co_await rpc::tcp::Channel::Connect(self.loop_, at.addresses().tcp);
      EXPECT_TRUE(channel);
      const rpc::gss::testing::Target target{.program = nfs3::NFS_PROGRAM, .version = nfs3::NFS_V3, .procedure = 0};
      rpc::Message call = who.Create(Xid(1), target);
      const auto reply = co_await (*channel)->Call(std::move(call), rpc::ReplyShape());
      if (reply) who.HandleCreated(*reply);
      EXPECT_TRUE(who.established());
      if (who.established()) co_await f(**channel, who);
      channel->reset();
      out = true;
      self.loop_.Finish();
    }(*this, server, alice, use, ended));
    loop_.Run();
    EXPECT_TRUE(ended);
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
  AsAlice(**server, [&](rpc::Channel& channel, Initiator& alice) -> Task<void> {
    for (const GssService service : {GssService::kNone, GssService::kIntegrity, GssService::kPrivacy}) {
      const mount3::dirpath path("/tree");
      const auto mounted = co_await Call<mount3::MOUNTPROC3_MNT>(channel, alice, service, path);
      EXPECT_TRUE(mounted && mounted->results.is_mountinfo());
      if (!mounted || !mounted->results.is_mountinfo()) co_return;
      nfs3::nfs_fh3 directory;
      directory.data.Assign(mounted->results.mountinfo().fhandle.bytes());

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

}  // namespace
}  // namespace penstock::server
