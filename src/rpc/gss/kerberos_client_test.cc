#include "rpc/gss/kerberos_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "rpc/gss/kerberos.h"
#include "rpc/gss/test_kerberos.h"

namespace penstock::rpc::gss {
namespace {

using testing::Environment;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Sets the credential cache of the process for a test.
class Cache {
 public:
  explicit Cache(const std::string& name) { ::setenv("KRB5CCNAME", name.c_str(), 1); }
  ~Cache() { ::setenv("KRB5CCNAME", before_.c_str(), 1); }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

 private:
  const std::string before_ = Environment("KRB5CCNAME");
};

std::unique_ptr<Kerberos> OpenServer() {
  auto opened = Kerberos::Open(Environment("KRB5_KTNAME"),
                               [](const std::string& name) { return User{.name = name, .uid = 1001, .gid = 1002}; });
  EXPECT_TRUE(opened) << opened.error().message;
  return *std::move(opened);
}

struct Ends {
  std::unique_ptr<InitiatingContext> client;
  std::unique_ptr<MechanismContext> server;
};
// Establishes a context between both ends.
Ends Establish(InitiatingMechanism& client, Kerberos& server) {
  Ends ends{.client = client.Begin(), .server = server.Begin()};
  const auto first = ends.client->Initiate({});
  EXPECT_TRUE(first) << first.error().text;
  if (!first) return ends;
  EXPECT_FALSE(first->complete) << "the server has not proven who it is";
  const auto accepted = ends.server->Accept(first->token);
  EXPECT_TRUE(accepted) << accepted.error().text;
  if (!accepted) return ends;
  EXPECT_EQ(accepted->major, kComplete);
  const auto last = ends.client->Initiate(accepted->token);
  EXPECT_TRUE(last) << last.error().text;
  EXPECT_TRUE(last && last->complete && last->token.empty());
  return ends;
}

// The text of the failure of the first token.
std::string WhyNot(KerberosClientOptions options) {
  KerberosClient client(std::move(options));
  const auto step = client.Begin()->Initiate({});
  EXPECT_FALSE(step) << "there is a token";
  return step ? "" : step.error().text;
}

TEST(KerberosClient, ProtectsMessagesInBothDirections) {
  KerberosClient client({.host = "localhost"});
  const auto server = OpenServer();
  const Ends ends = Establish(client, *server);
  const ConstBytes message = AsBytes(std::string_view("a message"));
  Mic mic;
  ASSERT_TRUE(ends.client->GetMic(message, mic));
  EXPECT_TRUE(ends.server->VerifyMic(message, mic.bytes()));
  EXPECT_FALSE(ends.server->VerifyMic(message.subspan(1), mic.bytes()));
  EXPECT_FALSE(ends.client->VerifyMic(message, mic.bytes())) << "the client's own message comes back";
  ASSERT_TRUE(ends.server->GetMic(message, mic));
  EXPECT_TRUE(ends.client->VerifyMic(message, mic.bytes()));

  const auto room = ends.client->RoomToWrap(message.size());
  ASSERT_TRUE(room);
  std::vector<std::byte> octets(room->before + message.size() + room->behind);
  CopyBytes(Bytes(octets).subspan(room->before), message);
  ASSERT_TRUE(ends.client->Wrap(octets, *room));
  EXPECT_EQ(AsText(octets).find("message"), std::string_view::npos);
  const auto text = ends.server->Unwrap(octets);
  ASSERT_TRUE(text);
  EXPECT_EQ(AsText(*text), "a message");
}

TEST(KerberosClient, KnowsTheLifetimeOfItsTicket) {
  KerberosClient client({.host = "localhost"});
  const auto server = OpenServer();
  const auto lifetime = Establish(client, *server).client->lifetime();
  ASSERT_TRUE(lifetime);
  EXPECT_GT(*lifetime, std::chrono::hours(1));
  EXPECT_LE(*lifetime, std::chrono::hours(25));
}

TEST(KerberosClient, GetsTicketsFromAKeytab) {
  const Cache none("FILE:/nowhere/at/all");
  KerberosClient client({.host = "localhost", .keytab = Environment("TEST_KEYTAB_BOB")});
  const auto server = OpenServer();
  const Ends ends = Establish(client, *server);
  EXPECT_THAT(ends.server->GetInitiator()->names.display, StartsWith("bob@"));
}

// The tickets of a keytab must not replace those of the user.
TEST(KerberosClient, LeavesTheUsersTicketsAlone) {
  const auto server = OpenServer();
  KerberosClient by_keytab({.host = "localhost", .keytab = Environment("TEST_KEYTAB_BOB")});
  Establish(by_keytab, *server);
  KerberosClient by_cache({.host = "localhost"});
  const Ends ends = Establish(by_cache, *server);
  EXPECT_THAT(ends.server->GetInitiator()->names.display, StartsWith("alice@"));
}

TEST(KerberosClient, SaysThatThereIsNoTicket) {
  const Cache none("FILE:/nowhere/at/all");
  EXPECT_THAT(WhyNot({.host = "localhost"}), HasSubstr("there is no Kerberos ticket: get one with kinit"));
}

TEST(KerberosClient, SaysThatTheKdcDoesNotKnowTheService) {
  EXPECT_THAT(WhyNot({.host = "unknown.example"}),
              HasSubstr("nfs@unknown.example: the KDC does not know this service"));
}

TEST(KerberosClient, SaysThatTheKeytabHasNoKey) {
  EXPECT_THAT(WhyNot({.host = "localhost", .keytab = Environment("TEST_KEYTAB_BOB"), .principal = "alice"}),
              HasSubstr("has no key for alice"));
}

TEST(KerberosClient, SaysThatTheKeytabCannotBeRead) {
  EXPECT_THAT(WhyNot({.host = "localhost", .keytab = "/nowhere/at/all"}), HasSubstr("/nowhere/at/all"));
}

// Another host, whose key the server does not have.
TEST(KerberosClient, SaysWhyTheServerRefusesTheTicket) {
  KerberosClient client({.host = "client1"});
  const auto server = OpenServer();
  const auto context = client.Begin();
  const auto first = context->Initiate({});
  ASSERT_TRUE(first) << first.error().text;
  const auto accepted = server->Begin()->Accept(first->token);
  ASSERT_FALSE(accepted);
  EXPECT_THAT(client.Explain(accepted.error().major, accepted.error().minor), HasSubstr("keytab"));
}

TEST(KerberosClient, SaysThatNoKdcAnswers) {
  char name[] = "/tmp/penstock-krb5-XXXXXX";
  const FileDescriptor file(::mkstemp(name));
  constexpr std::string_view kConfiguration =
      "[libdefaults]\n default_realm = PENSTOCK.TEST\n[realms]\n PENSTOCK.TEST = {\n  kdc = 127.0.0.1:1\n }\n";
  ASSERT_EQ(::write(file.get(), kConfiguration.data(), kConfiguration.size()),
            static_cast<ssize_t>(kConfiguration.size()));
  const std::string before = Environment("KRB5_CONFIG");
  ::setenv("KRB5_CONFIG", name, 1);
  KerberosClient client({.host = "localhost", .keytab = Environment("TEST_KEYTAB_BOB")});
  const auto step = client.Begin()->Initiate({});
  ::setenv("KRB5_CONFIG", before.c_str(), 1);
  ::unlink(name);
  ASSERT_FALSE(step);
  EXPECT_THAT(step.error().text, HasSubstr("no KDC answers"));
  EXPECT_TRUE(step.error().may_pass);
}

}  // namespace
}  // namespace penstock::rpc::gss
