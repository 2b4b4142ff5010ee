// The fixture for tests of the whole server with a keytab, and a client that uses Kerberos. tests/harness/kerberos.py
// makes the realm.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/mount.h"
#include "protocol/nfs3.h"
#include "rpc/gss/test_conjunction.h"
#include "rpc/gss/test_kerberos.h"
#include "rpc/tcp/channel.h"
#include "server/test_server.h"

namespace penstock::server {

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
    std::filesystem::permissions(tree() / "file", std::filesystem::perms(0666));
  }

  std::filesystem::path tree() const { return directory_.path() / "tree"; }
  std::filesystem::path channel_tree() const { return directory_.path() / "channel"; }
  TestOptions ServerOptions(const std::string& keytab) const {
    TestOptions options;
    auto exported = nfs::ParseExportSpec("/tree=" + tree().string() + ":rw,sec=krb5:krb5i:krb5p");
    EXPECT_TRUE(exported);
    options.exports.push_back(*std::move(exported));
    options.listen = Addresses::At(asio::ip::address_v4::loopback(), 0, 0, 0);
    options.threads = 2;
    options.state_directory = directory_.path() / "state";
    options.keytab = keytab;
    return options;
  }

  // The last argument is the mechanism of the context.
  using Use = std::function<Task<void>(rpc::Channel&, Initiator&, KerberosInitiator&)>;
  // Runs `use` with a security context of the user alice.
  void AsAlice(Server& server, const Use& use) {
    KerberosInitiator mechanism(Environment("TEST_CACHE_ALICE"));
    Initiator alice(mechanism, loop_.buffers());
    bool ended = false;
    Spawn([](KerberosServerTest& self, Server& at, Initiator& who, KerberosInitiator& by, const Use& f,
             bool& out) -> Task<void> {
      auto channel = co_await rpc::tcp::Channel::Connect(self.loop_, at.addresses().tcp.front());
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

}  // namespace penstock::server
