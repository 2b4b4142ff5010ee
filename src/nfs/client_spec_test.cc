#include "nfs/client_spec.h"

#include <gtest/gtest.h>

#include "nfs/host_names.h"

namespace penstock::nfs {
namespace {

using Kind = ClientSpec::Kind;

IpAddress At(const char* address) { return asio::ip::make_address(address); }

TEST(ClientSpecTest, KnowsTheFormsOfExports5) {
  const std::pair<const char*, Kind> forms[] = {{"*", Kind::kEveryone},
                                                {"192.0.2.1", Kind::kHost},
                                                {"2001:db8::1", Kind::kHost},
                                                {"192.0.2.0/24", Kind::kNetwork},
                                                {"2001:db8::/64", Kind::kNetwork},
                                                {"192.0.2.0/255.255.255.0", Kind::kNetwork},
                                                {"192.0.2.7/32", Kind::kHost},
                                                {"pc001", Kind::kHost},
                                                {"Server.Example", Kind::kHost},
                                                {"*.example", Kind::kPattern},
                                                {"node[0-9].x", Kind::kPattern},
                                                {"pc00?", Kind::kPattern},
                                                {"@trusted", Kind::kNetgroup}};
  for (const auto& [text, kind] : forms) {
    const auto spec = ClientSpec::Parse(text);
    ASSERT_TRUE(spec) << text << ": " << spec.error().message;
    EXPECT_EQ(spec->kind(), kind) << text;
  }
}

TEST(ClientSpecTest, RefusesWhatIsNoClient) {
  for (const char* text :
       {"", "@", "192.0.2.0/33", "192.0.2.0/255.0.255.0", "[2001:db8::1]", "a b", "a,b", "a/24", "a;b"}) {
    EXPECT_FALSE(ClientSpec::Parse(text)) << text;
  }
}

TEST(ClientSpecTest, PrintsItsForm) {
  for (const char* text : {"*", "192.0.2.1", "192.0.2.0/24", "2001:db8::/64", "pc001", "*.example", "@trusted"}) {
    EXPECT_EQ(ClientSpec::Parse(text)->ToString(), text);
  }
  EXPECT_EQ(ClientSpec::Parse("10.0.0.0/255.0.0.0")->ToString(), "10.0.0.0/8");
}

TEST(ClientSpecTest, NetworksNeedNoNames) {
  const auto spec = ClientSpec::Parse("192.0.2.0/255.255.255.0");
  EXPECT_FALSE(spec->NeedsFacts());
  EXPECT_TRUE(spec->Has(At("192.0.2.200"), nullptr));
  EXPECT_FALSE(spec->Has(At("192.0.3.1"), nullptr));
}

TEST(ClientSpecTest, PatternsMatchNamesWithTheirDots) {
  const HostFacts facts{.names = {"a.lab.example"}, .hosts = {}, .netgroups = {}};
  EXPECT_TRUE(ClientSpec::Parse("*.example")->Has(At("192.0.2.1"), &facts));
  EXPECT_TRUE(ClientSpec::Parse("?.LAB.example")->Has(At("192.0.2.1"), &facts));
  EXPECT_TRUE(ClientSpec::Parse("[a-c].lab.*")->Has(At("192.0.2.1"), &facts));
  EXPECT_FALSE(ClientSpec::Parse("*.example.org")->Has(At("192.0.2.1"), &facts));
  EXPECT_FALSE(ClientSpec::Parse("[b-c].lab.*")->Has(At("192.0.2.1"), &facts));
}

TEST(ClientSpecTest, AnAddressIsNeverTakenForAName) {
  EXPECT_FALSE(ClientSpec::Parse("192.0.*")->Has(At("192.0.2.1"), nullptr));
}

TEST(ClientSpecTest, HostsAndNetgroupsFollowTheFacts) {
  const HostFacts facts{.names = {}, .hosts = {"pc001"}, .netgroups = {"trusted"}};
  EXPECT_TRUE(ClientSpec::Parse("PC001")->Has(At("192.0.2.1"), &facts));
  EXPECT_TRUE(ClientSpec::Parse("@trusted")->Has(At("192.0.2.1"), &facts));
  EXPECT_FALSE(ClientSpec::Parse("pc002")->Has(At("192.0.2.1"), &facts));
  EXPECT_FALSE(ClientSpec::Parse("@Trusted")->Has(At("192.0.2.1"), &facts));
  EXPECT_FALSE(ClientSpec::Parse("@trusted")->Has(At("192.0.2.1"), nullptr));
}

}  // namespace
}  // namespace penstock::nfs
