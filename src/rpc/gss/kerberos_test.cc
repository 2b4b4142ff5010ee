// Tests of contexts with a real KDC: see tests/harness/kerberos.py.
#include "rpc/gss/kerberos.h"

#include <unistd.h>

#include <cerrno>
#include <iostream>

#include "base/test_log.h"
#include "rpc/gss/test_acceptor.h"
#include "rpc/gss/test_kerberos.h"

namespace penstock::rpc::gss {
namespace {

using rpc::testing::Add;
using rpc::testing::Echo;
using rpc::testing::Null;
using rpc::testing::WhoAmI;
using testing::Environment;
using ::testing::HasSubstr;
using testing::KerberosInitiator;

// The users of the host in this test. The realm's configuration maps alice to one of them.
std::optional<User> Users(const std::string& name) {
  if (name == "daemon") return User{.name = name, .uid = 1001, .gid = 1002};
  return std::nullopt;
}

class KerberosTest : public FlavorTest {
 protected:
  KerberosTest() : FlavorTest(Open()) {}

  static std::shared_ptr<Mechanism> Open() {
    auto opened = Kerberos::Open("", &Users);
    EXPECT_TRUE(opened) << opened.error().message;
    return *std::move(opened);
  }
};

TEST_F(KerberosTest, AcceptsCallsOfAUserUnderEveryService) {
  KerberosInitiator mechanism(Environment("TEST_CACHE_ALICE"));
  testing::Initiator alice(mechanism, pool);
  ASSERT_EQ(Establish(alice), 1);
  for (const GssService service : kServices) {
    EXPECT_EQ(Results(alice, service, Null::kNumber, {}), W{});
    EXPECT_EQ(Results(alice, service, Echo::kNumber, {3, 0x61626300}), (W{3, 0x61626300}));
    EXPECT_EQ(Results(alice, service, WhoAmI::kNumber, {}), W{1001});
  }
  EXPECT_EQ(program.last.gid, 1002u);
  EXPECT_EQ(program.last.initiator->display, "alice@PENSTOCK.TEST");
  EXPECT_THAT(program.last.initiator->name, HasSubstr("alice@PENSTOCK.TEST"));
  EXPECT_EQ(program.last.initiator->name.substr(0, 2), std::string("\x04\x01", 2)) << "RFC 2743 §3.2";
}

class NoDirectoryTest : public FlavorTest {
 protected:
  NoDirectoryTest() : FlavorTest(Open()) {}

  static std::shared_ptr<Mechanism> Open() {
    auto opened = Kerberos::Open("", [](const std::string&) -> Found<User> { return std::unexpected(NoAnswer{EIO}); });
    EXPECT_TRUE(opened) << opened.error().message;
    return *std::move(opened);
  }
};

TEST_F(NoDirectoryTest, AUserWhoCannotBeLookedUpGetsNoContext) {
  const CapturedLog log;
  KerberosInitiator mechanism(Environment("TEST_CACHE_ALICE"));
  testing::Initiator alice(mechanism, pool);
  EXPECT_EQ(alice.HandleCreated(Reply(alice.Create(Xid(5), To(0))))->gss_major, kFailure);
  EXPECT_THAT(log.text(), HasSubstr("user daemon cannot be looked up on this host: Input/output error"));
}

TEST_F(NoDirectoryTest, AMachineIsNobodyWithoutALookUp) {
  KerberosInitiator mechanism(Environment("TEST_CACHE_HOST_CLIENT1"));
  testing::Initiator machine(mechanism, pool);
  EXPECT_EQ(Establish(machine), 1);
}

TEST_F(KerberosTest, MapsAMachineToNobody) {
  KerberosInitiator mechanism(Environment("TEST_CACHE_HOST_CLIENT1"));
  testing::Initiator machine(mechanism, pool);
  ASSERT_EQ(Establish(machine), 1);
  EXPECT_EQ(Results(machine, GssService::kIntegrity, WhoAmI::kNumber, {}), W{kNobody});
  EXPECT_EQ(program.last.initiator->display, "host/client1@PENSTOCK.TEST");
}

// The key of nfs under another host name is accepted; a key of another service is not.
TEST_F(KerberosTest, AcceptsAnyKeyOfTheService) {
  char host[256];
  ASSERT_EQ(::gethostname(host, sizeof host), 0);
  KerberosInitiator mechanism(Environment("TEST_CACHE_ALICE"), std::string("nfs@") + host);
  testing::Initiator alice(mechanism, pool);
  EXPECT_EQ(Establish(alice), 1);
  EXPECT_EQ(Results(alice, GssService::kPrivacy, Null::kNumber, {}), W{});
}

// DCE style has three legs, the only case in which Kerberos needs more than one call.
TEST_F(KerberosTest, EstablishesAContextInSeveralCalls) {
  KerberosInitiator mechanism(Environment("TEST_CACHE_ALICE"), "nfs@localhost", GSS_C_MUTUAL_FLAG | GSS_C_DCE_STYLE);
  testing::Initiator alice(mechanism, pool);
  EXPECT_EQ(Establish(alice), 2);
  EXPECT_EQ(Results(alice, GssService::kIntegrity, Null::kNumber, {}), W{});
}

TEST_F(KerberosTest, RejectsAReplayedToken) {
  KerberosInitiator mechanism(Environment("TEST_CACHE_ALICE"));
  testing::Initiator alice(mechanism, pool);
  const Message call = alice.Create(Xid(5), To(0));
  const Message first = Reply(call);
  EXPECT_EQ(alice.HandleCreated(first)->gss_major, 0u);
  const Message second = Reply(call);
  EXPECT_GT(WordsOf(second)[7], 1u) << "the replay cache knows the token";
}

TEST_F(KerberosTest, RejectsAMalformedToken) {
  testing::ToyInitiator toy("no ticket at all");
  testing::Initiator nobody(toy, pool);
  const W reply = WordsOf(Reply(nobody.Create(Xid(5), To(0))));
  ASSERT_EQ(reply.size(), 11u);
  EXPECT_EQ(reply[6], 0u) << "no handle";
  EXPECT_GT(reply[7], 1u) << "neither complete nor to be continued";
}

TEST_F(KerberosTest, ContextExpiresWithItsTicket) {
  KerberosInitiator mechanism(Environment("TEST_CACHE_ALICE"));
  testing::Initiator alice(mechanism, pool);
  ASSERT_EQ(Establish(alice), 1);
  clock.now += std::chrono::hours(12);
  EXPECT_TRUE(Results(alice, GssService::kNone, Null::kNumber, {}));
  clock.now += std::chrono::hours(14);
  EXPECT_FALSE(Results(alice, GssService::kNone, Null::kNumber, {}));
}

// RFC 2203 §5.3.2.3
TEST_F(KerberosTest, RequiresEncryptionUnderPrivacy) {
  KerberosInitiator mechanism(Environment("TEST_CACHE_ALICE"));
  testing::Initiator alice(mechanism, pool);
  ASSERT_EQ(Establish(alice), 1);
  testing::Octets text(8);
  StoreBig<uint32_t>(text.data(), 1);
  StoreBig<uint32_t>(text.data() + 4, 5);
  const auto sealed = [&](bool encrypted) {
    xdr::Encoder encoder(pool);
    encoder.Opaque(mechanism.Wrap(text, encrypted));
    return encoder.Finish();
  };
  // Sends the unsealed arguments under another service.
  const auto status = [&](uint32_t number, bool encrypted) {
    StoreBig<uint32_t>(text.data(), number);
    const Message reply = Reply(alice.Call(Xid(number), To(Add::kNumber), GssService::kNone, number, sealed(encrypted),
                                           {.service = static_cast<uint32_t>(GssService::kPrivacy)}));
    return StatusOf(reply);
  };
  EXPECT_EQ(status(1, true), AcceptStatus::SUCCESS);
  EXPECT_EQ(program.sum, 5u);
  EXPECT_EQ(status(2, false), AcceptStatus::GARBAGE_ARGS);
  EXPECT_EQ(program.sum, 5u);
}

TEST_F(KerberosTest, SealedReplyMatchesTheAnnouncedOverhead) {
  KerberosInitiator mechanism(Environment("TEST_CACHE_ALICE"));
  testing::Initiator alice(mechanism, pool);
  ASSERT_EQ(Establish(alice), 1);
  uint32_t number = 0;
  for (const GssService service : kServices) {
    for (const size_t size : {0u, 1u, 15u, 16u, 17u, 4000u, 100'000u}) {
      xdr::Encoder arguments(pool);
      arguments.Opaque(testing::Octets(size));
      const Message reply = Reply(alice.Call(Xid(9), To(Echo::kNumber), service, ++number, arguments.Finish()));
      ASSERT_TRUE(alice.Open(reply, service, number));
      EXPECT_LE(reply.flat_size(), 24 + 4 + RoundUp(size, 4) + program.last_reply_overhead) << size;
    }
  }
}

// ---- keytabs ----

TEST(Keytab, AcceptsAKeytabWithKeysOfTheService) { EXPECT_TRUE(Kerberos::Open(Environment("KRB5_KTNAME"))); }

TEST(Keytab, ReportsAMissingKeytab) {
  const auto opened = Kerberos::Open("/nonexistent/keytab");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("keytab /nonexistent/keytab: there are no keys: "));
}

// Runs in a process of its own, because the library leaks memory here.
TEST(KeytabDeathTest, ReportsAKeytabWithoutAKeyOfTheService) {
  const auto open = [] {
    const auto opened = Kerberos::Open(Environment("TEST_KEYTAB_HOST_CLIENT1"));
    std::cerr << (opened ? "opened" : opened.error().message);
    std::_Exit(0);
  };
  EXPECT_EXIT(open(), ::testing::ExitedWithCode(0), "there is no key of the service nfs: ");
}

}  // namespace
}  // namespace penstock::rpc::gss
