#include "nfs/protections.h"

#include <gtest/gtest.h>

namespace penstock::nfs {
namespace {

using rpc::Protection;

std::string ComplaintAboutProtections(std::string_view text) {
  const auto parsed = Protections::Parse(text);
  return parsed ? "no error" : parsed.error().message;
}

TEST(Protections, AdmitsEveryConnectionByDefault) {
  const Protections all;
  for (const Protection each : {Protection::kNone, Protection::kTls, Protection::kMutualTls}) {
    EXPECT_TRUE(all.Admits(each));
  }
  EXPECT_FALSE(all.AsksForTls());
  EXPECT_EQ(all.ToString(), "none:tls:mtls");
}

TEST(Protections, AdmitsTheNamedConnections) {
  const Protections plain = *Protections::Parse("none");
  EXPECT_TRUE(plain.Admits(Protection::kNone));
  EXPECT_FALSE(plain.Admits(Protection::kTls));
  EXPECT_FALSE(plain.Admits(Protection::kMutualTls));
  EXPECT_FALSE(plain.AsksForTls());

  const Protections mutual = *Protections::Parse("mtls");
  EXPECT_FALSE(mutual.Admits(Protection::kNone));
  EXPECT_FALSE(mutual.Admits(Protection::kTls));
  EXPECT_TRUE(mutual.Admits(Protection::kMutualTls));
  EXPECT_TRUE(mutual.AsksForMutualTls());
  EXPECT_TRUE(mutual.IsOnlyMutualTls());
}

TEST(Protections, TlsIncludesMutualAuthentication) {
  const Protections tls = *Protections::Parse("tls");
  EXPECT_FALSE(tls.Admits(Protection::kNone));
  EXPECT_TRUE(tls.Admits(Protection::kTls));
  EXPECT_TRUE(tls.Admits(Protection::kMutualTls));
  EXPECT_TRUE(tls.AsksForTls());
  EXPECT_FALSE(tls.AsksForMutualTls());
  EXPECT_EQ(tls.ToString(), "tls");
}

TEST(Protections, RejectsUnknownAndRepeatedNames) {
  EXPECT_EQ(ComplaintAboutProtections("ssl"), "\"ssl\" is unknown: choose of none, tls, mtls");
  EXPECT_EQ(ComplaintAboutProtections(""), "\"\" is unknown: choose of none, tls, mtls");
  EXPECT_EQ(ComplaintAboutProtections("tls:"), "\"\" is unknown: choose of none, tls, mtls");
  EXPECT_EQ(ComplaintAboutProtections("tls:tls"), "\"tls\" is named twice");
  EXPECT_EQ(ComplaintAboutProtections("tls:mtls"), "no error");
}

}  // namespace
}  // namespace penstock::nfs
