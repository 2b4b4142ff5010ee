#include "nfs_protocol/security_flavors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace penstock::nfs_protocol {
namespace {

using enum SecurityFlavor;
using testing::ElementsAre;
using testing::HasSubstr;

rpc::Credential Gss(rpc::GssService service) {
  rpc::Credential credential;
  credential.flavor = rpc::AuthFlavor::RPCSEC_GSS;
  credential.service = service;
  return credential;
}

rpc::Credential Ccm(rpc::GssService service) {
  rpc::Credential credential = Gss(service);
  credential.mechanism = rpc::GssMechanism::kConjunction;
  return credential;
}

rpc::Credential Plain(rpc::AuthFlavor flavor) {
  rpc::Credential credential;
  credential.flavor = flavor;
  return credential;
}

std::string ErrorOf(std::string_view text) {
  const auto parsed = SecurityFlavors::Parse(text);
  return parsed ? "" : parsed.error().message;
}

TEST(SecurityFlavors, ParsesNamesInOrderOfPreference) {
  const auto parsed = SecurityFlavors::Parse("krb5p:ccm:krb5i:krb5:sys:none");
  ASSERT_TRUE(parsed);
  EXPECT_THAT(*parsed, ElementsAre(kKrb5p, kCcm, kKrb5i, kKrb5, kSys, kNone));
  EXPECT_EQ(parsed->ToString(), "krb5p:ccm:krb5i:krb5:sys:none");
  EXPECT_THAT(*SecurityFlavors::Parse("sys"), ElementsAre(kSys));
}

TEST(SecurityFlavors, RejectsUnknownAndRepeatedNames) {
  EXPECT_THAT(ErrorOf("sys:lipkey"), HasSubstr("\"lipkey\" is no security flavor"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("\"\" is no security flavor"));
  EXPECT_THAT(ErrorOf("sys:"), HasSubstr("\"\" is no security flavor"));
  EXPECT_EQ(ErrorOf("krb5:sys:krb5"), "\"krb5\" is named twice");
}

// RFC 8881 §2.2.1.1.1.2.1
TEST(SecurityFlavors, HasAPseudoFlavorForEachServiceOfKerberos) {
  EXPECT_EQ(NumberOf(kKrb5), 390003u);
  EXPECT_EQ(NumberOf(kKrb5i), 390004u);
  EXPECT_EQ(NumberOf(kKrb5p), 390005u);
  EXPECT_EQ(NumberOf(kCcm), 200420u);
  EXPECT_EQ(NumberOf(kSys), 1u);
  EXPECT_EQ(NumberOf(kNone), 0u);
}

TEST(SecurityFlavors, DistinguishesTheServicesOfKerberos) {
  const SecurityFlavors integrity{kKrb5i};
  EXPECT_TRUE(integrity.Admits(Gss(rpc::GssService::kIntegrity)));
  EXPECT_FALSE(integrity.Admits(Gss(rpc::GssService::kNone)));
  EXPECT_FALSE(integrity.Admits(Gss(rpc::GssService::kPrivacy)));
  EXPECT_FALSE(integrity.Admits(Plain(rpc::AuthFlavor::AUTH_SYS)));
  EXPECT_FALSE(integrity.Admits(Plain(rpc::AuthFlavor::AUTH_NONE)));
  EXPECT_TRUE((SecurityFlavors{kNone, kSys}).Admits(Plain(rpc::AuthFlavor::AUTH_SYS)));
  EXPECT_FALSE((SecurityFlavors{kSys}).Admits(Plain(rpc::AuthFlavor::AUTH_NONE)));
}

TEST(SecurityFlavors, CcmIsAFlavorOfItsOwnWithEveryService) {
  const SecurityFlavors kerberos{kKrb5, kKrb5i, kKrb5p};
  const SecurityFlavors ccm{kCcm};
  for (const auto service : {rpc::GssService::kNone, rpc::GssService::kIntegrity, rpc::GssService::kPrivacy}) {
    EXPECT_TRUE(ccm.Admits(Ccm(service)));
    EXPECT_FALSE(ccm.Admits(Gss(service)));
    EXPECT_FALSE(kerberos.Admits(Ccm(service)));
  }
  EXPECT_TRUE(ccm.UsesGss());
}

TEST(SecurityFlavors, UnionHasEachFlavorOnce) {
  SecurityFlavors all{kSys};
  all.Add(SecurityFlavors{kKrb5p, kSys});
  EXPECT_EQ(all, (SecurityFlavors{kSys, kKrb5p}));
  EXPECT_NE(all, (SecurityFlavors{kKrb5p, kSys}));
  EXPECT_TRUE(all.UsesGss());
  EXPECT_FALSE((SecurityFlavors{kNone, kSys}).UsesGss());
}

TEST(SecurityFlavors, TheClientsOrderDecidesAmongThoseThatBothAccept) {
  using List = std::vector<SecurityFlavor>;
  EXPECT_EQ(PreferredOf({kKrb5p, kSys, kKrb5}, {kSys, kKrb5, kKrb5p}), (List{kKrb5p, kSys, kKrb5}));
  EXPECT_EQ(PreferredOf({kKrb5p, kSys}, {kSys, kKrb5}), List{kSys});
  EXPECT_EQ(PreferredOf({kKrb5p}, {kSys, kKrb5}), List());
  EXPECT_EQ(PreferredOf({}, {kSys, kKrb5}), (List{kSys, kKrb5})) << "the client has no preference";
  EXPECT_EQ(PreferredOf({kKrb5p, kSys}, {}), (List{kKrb5p, kSys})) << "the server does not tell";
}

}  // namespace
}  // namespace penstock::nfs_protocol
